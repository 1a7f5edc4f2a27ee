// Package resources is the vocabulary: providers, pools, labels, images and nodes as the configuration wants them, and
// the records of what was made, with their states and legal transitions. It depends on nothing else of npctl.
package resources
