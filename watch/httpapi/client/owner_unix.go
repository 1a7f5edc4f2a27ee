//go:build unix

package client

import (
	"os"
	"syscall"
)

// ownerOf returns the ID of the owner of a file.
func ownerOf(info os.FileInfo) (int, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
