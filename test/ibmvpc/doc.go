// Package ibmvpc runs npctl with the driver ibmvpc against a cloud in memory (drivers/ibmvpc/ibmvpctest).
package ibmvpc
