package inputs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "with [brackets]")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPatternsFindFiles(t *testing.T) {
	dir := tree(t, map[string]string{
		"conf/main.hcl": "", "conf/files/a": "", "conf/files/b/c": "", "conf/files/b/.hidden": "", "conf/x.sh": "", "conf/y.sh": "", "common/z": "",
	})
	for _, test := range []struct {
		patterns []string
		want     []string
	}{
		{nil, []string{}},
		{[]string{"main.hcl"}, []string{"main.hcl"}},
		{[]string{"*.sh"}, []string{"x.sh", "y.sh"}},
		{[]string{"files"}, []string{"files/a", "files/b/.hidden", "files/b/c"}},
		{[]string{"./files/**"}, []string{"files/a", "files/b/.hidden", "files/b/c"}},
		{[]string{"files/*"}, []string{"files/a"}},
		{[]string{"x.sh", "*.sh", "{x,y}.sh"}, []string{"x.sh", "y.sh"}},
		{[]string{"../common"}, []string{"../common/z"}},
	} {
		got, err := Set{filepath.Join(dir, "conf"), test.patterns}.files(t.Context())
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", test.patterns, err, diff)
		}
	}
}

func TestWhatCountsAndWhatDoesNot(t *testing.T) {
	dir := tree(t, map[string]string{"files/a": "one", "files/b": "two", "other": "x"})
	set := Set{dir, []string{"files/**"}}
	hash := func() string {
		t.Helper()
		got, err := new(Hasher).Hash(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first := hash()
	file := func(name string) string { return filepath.Join(dir, "files", name) }
	for _, test := range []struct {
		name    string
		change  func()
		changes bool
	}{
		{"time", func() { must(os.Chtimes(file("a"), time.Unix(1, 0), time.Unix(1, 0))) }, false},
		{"permission to write", func() { must(os.Chmod(file("a"), 0o600)) }, false},
		{"file elsewhere", func() { must(os.WriteFile(filepath.Join(dir, "other"), []byte("y"), 0o600)) }, false},
		{"empty directory", func() { must(os.Mkdir(file("empty"), 0o755)) }, false},
		{"content", func() { must(os.WriteFile(file("a"), []byte("ONE"), 0o600)) }, true},
		{"permission to execute", func() { must(os.Chmod(file("b"), 0o755)) }, true},
		{"name", func() { must(os.Rename(file("b"), file("c"))) }, true},
		{"new link", func() { must(os.Symlink("a", file("link"))) }, true},
		{"content behind a link", func() { must(os.WriteFile(file("a"), []byte("1"), 0o600)) }, true},
		{"dangling link", func() { must(os.Symlink("nowhere", file("dangling"))) }, true},
	} {
		test.change()
		now := hash()
		if (now != first) != test.changes {
			t.Errorf("%s: hash changed is %t, want %t", test.name, now != first, test.changes)
		}
		first = now
	}
}

func TestChangeIsSeenThroughTheMemory(t *testing.T) {
	dir := tree(t, map[string]string{"a": "one"})
	path := filepath.Join(dir, "a")
	old := time.Now().Add(-time.Hour)
	var h Hasher
	seen := map[string]bool{}
	for _, text := range []string{"one", "two", "six"} { // same size, same modification time
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := h.Hash(t.Context(), Set{dir, []string{"a"}})
			if err != nil {
				t.Fatal(err)
			}
			seen[string(got)] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("three contents have %d hashes", len(seen))
	}
}

func TestBadInputsAreErrors(t *testing.T) {
	dir := tree(t, map[string]string{"a": "one"})
	if err := os.Mkdir(filepath.Join(dir, "none"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ pattern, want string }{
		{"nope/**", `inputs "nope/**" match no file in ` + dir},
		{"a[", "syntax error in pattern"},
		{"/dev/null", "neither a file nor a link"},
		{strings.Repeat("x", 300), "match no file"},
	} {
		_, err := new(Hasher).Hash(t.Context(), Set{dir, []string{test.pattern}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error is %v, want %q", test.pattern, err, test.want)
		}
	}
	if err := (&budget{files: MaxFiles}).take("x", 0); err == nil || !strings.Contains(err.Error(), "more than 20000 files") {
		t.Errorf("error is %v", err)
	}
	if err := (&budget{}).take("x", MaxBytes+1); err == nil {
		t.Error("a file above the limit was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(Hasher).Hash(ctx, Set{dir, []string{"a"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
}
