package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goFile is the name of a Go file in a page, with its directory or without.
var goFile = regexp.MustCompile("`([\\w./-]+\\.go)`")

// TestGoFilesInPagesExist fails when a page names a Go file that was renamed or removed.
func TestGoFilesInPagesExist(t *testing.T) {
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(file, ".go") {
			rel, _ := filepath.Rel(root, file)
			for at := filepath.ToSlash(rel); ; { // a page may leave out folders at the front
				names[at] = true
				_, after, found := strings.Cut(at, "/")
				if !found {
					break
				}
				at = after
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		for _, found := range goFile.FindAllStringSubmatch(read(t, page), -1) {
			if !names[found[1]] {
				t.Errorf("%s names %s, which does not exist", page, found[1])
			}
		}
	}
}

var (
	testName = regexp.MustCompile("`(Test[A-Z]\\w*)(?:/[^`]*)?`")
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
)

// TestTestsInPagesExist fails when a page names the test of a promise, and the test was renamed or removed.
func TestTestsInPagesExist(t *testing.T) {
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, found := range testFunc.FindAllSubmatch(text, -1) {
			tests[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		for _, found := range testName.FindAllStringSubmatch(read(t, page), -1) {
			if !tests[found[1]] {
				t.Errorf("%s names %s, which does not exist", page, found[1])
			}
		}
	}
}
