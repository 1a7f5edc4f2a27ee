// Package host has the parts of the operating system that differ between Unix and Windows: atomic replacement of files,
// locks on files, and running processes.
package host
