// Package whole holds the tests that run npctl watch with a whole Zuul (scheduler, merger, executor and web pages from
// its package). Its jobs run with Ansible on machines that npctl provides, over real SSH. The tests have the build tag
// integration; run.sh starts their requirements and runs them. README.md lists the real components.
package whole
