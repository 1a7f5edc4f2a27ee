package mounts

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountinfoIsParsed(t *testing.T) {
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

func TestWithinComparesWholePathElements(t *testing.T) {
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
