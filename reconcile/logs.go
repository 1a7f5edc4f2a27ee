package reconcile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
)

// logDir returns the directory of build logs and consoles. It creates the directory if necessary.
func (e *Engine) logDir() (string, error) {
	dir := e.Desired.Settings.LogPath()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make directory for logs: %w", err)
	}
	return dir, nil
}

// Limits for the stored consoles of instances that did not become ready.
const (
	consolesKept = 200
	consolesAge  = 30 * 24 * time.Hour
	consoleEnd   = ".console.log"
)

// pruneConsoles removes old consoles, and those above the limit less one, so that another can be stored.
func pruneConsoles(dir string, now time.Time) {
	entries, _ := os.ReadDir(dir)
	consoles := newestFirst(dir, entries, func(name string) bool { return strings.HasSuffix(name, consoleEnd) })
	for i, c := range consoles {
		if i >= consolesKept-1 || now.Sub(c.time) > consolesAge {
			_ = os.Remove(c.path)
		}
	}
}

// oldFile is a file in the log directory.
type oldFile struct {
	path string
	time time.Time
}

// newestFirst returns the regular files of a directory with a wanted name, newest first.
func newestFirst(dir string, entries []os.DirEntry, wanted func(name string) bool) (files []oldFile) {
	for _, entry := range entries {
		if !wanted(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, oldFile{filepath.Join(dir, entry.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b oldFile) int { return b.time.Compare(a.time) })
	return files
}

// buildLog is the log of a build. A write error does not fail the build.
type buildLog struct {
	file *os.File

	mu  sync.Mutex
	err error // the first error; guarded by mu
}

// Write implements io.Writer.
func (l *buildLog) Write(text []byte) (int, error) {
	n, err := l.file.Write(text)
	l.fail(err)
	return n, err
}

func (l *buildLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// Close returns the reason why the log is incomplete, if it is.
func (l *buildLog) Close() error {
	l.fail(l.file.Close())
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// openBuildLog opens the log of a build and removes old ones of the same image.
func (e *Engine) openBuildLog(name string) (*buildLog, error) {
	dir, err := e.logDir()
	if err != nil {
		return nil, err
	}
	if keep := e.Desired.Settings.BuildLogKeep; keep >= 0 {
		pruneLogs(dir, name, keep)
	}
	file, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &buildLog{file: file}, nil
}

// pruneLogs keeps the newest logs of the image. The build ID follows the last dash of a name, which distinguishes the
// logs of ubuntu from those of ubuntu-jammy.
func pruneLogs(dir, name string, keep int) {
	image := name[:strings.LastIndexByte(name, '-')]
	entries, _ := os.ReadDir(dir)
	logs := newestFirst(dir, entries, func(name string) bool {
		stem, isLog := strings.CutSuffix(name, ".log")
		id := plan.BuildIDOfFile(name)
		return isLog && id != "" && stem == image+"-"+id
	})
	for _, l := range logs[min(max(keep-1, 0), len(logs)):] {
		_ = os.Remove(l.path)
	}
}
