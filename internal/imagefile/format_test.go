package imagefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckFormat(t *testing.T) {
	footer := strings.Repeat("\x00", 4096) + "conectix" + strings.Repeat("\x00", 504)
	for _, test := range []struct {
		name, content, format string
		want                  string // empty: right
	}{
		{"qcow2", "QFI\xfb\x00\x00\x00\x03", "qcow2", ""},
		{"vmdk", "KDMV", "vmdk", ""},
		{"vhdx", "vhdxfile", "vhdx", ""},
		{"dynamic vhd", "conectix", "vhd", ""},
		{"fixed vhd", footer, "vhd", ""},
		{"raw", "anything", "raw", ""},
		{"raw with the footer of a VHD at its end", footer, "raw", ""},
		{"tar", "anything", "tar", ""},
		{"empty", "", "raw", "is empty"},
		{"qcow2 called raw", "QFI\xfb", "raw", "is a qcow2 image, not raw"},
		{"raw called qcow2", "\x00\x00\x00\x00", "qcow2", "does not have the header of a qcow2 image"},
		{"vmdk called qcow2", "KDMV", "qcow2", "is a vmdk image, not qcow2"},
		{"web page", "<!DOCTYPE html><html>", "qcow2", "looks like a web page"},
		{"compressed", "\x28\xb5\x2f\xfd", "qcow2", "looks zstd-compressed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "image")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			err := CheckFormat(path, test.format)
			if test.want == "" && err != nil {
				t.Errorf("error: %v", err)
			}
			if test.want != "" && (!errors.Is(err, errFormat) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestFreeSpace(t *testing.T) {
	dir := t.TempDir()
	free, err := freeBytes(filepath.Join(dir, "not", "made", "yet"))
	if err != nil || free <= 0 {
		t.Fatalf("free space is %d, %v", free, err)
	}
	if err := CheckFree(dir, 1); err != nil {
		t.Error(err)
	}
	err = CheckFree(dir, 1<<60)
	if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "needs 1048576.0 TiB and has ") {
		t.Errorf("error is %v", err)
	}
}
