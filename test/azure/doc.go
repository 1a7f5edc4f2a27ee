// Package azure tests whole npctl processes with the driver azure against a simulated Azure, see test/clouds/run.sh.
package azure
