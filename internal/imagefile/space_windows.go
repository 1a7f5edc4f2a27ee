package imagefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// freeBytes returns the number of bytes available in the directory, or in the nearest existing parent.
func freeBytes(dir string) (int64, error) {
	for {
		name, err := windows.UTF16PtrFromString(dir)
		if err != nil {
			return 0, fmt.Errorf("free space of %s: %w", dir, err)
		}
		var free uint64
		err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
		if errors.Is(err, os.ErrNotExist) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("free space of %s: %w", dir, err)
		}
		return int64(free), nil
	}
}

// Allocated returns the size of the file: images of build hosts with Windows are not sparse.
func Allocated(info os.FileInfo) int64 { return info.Size() }
