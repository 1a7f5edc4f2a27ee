// Package whole holds the tests that run npctl watch beside a whole Zuul (scheduler, merger, executor and web pages from
// its package) whose jobs run with Ansible on machines that npctl gives it, over real SSH. They have the build tag
// integration; run.sh starts what they need and runs them. README.md says what is real in it.
package whole
