//go:build unix

package emulator

import (
	"os"
	"syscall"
)

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	s := stamp{size: info.Size(), time: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.node = uint64(sys.Ino) //nolint:unconvert // narrower on some systems
	}
	return s, nil
}
