// Package systemd holds the tests that run npctl's units on a real systemd, in a machine made of namespaces. They have
// the build tag integration; run.sh installs their requirements and runs them.
package systemd
