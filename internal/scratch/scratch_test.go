package scratch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/testutil"
)

// The tests emulate a killed npctl by closing the lease without removing anything, as the kernel does. The contract
// suite of builders kills a real process.

func create(t *testing.T, parent string) (images string, d *Dir) {
	t.Helper()
	images = t.TempDir()
	build := filepath.Join(images, "img-1")
	testutil.Must(t, os.Mkdir(build, 0o755))
	d, err := Create(build, parent)
	testutil.Must(t, err)
	if info, err := os.Stat(d.Temp()); err != nil || !info.IsDir() {
		t.Fatalf("no directory for TMPDIR: %v", err)
	}
	return images, d
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestRemoveDeletesOnlyTheScratchDirectory(t *testing.T) {
	for _, parent := range []string{"", t.TempDir()} {
		_, d := create(t, parent)
		image := filepath.Join(d.build, "img-1.raw")
		testutil.Must(t, errors.Join(os.WriteFile(image, nil, 0o600), os.WriteFile(filepath.Join(d.Temp(), "x"), nil, 0o600)))
		if err := d.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if exists(d.path) || exists(filepath.Join(d.build, dirName)) || !exists(image) {
			t.Errorf("scratch directory there: %t, link there: %t, image there: %t", exists(d.path), exists(filepath.Join(d.build, dirName)), exists(image))
		}
	}
}

func TestSweepCleansUpAfterDeadProcess(t *testing.T) {
	for _, parent := range []string{"", t.TempDir()} {
		images, d := create(t, parent)
		child := exec.Command("sleep", "1000")
		child.Env = []string{process.RunIDVariable + "=" + d.RunID()}
		testutil.Must(t, child.Start())
		d.Started(child.Process.Pid)
		if err := Sweep(t.Context(), images); err != nil || !exists(d.Temp()) {
			t.Fatalf("a living build was swept: %v", err)
		}
		_ = d.lease.Close()
		if err := Sweep(t.Context(), images); err != nil {
			t.Error(err)
		}
		if err := child.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
		if exists(d.path) || exists(filepath.Join(d.build, dirName)) || !exists(d.build) {
			t.Errorf("scratch directory there: %t, link there: %t, build there: %t", exists(d.path), exists(filepath.Join(d.build, dirName)), exists(d.build))
		}
	}
}

func TestSweepHandlesTruncatedLease(t *testing.T) {
	for _, text := range []string{"", `{"run_id":"x","pi`, `{"pid":1}`, `[]`} {
		images, d := create(t, "")
		_ = d.lease.Close()
		testutil.WriteFile(t, filepath.Join(d.path, leaseName), text)
		if err := Sweep(t.Context(), images); err != nil || exists(d.path) {
			t.Errorf("lease %q: %v, still there: %t", text, err, exists(d.path))
		}
	}
}

func TestSweepIgnoresDirectoriesWithoutLease(t *testing.T) {
	images := t.TempDir()
	other := filepath.Join(images, "a", dirName)
	testutil.Must(t, os.MkdirAll(other, 0o755))
	if err := Sweep(t.Context(), images); err != nil || !exists(other) {
		t.Errorf("%v, still there: %t", err, exists(other))
	}
	if err := Sweep(t.Context(), filepath.Join(images, "missing")); err != nil {
		t.Errorf("sweep of nothing: %v", err)
	}
}

func TestTwoBuildsDoNotShareADirectory(t *testing.T) {
	_, d := create(t, "")
	if _, err := Create(d.build, ""); !errors.Is(err, os.ErrExist) {
		t.Errorf("error is %v, want %v", err, os.ErrExist)
	}
	if err := d.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
