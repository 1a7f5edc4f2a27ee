// Package gce tests whole npctl processes with the driver gce against the Compute Engine of package gcetest, see test/clouds/run.sh.
package gce
