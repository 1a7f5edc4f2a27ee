// Package scratch gives each image build its own temporary directory, and cleans it up in the right order after any end
// of the build: processes, mounts, loop devices, then files.
//
// A lease in the directory is locked while the building npctl runs, and identifies the processes of the build. A directory
// with an unlocked lease remains from a killed npctl; Sweep cleans it up.
package scratch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/uuid"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/mounts"
	"github.com/npctl/npctl/internal/process"
)

const (
	dirName   = "scratch"     // in the build's directory: the directory itself, or a link to it
	leaseName = "npctl-lease" // in the scratch directory
	depth     = 4             // maximum depth below the images directory that Sweep searches
	leaseSize = 4 << 10
)

// Dir is the scratch directory of one build.
type Dir struct {
	build string // the build's own directory
	path  string
	lease *os.File
	note  leaseContent
}

// leaseContent is the content of a lease.
type leaseContent struct {
	RunID   string `json:"run_id"`
	PID     int    `json:"pid,omitempty"`
	Started uint64 `json:"started,omitempty"` // clock ticks since boot, which distinguish a reused pid
}

// Create creates the scratch directory of the build with files in the directory build. The scratch directory is in
// build, or in parent if that is set: a file system with more space.
func Create(build, parent string) (*Dir, error) {
	d := &Dir{build: build, path: filepath.Join(build, dirName), note: leaseContent{RunID: uuid.NewString()}}
	if parent != "" {
		d.path = filepath.Join(parent, "npctl-"+filepath.Base(build))
	}
	if err := d.make(); err != nil {
		return nil, fmt.Errorf("create scratch directory: %w", err)
	}
	return d, nil
}

func (d *Dir) make() error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(d.path, 0o755); err != nil {
		return err
	}
	lease, err := os.OpenFile(filepath.Join(d.path, leaseName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	d.lease = lease
	if err := errors.Join(lock(lease), d.write()); err != nil {
		return errors.Join(err, lease.Close())
	}
	if filepath.Dir(d.path) == d.build {
		return os.Mkdir(d.Temp(), 0o755)
	}
	return errors.Join(os.Symlink(d.path, filepath.Join(d.build, dirName)), os.Mkdir(d.Temp(), 0o755))
}

// Temp returns the directory for TMPDIR.
func (d *Dir) Temp() string { return filepath.Join(d.path, "tmp") }

// RunID returns the run ID for the process.Spec of the build's program.
func (d *Dir) RunID() string { return d.note.RunID }

// Started stores the leader of the build's processes.
func (d *Dir) Started(pid int) {
	d.note.PID = pid
	d.note.Started, _ = process.StartTime(pid)
	_ = d.write() // without it, Sweep still finds the processes by their run ID
}

func (d *Dir) write() error {
	text, err := json.Marshal(d.note)
	if err != nil {
		return err
	}
	_, err = d.lease.WriteAt(text, 0)
	return errors.Join(err, d.lease.Truncate(int64(len(text))))
}

// Remove cleans up after the build: it unmounts the mounts in the build's directories and deletes the scratch
// directory. It does so even after ctx has ended.
func (d *Dir) Remove(ctx context.Context) error {
	defer func() { _ = d.lease.Close() }()
	if runtime.GOOS == "windows" { // it deletes no open file
		_ = d.lease.Close() // the content is not needed any more
	}
	err := errors.Join(mounts.Clear(ctx, d.build), clearUp(ctx, d.path))
	if err != nil {
		return fmt.Errorf("clean up after the build in %s: %w", d.build, err)
	}
	if link := filepath.Join(d.build, dirName); link != d.path {
		return os.Remove(link)
	}
	return nil
}

func clearUp(ctx context.Context, path string) error {
	return errors.Join(mounts.Clear(ctx, path), mounts.RemoveTree(ctx, path))
}

// Sweep cleans up after builds below dir that belong to an npctl that no longer runs: it kills their processes,
// removes their mounts and loop devices, and deletes their scratch directories. It skips running builds. Run it
// before directories of old builds are deleted. A missing dir is no error.
func Sweep(ctx context.Context, dir string) error {
	var failed []error
	for _, path := range find(dir) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := sweep(ctx, path); err != nil {
			failed = append(failed, fmt.Errorf("clean up after a dead build in %s: %w", path, err))
		}
	}
	return errors.Join(failed...)
}

// find lists scratch directories, or links to them, without descending into them.
func find(dir string) []string {
	var found []string
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // an unreadable directory has no lease
		case entry.Name() == dirName && isLeased(path):
			found = append(found, path)
			return skip(entry)
		case entry.IsDir() && strings.Count(strings.TrimPrefix(path, dir), string(filepath.Separator)) >= depth:
			return fs.SkipDir
		}
		return nil
	})
	return found
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func isLeased(path string) bool {
	info, err := os.Lstat(filepath.Join(path, leaseName))
	return err == nil && info.Mode().IsRegular()
}

func sweep(ctx context.Context, link string) error {
	path, err := filepath.EvalSymlinks(link)
	if err != nil {
		return err
	}
	lease, err := os.OpenFile(filepath.Join(path, leaseName), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Close() }()
	if locked, err := host.TryLock(lease, true); err != nil || !locked {
		return err // without an error its npctl is running
	}
	left := read(lease)
	process.Kill(left.PID, left.Started, left.RunID)
	if runtime.GOOS == "windows" { // as in Remove
		_ = lease.Close()
	}
	if err := errors.Join(mounts.Clear(ctx, filepath.Dir(link)), clearUp(ctx, path)); err != nil {
		return err
	}
	if link != path {
		return ignoreMissing(os.Remove(link))
	}
	return nil
}

// read returns the content of a lease. A lease that was only partly written is empty.
func read(lease io.ReaderAt) leaseContent {
	var n leaseContent
	text, err := io.ReadAll(io.NewSectionReader(lease, 0, leaseSize))
	if err != nil || json.Unmarshal(text, &n) != nil {
		return leaseContent{}
	}
	return n
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// lock locks a new lease.
func lock(lease *os.File) error {
	locked, err := host.TryLock(lease, true)
	if err == nil && !locked {
		err = errors.New("another process has locked the lease")
	}
	return err
}
