// Package lab provides tests with a real ZooKeeper and its other clients: servers that tests can kill and pause, Zuul's
// own classes (Peer), a real nodepool-launcher (Launcher), and a Proxy that can cut connections. The tests that use it
// have the build tag integration; test/zookeeper/install.sh installs their requirements.
package lab
