//go:build integration

package mounts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// These tests need root, and a machine that permits mounting; they fail elsewhere. test/dib/run.sh runs them.

// mount mounts a file system like a build.
func mount(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Fatalf("mount %q: %v: %s", args, err, out)
	}
}

func TestTreeWithAMountIsNotDeleted(t *testing.T) {
	dir, host := t.TempDir(), t.TempDir()
	precious := filepath.Join(host, "precious")
	testutil.Must(t, os.WriteFile(precious, nil, 0o600))
	inside := filepath.Join(dir, "chroot", "d e v")
	testutil.Must(t, os.MkdirAll(inside, 0o755))
	mount(t, "--bind", host, inside)
	t.Cleanup(func() { _ = exec.Command("umount", inside).Run() })
	if err := RemoveTree(t.Context(), dir); !errors.Is(err, errBusy) {
		t.Errorf("error is %v, want %v", err, errBusy)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Fatalf("deleted through the mount: %v", err)
	}
	if err := errors.Join(Clear(t.Context(), dir), RemoveTree(t.Context(), dir)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("deleted through the mount: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the tree is still there")
	}
}

func TestStackedAndBusyMountsAreCleared(t *testing.T) {
	dir := t.TempDir()
	mount(t, "-t", "tmpfs", "none", dir) // the build must not unmount the directory itself
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	point := filepath.Join(dir, "a")
	testutil.Must(t, os.Mkdir(point, 0o755))
	mount(t, "-t", "tmpfs", "none", point)
	mount(t, "-t", "tmpfs", "none", point)
	busy, err := os.Create(filepath.Join(point, "open")) // this process keeps the mount busy and is not killed, so only a lazy unmount works
	testutil.Must(t, err)
	defer busy.Close()
	if err := Clear(t.Context(), dir); err != nil {
		t.Error(err)
	}
	left, err := Below(dir)
	if len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	all, err := all()
	testutil.Must(t, err)
	if !slices.Contains(all, dir) {
		t.Error("the mount of the directory itself is gone")
	}
}

func TestLoopDeviceOfADeletedFileIsDetached(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "disk")
	testutil.Must(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<20)))
	if out, err := exec.Command("losetup", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("losetup: %v: %s", err, out)
	}
	testutil.Must(t, os.Remove(file))
	if loops, err := Loops(dir); len(loops) != 1 || err != nil {
		t.Fatalf("loop devices: %v, %v; want one", loops, err)
	}
	if err := Clear(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if loops, err := Loops(dir); len(loops) != 0 || err != nil {
		t.Errorf("loop devices left: %v, %v", loops, err)
	}
}
