//go:build unix

package bolt

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// identityOf returns the device and the inode of a file.
func identityOf(_ *os.File, info os.FileInfo) (dev, ino uint64) {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Dev), sys.Ino //nolint:unconvert // narrower on some systems
	}
	return 0, 0
}

// mapFile returns the first bytes of a file. They are valid until release.
func mapFile(f *os.File, length int) (data []byte, release func(), err error) {
	data, err = unix.Mmap(int(f.Fd()), 0, length, unix.PROT_READ, unix.MAP_SHARED)
	return data, func() { _ = unix.Munmap(data) }, err
}
