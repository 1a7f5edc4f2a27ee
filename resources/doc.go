// Package resources defines the vocabulary of npctl: providers, pools, labels, images and nodes as the configuration
// describes them, and the records of the objects that npctl created, with their states and legal transitions. It
// depends on no other package of npctl.
package resources
