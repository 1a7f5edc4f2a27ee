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

// ErrNoSpace is wrapped by the error for a file system without enough space.
var ErrNoSpace = errors.New("not enough disk space")

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

// CheckFree returns an ErrNoSpace if fewer than need bytes are available in the directory.
func CheckFree(dir string, need int64) error {
	free, err := freeBytes(dir)
	if err != nil {
		return err
	}
	if free < need {
		return fmt.Errorf("%w: %s needs %s and has %s; remove files or choose another directory", ErrNoSpace, dir, Bytes(need), Bytes(free))
	}
	return nil
}

// Allocated returns the number of bytes that a file occupies on the disk; for a sparse file that is less than its
// size.
func Allocated(info os.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

// Bytes formats a number of bytes, such as 1.5 GiB.
func Bytes(n int64) string {
	value, unit := float64(n), 0
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
