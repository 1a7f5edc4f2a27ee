package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/mounts"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// removeBuildFiles removes all files in the images directory with the build ID in their names.
func (x *execution) removeBuildFiles(ctx context.Context, b *resources.Build) error {
	entries, err := os.ReadDir(x.imagesDir())
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
		if err := x.removeFile(ctx, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// removeFile removes a file or directory of the images directory. It first unmounts what a killed builder left mounted.
// While anything is still mounted it deletes nothing, because the deletion would follow the mount.
func (x *execution) removeFile(ctx context.Context, name string) error {
	path := filepath.Join(x.imagesDir(), name)
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
	for _, builder := range x.Builders {
		if sweeper, ok := builder.(builders.Sweeper); ok {
			if err := sweeper.Sweep(ctx, path); err != nil {
				return fmt.Errorf("sweep %s: %w", path, err)
			}
		}
	}
	return mounts.RemoveTree(ctx, path)
}

// removeWork removes a build's work directory. If that fails, the next plan finds the directory by its name.
func (x *execution) removeWork(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := x.removeFile(ctx, name); err != nil {
		x.Log.Warn("work directory of a build was not deleted", "directory", name, "error", err)
	}
}

// deleteFile removes an image file and its entry in the record of the build. A step without a build refers to the build
// that this run has created.
func (x *execution) deleteFile(ctx context.Context, s plan.Step) error {
	name, build := s.External, s.Build
	if build == "" {
		x.results.Lock()
		build = x.built[s.Image]
		x.results.Unlock()
		name = s.Image + "-" + build + "." + s.Format
	}
	if err := x.dropFile(ctx, build, name); err != nil {
		return err
	}
	return x.removeImageFile(ctx, name)
}

// removeImageFile removes a file with a build ID in its name. It rejects any other name.
func (x *execution) removeImageFile(ctx context.Context, name string) error {
	if name != filepath.Base(name) || plan.BuildIDOfFile(name) == "" {
		return fmt.Errorf("%q is not the name of an image file", name)
	}
	return x.removeFile(ctx, name)
}

func (x *execution) dropFile(ctx context.Context, build, name string) error {
	release, err := x.acquire(ctx, "files of builds", 1)
	if err != nil {
		return err
	}
	defer release()
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: build})
	if !ok {
		return nil
	}
	b.Files = slices.DeleteFunc(slices.Clone(b.Files), func(f resources.ImageFile) bool { return f.Name == name })
	return x.cache.put(ctx, b)
}
