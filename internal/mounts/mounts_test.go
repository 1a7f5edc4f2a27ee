package mounts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountinfoIsRead(t *testing.T) {
	const text = `22 1 0:21 / /proc rw,nosuid shared:12 - proc proc rw
35 1 254:1 /a\040b /tmp/x\040y/z\134 rw - ext4 /dev/vda1 rw
36 1 254:1 / /tmp/x rw - ext4 /dev/vda1 rw
short line
`
	want := []string{"/proc", `/tmp/x y/z\`, "/tmp/x"}
	if diff := cmp.Diff(want, parse(text)); diff != "" {
		t.Errorf("mount points (-want +got):\n%s", diff)
	}
}

func TestWithinIsNotFooledByPrefixes(t *testing.T) {
	for _, test := range []struct {
		path, dir string
		want      bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/", "/a", false},
	} {
		if got := within(test.path, test.dir); got != test.want {
			t.Errorf("%s within %s: %t, want %t", test.path, test.dir, got, test.want)
		}
	}
}

func TestClearRefusesTheRoot(t *testing.T) {
	if err := Clear(t.Context(), "/"); err == nil {
		t.Error("clear / succeeded")
	}
}

func TestClearOfNothingDoesNothing(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		if err := Clear(t.Context(), dir); err != nil {
			t.Errorf("clear %s: %v", dir, err)
		}
		if err := RemoveTree(t.Context(), dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	}
}

// mount does what a build does, or skips the test where that is not allowed.
func mount(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Skipf("mounting is not allowed here: %v: %s", err, out)
	}
}

func TestTreeWithAMountIsNotDeleted(t *testing.T) {
	dir, host := t.TempDir(), t.TempDir()
	precious := filepath.Join(host, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(dir, "chroot", "d e v")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, "--bind", host, inside)
	t.Cleanup(func() { _ = exec.Command("umount", inside).Run() })
	if err := RemoveTree(t.Context(), dir); !errors.Is(err, ErrBusy) {
		t.Errorf("error is %v, want %v", err, ErrBusy)
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
	mount(t, "-t", "tmpfs", "none", dir) // the directory itself is not the build's to unmount
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	point := filepath.Join(dir, "a")
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, "-t", "tmpfs", "none", point)
	mount(t, "-t", "tmpfs", "none", point)
	busy, err := os.Create(filepath.Join(point, "open")) // by us, who are not killed: only a lazy unmount helps
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if err := Clear(t.Context(), dir); err != nil {
		t.Error(err)
	}
	left, err := Below(dir)
	if len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	all, err := all()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(all, dir) {
		t.Error("the mount of the directory itself is gone")
	}
}

func TestLoopDeviceOfADeletedFileIsDetached(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "disk")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("losetup", "-f", file).CombinedOutput(); err != nil {
		t.Skipf("loop devices are not allowed here: %v: %s", err, out)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
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
