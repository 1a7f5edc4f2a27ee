// Package share tests several processes on one ZooKeeper: npctl beside a real nodepool-launcher, a hot standby, and three
// npctl that are killed and cut off at random. Its tests have the build tag integration.
package share
