// Package systemd holds the tests that run npctl's units on a real systemd, in a machine of its own made of namespaces. They
// have the build tag integration; run.sh installs what they need and runs them.
package systemd
