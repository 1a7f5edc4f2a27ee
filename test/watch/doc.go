// Package watch holds the tests that run npctl watch as a process and use what it gives as a CI system does: nodes that a
// real SSH client gets into, machines with a real sshd. They are behind the build tag integration; run.sh installs what
// they need and runs them.
package watch
