// Package external runs npctl as a process with a driver that is a program, and kills it.
package external
