package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/mounts"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// imagesDir is the directory of the image files.
type imagesDir struct {
	path     string
	builders map[string]builders.Builder // remove what a killed build has left
	log      *slog.Logger
}

func (e *Engine) files() imagesDir { return imagesDir{e.imagesDir(), e.Builders, e.Log} }

// list lists the images directory. A missing directory has no files.
func (d imagesDir) list() ([]plan.ImageFile, error) {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return []plan.ImageFile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	files := make([]plan.ImageFile, 0, len(entries))
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			files = append(files, plan.ImageFile{Name: entry.Name(), Size: info.Size()})
		}
	}
	return files, nil
}

// removeBuild removes all files in the images directory with the build ID in their names.
func (d imagesDir) removeBuild(ctx context.Context, b *resources.Build) error {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if plan.BuildIDOfFile(entry.Name()) != b.ID {
			continue
		}
		if err := d.remove(ctx, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a file or directory of the images directory. It first unmounts what a killed builder left mounted.
// While anything is still mounted it deletes nothing, because the deletion would follow the mount.
func (d imagesDir) remove(ctx context.Context, name string) error {
	path := filepath.Join(d.path, name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(path)
	}
	for _, builder := range d.builders {
		if sweeper, ok := builder.(builders.Sweeper); ok {
			if err := sweeper.Sweep(ctx, path); err != nil {
				return fmt.Errorf("sweep %s: %w", path, err)
			}
		}
	}
	return mounts.RemoveTree(ctx, path)
}

// removeWork removes a build's work directory. If that fails, the next plan finds the directory by its name.
func (d imagesDir) removeWork(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := d.remove(ctx, name); err != nil {
		d.log.Warn("work directory of a build was not deleted", "directory", name, "error", err)
	}
}

// removeImage removes a file with a build ID in its name. It rejects any other name.
func (d imagesDir) removeImage(ctx context.Context, name string) error {
	if name != filepath.Base(name) || plan.BuildIDOfFile(name) == "" {
		return fmt.Errorf("%q is not the name of an image file", name)
	}
	return d.remove(ctx, name)
}

// ownerFile names the installation that owns an images directory. npctl treats a file without a record as a leak only
// in a directory that it owns, because another state or program may keep files in any other.
const ownerFile = ".npctl-installation"

// owner returns the installation that has claimed the images directory, or "".
func (d imagesDir) owner() string {
	text, err := os.ReadFile(filepath.Join(d.path, ownerFile))
	if err != nil || len(text) > 1024 {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// claim claims the images directory for an installation, unless it is claimed already.
func (d imagesDir) claim(installation string) error {
	file, err := os.OpenFile(filepath.Join(d.path, ownerFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("claim images directory: %w", err)
	}
	_, err = fmt.Fprintln(file, installation)
	return errors.Join(err, file.Close())
}

// release releases an images directory of this installation that contains no builds.
func (d imagesDir) release(installation string) error {
	if d.owner() != installation {
		return nil
	}
	return os.Remove(filepath.Join(d.path, ownerFile))
}
