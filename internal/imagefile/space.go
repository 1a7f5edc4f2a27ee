package imagefile

import (
	"errors"
	"fmt"
)

// ErrNoSpace is wrapped by the error for a file system without enough space.
var ErrNoSpace = errors.New("not enough disk space")

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
