// Package host has the parts of the operating system that differ between Unix and Windows: atomic replacement of files,
// locks on files, and running processes.
package host

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
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

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	tooLarge := func() error { return fmt.Errorf("%s has more than %s", path, text.Bytes(limit)) }
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Size() > limit:
		return nil, tooLarge()
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path) // opening a pipe could block forever
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	content := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead))
	if _, err := content.ReadFrom(io.LimitReader(file, limit+1)); err != nil {
		return nil, err
	}
	if int64(content.Len()) > limit {
		return nil, tooLarge()
	}
	return content.Bytes(), nil
}
