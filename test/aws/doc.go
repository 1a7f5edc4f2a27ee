// Package aws tests whole npctl processes with the driver aws against moto, see test/clouds/run.sh.
package aws
