package connlimit

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"syscall"
)

// TestWalksAreExecuted adds this file to npctl: to a package without coverage, which the overlay of go build requires. On each SIGUSR1 npctl writes the coverage counters to a new directory of
// $NPCTL_COVERAGE, numbered from 0, and clears them.
func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for i := 0; ; i++ {
			<-signals
			dir := filepath.Join(os.Getenv("NPCTL_COVERAGE"), strconv.Itoa(i))
			if err := dump(dir + ".part"); err != nil {
				fmt.Fprintln(os.Stderr, "coverage:", err)
			}
			_ = os.Rename(dir+".part", dir)
		}
	}()
}

func dump(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return err
	}
	return coverage.ClearCounters()
}
