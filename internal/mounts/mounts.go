// Package mounts finds and removes the mounts that an image build may leave behind: mount points, loop devices and
// mappings below a directory. A tree with mounts must never be deleted, since the deletion would affect the mounted
// file systems: a build's chroot contains the host's /dev.
package mounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/process"
)

// errBusy is wrapped by the error for a tree that still contains mounts.
var errBusy = errors.New("still mounted")

// Below returns the mount points in dir, without dir itself, in the order in which they can be unmounted: the newest
// first. Without /proc it finds none.
func Below(dir string) ([]string, error) {
	points, err := all()
	dir = resolve(dir)
	return slices.DeleteFunc(points, func(point string) bool { return point == dir || !within(point, dir) }), err
}

// all returns every mount point, the newest first.
func all() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := parse(string(text))
	slices.Reverse(found)
	return found, nil
}

// parse reads proc(5)'s mountinfo; its fifth field is the mount point.
func parse(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 4 {
			found = append(found, unescape(fields[4]))
		}
	}
	return found
}

// unescape decodes octal escapes such as \040 for a space.
func unescape(field string) string {
	var out strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if code, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(field[i])
	}
	return out.String()
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// resolve returns the kernel's name of the directory.
func resolve(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Clean(dir)
}

// Loops returns the loop devices, such as /dev/loop3, with a backing file in dir, even if the file is already
// deleted.
func Loops(dir string) ([]string, error) {
	dir = resolve(dir)
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // detached in the meantime
		}
		if within(strings.TrimSuffix(string(bytes.TrimSpace(text)), " (deleted)"), dir) {
			found = append(found, "/dev/"+filepath.Base(filepath.Dir(filepath.Dir(file))))
		}
	}
	return found, nil
}

// Clear kills the processes that run in a chroot in dir or in one of its mounts, unmounts all mounts below it and
// detaches the loop devices of files in it. A busy mount is at least removed from the tree (a lazy unmount). Clear is
// idempotent.
func Clear(ctx context.Context, dir string) error {
	dir = resolve(dir)
	if dir == "/" {
		return errors.New("clear /: refused")
	}
	points, err := Below(dir)
	if err != nil {
		return err
	}
	process.KillInside(dir, points)
	var failed []error
	for _, point := range points {
		if err := unmount(ctx, point); err != nil {
			failed = append(failed, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	failed = append(failed, detach(ctx, dir))
	left, err := Below(dir)
	if len(left) == 0 && err == nil {
		return failed[len(failed)-1] // the mounts are gone nevertheless
	}
	return errors.Join(append(failed, err)...)
}

func unmount(ctx context.Context, point string) error {
	if run(ctx, "umount", "--", point) == nil {
		return nil
	}
	return run(ctx, "umount", "--lazy", "--", point)
}

func detach(ctx context.Context, dir string) error {
	loops, err := Loops(dir)
	failed := []error{err}
	for _, loop := range loops {
		if holders, _ := os.ReadDir("/sys/block/" + filepath.Base(loop) + "/holders"); len(holders) > 0 {
			failed = append(failed, run(ctx, "kpartx", "-d", loop))
		}
		err := run(ctx, "losetup", "--detach", loop)
		if !detached(dir, loop) {
			failed = append(failed, fmt.Errorf("detach %s, which is still in use: %w", loop, errors.Join(errBusy, err)))
		}
	}
	return errors.Join(failed...)
}

// detachWait is the time that the kernel may take to unmount file systems after their mount namespace ended, and then
// to release the loop device.
const detachWait = 10 * time.Second

func detached(dir, loop string) bool {
	for deadline := time.Now().Add(detachWait); ; time.Sleep(10 * time.Millisecond) {
		loops, err := Loops(dir)
		if err == nil && !slices.Contains(loops, loop) {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// RemoveTree deletes a directory and its content, unless it contains mounts: then it deletes nothing and returns an
// errBusy.
func RemoveTree(ctx context.Context, dir string) error {
	points, err := all()
	if err != nil {
		return err
	}
	real := resolve(dir)
	if i := slices.IndexFunc(points, func(point string) bool { return within(point, real) }); i >= 0 {
		return fmt.Errorf("remove %s: %s is %w: unmount it first", dir, points[i], errBusy)
	}
	err = os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		// A build leaves files that belong to root.
		return run(ctx, "rm", "-rf", "--one-file-system", "--", dir)
	}
	return err
}

// run runs a program as root, through sudo if npctl is not root: users that build images have that permission.
func run(ctx context.Context, args ...string) error {
	if os.Geteuid() != 0 {
		args = append([]string{"sudo", "-n"}, args...)
	}
	// The signal that stopped a build must not stop its cleanup.
	ctx, cancel := process.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return process.Run(ctx, process.Spec{
		Args: args, Dir: "/", Env: process.BaseEnv(os.Environ()), SharedMounts: true,
		Missing: "install the packages util-linux, kpartx and (for other users than root) sudo",
	})
}
