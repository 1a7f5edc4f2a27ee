// Package integration holds the tests that use npctl as people do, the built binary with files, a real OpenStack and a
// real diskimage-builder, and that look at what became of it with calls of their own. They are behind the build tag
// integration; test/openstack/run.sh and test/dib/run.sh install and start what they need and run them.
//
// Each test works in an OpenStack project of its own, so that it can compare everything in it before and after, and so
// that tests may run at the same time. Tests with faults of the whole lab come first, one after the other.
package integration
