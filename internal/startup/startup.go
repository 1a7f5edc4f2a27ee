// Package startup makes short commands faster. The initialization of all linked packages allocates more than 4 MB, the size of
// the heap at which the garbage collector first runs, so that without this package a command that prints its version
// would pay for a collection.
package startup

import (
	"runtime"
	"runtime/debug"
)

const (
	percent      = 100 // the default of GOGC
	firstPercent = 400 // the first collection starts at a heap of 16 MB
)

// The package imports only the runtime, so that Go runs this function before the initialization of most other packages. After
// the first collection the collector works as usual. A GOGC of the user stays.
func init() { delay() }

func delay() {
	if before := debug.SetGCPercent(firstPercent); before != percent {
		debug.SetGCPercent(before)
		return
	}
	collected := new([64]byte)
	runtime.AddCleanup(collected, func(int) { debug.SetGCPercent(percent) }, 0)
}
