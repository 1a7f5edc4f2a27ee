// Package integration holds the tests that use npctl as people do: the built binary with files, a real OpenStack and a
// real diskimage-builder. They verify the results with API calls of their own. They need the build tag integration;
// test/openstack/run.sh and test/dib/run.sh install and start the required services and run the tests.
//
// Each test uses its own OpenStack project, so that it can compare all its objects before and after, and so that tests
// can run in parallel. Tests with faults of the whole lab run first and sequentially.
package integration
