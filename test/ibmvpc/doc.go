// Package ibmvpc runs npctl with the driver ibmvpc against a cloud in memory (drivers/ibmvpc/ibmvpctest), see test/clouds/run.sh.
package ibmvpc
