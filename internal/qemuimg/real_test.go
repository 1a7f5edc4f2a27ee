//go:build integration

package qemuimg

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/testutil"
)

// These tests run the real qemu-img and fail if it is missing.

// disk writes a raw image of 96 MiB, a third of it data.
func disk(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "disk.raw")
	file, err := os.Create(path)
	testutil.Must(t, err)
	content := make([]byte, 32<<20)
	for i := range content {
		content[i] = byte(i>>3 ^ i>>11 ^ i>>19)
	}
	_, err = file.WriteAt(content, 8<<20)
	testutil.Must(t, errors.Join(err, file.Truncate(96<<20), file.Close()))
	return path
}

func TestRealRoundTripsAreIdentical(t *testing.T) {
	dir := t.TempDir()
	raw := disk(t, dir)
	want, err := imagefile.HashFile(t.Context(), raw, nil)
	testutil.Must(t, err)
	for _, test := range []struct {
		format string
		opts   Options
	}{
		{"qcow2", Options{}},
		{"qcow2", Options{Create: map[string]string{"compat": "0.10"}}},
		{"qcow2", Options{Compress: true}},
		{"vhd", Options{}},
		{"vhd", Options{Create: map[string]string{"subformat": "fixed"}}},
		{"vhdx", Options{}},
		{"vmdk", Options{}},
		{"vmdk", Options{Create: map[string]string{"subformat": "streamOptimized"}}},
	} {
		var last, steps int64
		test.opts.Progress = func(done, total int64) { last, steps = done, steps+1 }
		there := filepath.Join(dir, "there."+test.format)
		made, err := Convert(t.Context(), raw, "raw", there, test.format, test.opts)
		if err != nil {
			t.Fatalf("%s %v: %v", test.format, test.opts.Create, err)
		}
		if sums, err := imagefile.HashFile(t.Context(), there, nil); err != nil || sums != made.Sums {
			t.Errorf("%s: sums are %+v, file has %+v, %v", test.format, made.Sums, sums, err)
		}
		if made.Virtual != 96<<20 || last != 96<<20 || steps < 2 {
			t.Errorf("%s: virtual size %d, progress ended at %d after %d steps", test.format, made.Virtual, last, steps)
		}
		back := filepath.Join(dir, "back.raw")
		again, err := Convert(t.Context(), there, test.format, back, "raw", Options{})
		if err != nil {
			t.Fatalf("%s back: %v", test.format, err)
		}
		if again.Sums != want {
			t.Errorf("%s %v: back in raw it is %+v, was %+v", test.format, test.opts.Create, again.Sums, want)
		}
		if again.Allocated > 40<<20 {
			t.Errorf("%s: the raw file takes %d bytes on disk, want about 32 MiB", test.format, again.Allocated)
		}
		for _, name := range []string{there, back} {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestRealBackingAndDataFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	raw := disk(t, dir)
	for name, args := range map[string][]string{
		"backing.qcow2": {"create", "-f", "qcow2", "-b", raw, "-F", "raw"},
		"data.qcow2":    {"create", "-f", "qcow2", "-o", "data_file=" + raw + ".data,data_file_raw=on"},
		"flat.vmdk":     {"create", "-f", "vmdk", "-o", "subformat=monolithicFlat"},
		"child.vmdk":    {"create", "-f", "vmdk", "-b", filepath.Join(dir, "parent.vmdk"), "-F", "vmdk"},
	} {
		if name == "child.vmdk" {
			if out, err := exec.Command("qemu-img", "create", "-f", "vmdk", filepath.Join(dir, "parent.vmdk"), "96M").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		path := filepath.Join(dir, name)
		args = append(args, path)
		if name != "backing.qcow2" && name != "child.vmdk" {
			args = append(args, "96M")
		}
		if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img %q: %v: %s", args, err, out)
		}
		format := filepath.Ext(name)[1:]
		if _, err := Convert(t.Context(), path, format, filepath.Join(dir, "out.raw"), "raw", Options{}); err == nil {
			t.Errorf("%s was converted", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

func TestRealCancelLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	raw := disk(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Convert(ctx, raw, "raw", filepath.Join(dir, "out.qcow2"), "qcow2", Options{
		Compress: true, Progress: func(int64, int64) { cancel() },
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("files are %v", got)
	}
}

func TestRealFullDiskIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run as root: a small tmpfs plays the full disk")
	}
	dir, small := t.TempDir(), t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "none", small).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", small).Run() })
	_, err := Convert(t.Context(), disk(t, dir), "raw", filepath.Join(small, "out.qcow2"), "qcow2", Options{})
	if err == nil {
		t.Fatal("32 MiB fit into 16")
	}
	t.Log(err)
	if got := files(t, small); len(got) != 0 {
		t.Errorf("files are %v", got)
	}
}

// TestRealQemuImgReadsNothingElse runs qemu-img, as root, on an image with a backing file, without the check of
// headers.
func TestRealQemuImgReadsNothingElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run as root: sandboxes need it")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir()) // killed processes of other tests may have left directories of sandboxes
	secret, child, out := filepath.Join(dir, "secret"), filepath.Join(dir, "child.qcow2"), filepath.Join(dir, "out.raw")
	testutil.Must(t, errors.Join(os.WriteFile(secret, []byte(strings.Repeat("top secret", 512)), 0o600), makeEmpty(out)))
	if text, err := exec.Command("qemu-img", "create", "-f", "qcow2", "-b", secret, "-F", "raw", child).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	spec := Options{}.spec([]string{"convert", "-f", "qcow2", "-O", "raw", "--", child, out}, process.Sandbox{Read: []string{child}, Write: []string{out}})
	err := process.Run(t.Context(), spec)
	if text, _ := os.ReadFile(out); err == nil || !strings.Contains(err.Error(), "No such file or directory") || bytes.Contains(text, []byte("secret")) {
		t.Errorf("error is %v, and there are %d bytes; want that the backing file is not found", err, len(text))
	}
	spec.Sandbox = nil
	testutil.Must(t, process.Run(t.Context(), spec))
	if text, _ := os.ReadFile(out); !bytes.Contains(text, []byte("secret")) {
		t.Error("without the sandbox, qemu-img reads no backing file either: this test shows nothing")
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "npctl-sandbox-*")); len(left) > 0 {
		t.Errorf("directories of sandboxes are left: %q", left)
	}
}
