package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ownerFile names the installation that an images directory belongs to. Only in a directory of its own does npctl take a
// file without a record for a leak: another state, or another program, may keep files there.
const ownerFile = ".npctl-installation"

// owner returns the installation that has claimed the images directory, or nothing.
func (e *Engine) owner() string {
	text, err := os.ReadFile(filepath.Join(e.imagesDir(), ownerFile))
	if err != nil || len(text) > 1024 {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// claim makes the images directory ours, unless it is somebody's already.
func (e *Engine) claim(installation string) error {
	file, err := os.OpenFile(filepath.Join(e.imagesDir(), ownerFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("claim images directory: %w", err)
	}
	_, err = fmt.Fprintln(file, installation)
	return errors.Join(err, file.Close())
}

// disclaim gives up an images directory of ours that holds no build any more.
func (e *Engine) disclaim(installation string) error {
	if e.owner() != installation {
		return nil
	}
	return os.Remove(filepath.Join(e.imagesDir(), ownerFile))
}
