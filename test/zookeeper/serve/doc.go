// Package serve holds the tests that run npctl watch as a process on a real ZooKeeper with TLS while Zuul's own classes
// use it. They check in the znodes how a conforming launcher handles every kind of request and node, and how Zuul and
// npctl continue after the loss of a session. They have the build tag integration. ../README.md lists the test for each
// rule.
package serve
