// Package serve holds the tests that run npctl watch as a process on a real ZooKeeper with TLS and let Zuul's own classes
// use it: what a conforming launcher does with every kind of request and node, seen in the znodes themselves, and what
// becomes of everybody's work when a session is lost. They have the build tag integration. ../README.md says which test
// shows which rule.
package serve
