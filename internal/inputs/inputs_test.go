package inputs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "with [brackets]")
	for name, text := range files {
		path := filepath.Join(dir, name)
		testutil.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
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

func TestChangesThatAffectTheHash(t *testing.T) {
	dir := tree(t, map[string]string{"files/a": "one", "files/b": "two", "other": "x"})
	set := Set{dir, []string{"files/**"}}
	hash := func() string {
		t.Helper()
		got, err := new(Hasher).Hash(t.Context(), dir, set)
		testutil.Must(t, err)
		return string(got.Hash)
	}
	must := func(err error) {
		t.Helper()
		testutil.Must(t, err)
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

func TestChangeIsDetectedDespiteCache(t *testing.T) {
	dir := tree(t, map[string]string{"a": "one"})
	path := filepath.Join(dir, "a")
	old := time.Now().Add(-time.Hour)
	var h Hasher
	seen := map[string]bool{}
	for _, text := range []string{"one", "two", "six"} { // same size, same modification time
		testutil.Must(t, errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, old, old)))
		for range 2 {
			got, err := h.Hash(t.Context(), dir, Set{dir, []string{"a"}})
			testutil.Must(t, err)
			seen[string(got.Hash)] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("three contents have %d hashes", len(seen))
	}
}

func TestBadInputsAreErrors(t *testing.T) {
	dir := tree(t, map[string]string{"a": "one"})
	testutil.Must(t, os.Mkdir(filepath.Join(dir, "none"), 0o755))
	for _, test := range []struct{ pattern, want string }{
		{"nope/**", `inputs "nope/**" match no file in ` + dir},
		{"a[", "syntax error in pattern"},
		{"/dev/null", "neither a file nor a symbolic link"},
		{strings.Repeat("x", 300), "match no file"},
	} {
		_, err := new(Hasher).Hash(t.Context(), dir, Set{dir, []string{test.pattern}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error is %v, want %q", test.pattern, err, test.want)
		}
	}
	if err := (&budget{files: maxFiles}).take("x", 0); err == nil || !strings.Contains(err.Error(), "more than 20000 files") {
		t.Errorf("error is %v", err)
	}
	if err := (&budget{}).take("x", maxBytes+1); err == nil {
		t.Error("a file above the limit was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(Hasher).Hash(ctx, dir, Set{dir, []string{"a"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
}

// TestHashesStayTheSame fails when a hash changes, because that would rebuild every image at an upgrade.
func TestHashesStayTheSame(t *testing.T) {
	dir := tree(t, map[string]string{"conf/build.sh": "#!/bin/sh\n", "conf/files/a": "one", "common/b": "two"})
	conf := filepath.Join(dir, "conf")
	testutil.Must(t, errors.Join(os.Chmod(filepath.Join(conf, "build.sh"), 0o755), os.Symlink("a", filepath.Join(conf, "files", "link"))))
	got, err := new(Hasher).Hash(t.Context(), conf, Set{conf, []string{"files", "../common"}}, Set{filepath.Join(conf, "files"), []string{"../build.sh"}})
	want := resources.InputFiles{Hash: "v1:36e2dca7f91b1ad72b3d6300605af1a9", Files: map[string]string{
		"../common/b": "4f5ea3247afe9a3b", "build.sh": "a95e377a122f036c", "files/a": "ebf1f70532f5947f", "files/link": "fa130af8629b356c",
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestManyFilesAreNotListed(t *testing.T) {
	for _, test := range []struct {
		count, length int
		listed        bool
	}{{1000, 10, true}, {1001, 10, false}, {300, 200, true}, {400, 200, false}} {
		files := map[string]string{}
		for i := range test.count {
			files[fmt.Sprintf("%0*d", test.length, i)] = ""
		}
		dir := tree(t, files)
		got, err := new(Hasher).Hash(t.Context(), dir, Set{dir, []string{"*"}})
		if err != nil || got.Hash == "" || (len(got.Files) == test.count) != test.listed || (got.Files == nil) == test.listed {
			t.Errorf("%d files with names of %d bytes: %d are listed, hash %q, %v", test.count, test.length, len(got.Files), got.Hash, err)
		}
	}
}
