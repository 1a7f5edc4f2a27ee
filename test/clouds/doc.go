// Package clouds tests whole npctl processes with the drivers aws, azure, gce and ibmvpc, see run.sh.
package clouds
