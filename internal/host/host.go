// Package host has the parts of the operating system that differ between Unix and Windows: atomic replacement of files,
// locks on files, and running processes.
package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Unfinished returns the files that interrupted calls of ReplaceFile have left for a path.
func Unfinished(path string) (files []string) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		random, ok := strings.CutPrefix(entry.Name(), "."+name)
		if _, err := strconv.ParseUint(strings.TrimPrefix(random, "-"), 10, 64); ok && err == nil && entry.Type().IsRegular() {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files
}
