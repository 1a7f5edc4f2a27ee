package qemuimg

import (
	"fmt"

	"github.com/npctl/npctl/internal/imagefile"
)

// Check refuses a file that is not of its format, or that refers to other files. It reads the file itself, so that it
// needs no qemu-img, and knows formats that qemu-img does not convert by their marks only.
func Check(path, format string) error {
	if err := imagefile.CheckFormat(path, format); err != nil {
		return err
	}
	if err := checkHeader(path, format); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
