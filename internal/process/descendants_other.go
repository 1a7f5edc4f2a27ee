//go:build unix && !linux

package process

import (
	"syscall"
	"time"
)

// descendants is empty without /proc: only the process group is known.
type descendants map[int]uint64

func (d descendants) adopt(int)                {}
func (d descendants) add(int, string)          {}
func (d descendants) kill()                    {}
func (d descendants) gone(time.Duration) []int { return nil }

// StartTime reports only whether the process is running.
func StartTime(pid int) (uint64, bool) { return 0, syscall.Kill(pid, 0) == nil }

// KillInside does nothing without /proc.
func KillInside(string, []string) int { return 0 }
