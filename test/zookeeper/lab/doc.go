// Package lab gives tests a real ZooKeeper and those who use it beside npctl: servers that can be killed and paused, Zuul's
// own classes (Peer), a real nodepool-launcher (Launcher), and a Proxy whose connections can be cut. The tests that use it
// have the build tag integration; test/zookeeper/install.sh installs what they need.
package lab
