package imagefile

import (
	"errors"
	"fmt"

	"github.com/npctl/npctl/internal/text"
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
		return fmt.Errorf("%w: %s needs %s and has %s; remove files or choose another directory", ErrNoSpace, dir, text.Bytes(need), text.Bytes(free))
	}
	return nil
}
