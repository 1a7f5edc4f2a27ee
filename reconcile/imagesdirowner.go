package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ownerFile names the installation that owns an images directory. npctl treats a file without a record as a leak only
// in a directory that it owns, because another state or program may keep files in any other.
const ownerFile = ".npctl-installation"

// owner returns the installation that has claimed the images directory, or "".
func (e *Engine) owner() string {
	text, err := os.ReadFile(filepath.Join(e.imagesDir(), ownerFile))
	if err != nil || len(text) > 1024 {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// claimImagesDir claims the images directory for an installation, unless it is claimed already.
func (e *Engine) claimImagesDir(installation string) error {
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

// releaseImagesDir releases an images directory of this installation that contains no builds.
func (e *Engine) releaseImagesDir(installation string) error {
	if e.owner() != installation {
		return nil
	}
	return os.Remove(filepath.Join(e.imagesDir(), ownerFile))
}
