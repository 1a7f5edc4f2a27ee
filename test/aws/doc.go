// Package aws tests whole npctl processes with the driver aws against moto, see run.sh.
package aws
