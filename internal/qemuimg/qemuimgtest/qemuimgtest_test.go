package qemuimgtest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/internal/testutil"
)

func TestDisksSurviveConversions(t *testing.T) {
	raw, opts := filepath.Join(t.TempDir(), "disk.raw"), qemuimg.Options{Run: Run}
	disk := bytes.Repeat([]byte("disk"), 128)
	testutil.Must(t, os.WriteFile(raw, disk, 0o600))
	for _, format := range []string{"qcow2", "vhd"} {
		there, back := raw+"."+format, raw+".back"
		if made, err := qemuimg.Convert(t.Context(), raw, "raw", there, format, opts); err != nil || made.Virtual != int64(len(disk)) {
			t.Fatalf("%s: %+v, %v", format, made, err)
		}
		if _, err := qemuimg.Convert(t.Context(), there, format, back, "raw", opts); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if got, err := os.ReadFile(back); err != nil || !slices.Equal(got, disk) {
			t.Errorf("%s: %d bytes came back, %v", format, len(got), err)
		}
	}
}

func TestErrorsAreThoseOfAProgram(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "disk.qcow2")
	text := Qcow2([]byte("disk"))
	text[600]++
	testutil.Must(t, os.WriteFile(path, text, 0o600))
	_, err := qemuimg.Convert(t.Context(), path, "qcow2", filepath.Join(dir, "disk.raw"), "raw", qemuimg.Options{Run: Run})
	if err == nil || !strings.Contains(err.Error(), "qemu-img ended with exit code 1") || !strings.Contains(err.Error(), "image is corrupt") {
		t.Errorf("error is %v", err)
	}
}
