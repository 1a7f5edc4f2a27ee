//go:build unix

package imagefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeBytes returns the number of bytes available in the directory, or in the nearest existing parent.
func freeBytes(dir string) (int64, error) {
	var fs unix.Statfs_t
	for {
		err := unix.Statfs(dir, &fs)
		if errors.Is(err, unix.ENOENT) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("free space of %s: %w", dir, err)
		}
		return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:unconvert // types differ between systems
	}
}

// Allocated returns the number of bytes that a file occupies on the disk; for a sparse file that is less than its
// size.
func Allocated(info os.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}
