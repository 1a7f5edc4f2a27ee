package imagefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/npctl/npctl/internal/host"
)

// partSuffix ends the name of an incomplete file. A process may delete such a file if no process writes it.
const partSuffix = ".part"

// PartName is the name of a file until Publish.
func PartName(final string) string { return final + partSuffix }

// Publish gives the complete PartName(final) its final name. It syncs the content before and the name after.
func Publish(final string) error {
	part := PartName(final)
	if err := host.SyncFile(part); err != nil {
		return fmt.Errorf("write %s to disk: %w", part, err)
	}
	if err := os.Rename(part, final); err != nil {
		return err
	}
	if err := host.SyncDir(filepath.Dir(final)); err != nil {
		return fmt.Errorf("write directory of %s to disk: %w", final, err)
	}
	return nil
}

// Discard removes PartName(final), if there is one.
func Discard(final string) error {
	if err := os.Remove(PartName(final)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Accept takes over a file that another program created: a regular file of the given format. It syncs the file.
func Accept(path, format string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file but a %s", path, info.Mode().Type())
	}
	if err := CheckFormat(path, format); err != nil {
		return err
	}
	return host.SyncFile(path)
}
