// Package startup makes short commands faster. The initialization of all linked packages allocates more than 4 MB, the size of
// the heap at which the garbage collector first runs, so that without this package a command that prints its version
// would pay for a collection.
package startup

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

const (
	percent      = 100 // the default of GOGC
	firstPercent = 400 // the first collection starts at a heap of 16 MB
)

// chosen reports whether the percentage is that of the user or of CollectLess.
var chosen atomic.Bool

// CollectLess sets the percentage of the collector for a process that ends soon. A GOGC of the user stays.
func CollectLess(to int) {
	if chosen.CompareAndSwap(false, true) {
		debug.SetGCPercent(to)
	}
}

// The package imports only the runtime, so that Go runs this function before the initialization of most other packages. After
// the first collection the collector works as usual. A GOGC of the user stays.
func init() { delay() }

func delay() {
	if before := debug.SetGCPercent(firstPercent); before != percent {
		debug.SetGCPercent(before)
		chosen.Store(true)
		return
	}
	collected := new([64]byte)
	runtime.AddCleanup(collected, func(int) { CollectLess(percent) }, 0)
}
