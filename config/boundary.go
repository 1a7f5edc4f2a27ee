package config

import (
	"fmt"
	"path/filepath"
)

// boundary is the directory that the files of a configuration must be in. The zero value permits all files.
type boundary struct {
	dir      string // as given, absolute
	resolved string // without symbolic links
}

// newBoundary returns the boundary of Options.Boundary.
func newBoundary(dir string) boundary {
	b := boundary{dir: dir, resolved: dir}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		b.resolved = real
	}
	return b
}

// CheckBoundary returns an error for a file outside of the directory of Options.Boundary.
func CheckBoundary(dir, path string) error { return newBoundary(dir).check(path) }

// check returns an error for a file outside of the boundary, also through a symbolic link. It does not reveal whether such a file
// exists.
func (b boundary) check(path string) error {
	if b.dir == "" {
		return nil
	}
	outside := fmt.Errorf("%s is outside of %s; a plan with a snapshot reads no other files, because the configuration may come from anyone", path, b.dir)
	full, err := filepath.Abs(path)
	if err != nil || !isBelow(b.dir, full) && !isBelow(b.resolved, full) {
		return outside
	}
	if real, err := filepath.EvalSymlinks(full); err == nil && !isBelow(b.resolved, real) {
		return outside
	}
	return nil
}

func isBelow(dir, path string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}
