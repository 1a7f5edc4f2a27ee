//go:build unix

package aws

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is the CPU time of the process, which depends less on other load of the machine than a duration.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
