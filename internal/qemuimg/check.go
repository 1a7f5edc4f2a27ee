package qemuimg

import (
	"fmt"

	"github.com/npctl/npctl/internal/imagefile"
)

// Check rejects files of another format, and files that refer to other files. It reads the file itself, without
// qemu-img; it identifies formats that qemu-img cannot convert only by their signatures.
func Check(path, format string) error {
	if err := imagefile.CheckFormat(path, format); err != nil {
		return err
	}
	if err := checkHeader(path, format); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
