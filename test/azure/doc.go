// Package azure tests whole npctl processes with the driver azure against a simulated Azure, see run.sh.
package azure
