//go:build !linux

package process

import (
	"syscall"
	"time"
)

// family is empty where there is no /proc: the process group is all that is known.
type family map[int]uint64

func (f family) add(int, string)          {}
func (f family) kill()                    {}
func (f family) gone(time.Duration) []int { return nil }

// StartTime reports only whether the process lives.
func StartTime(pid int) (uint64, bool) { return 0, syscall.Kill(pid, 0) == nil }

// KillInside finds nothing where there is no /proc.
func KillInside(string, []string) int { return 0 }
