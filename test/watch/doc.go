// Package watch holds the tests that run npctl watch as a process and use its nodes as a CI system does: nodes that a
// real SSH client logs in to, machines with a real sshd. They have the build tag integration; run.sh installs their
// requirements and runs them.
package watch
