package reconcile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
)

// logDir is the directory of build logs and consoles; it is made when there is none.
func (x *execution) logDir() (string, error) {
	dir := x.Desired.Settings.BuildLogDir
	if dir == "" {
		dir = filepath.Join(x.imagesDir(), "logs")
	} else if !filepath.IsAbs(dir) {
		dir = filepath.Join(x.Desired.Settings.Dir, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make directory for logs: %w", err)
	}
	return dir, nil
}

// buildLog opens the log of a build and removes old ones of the same image.
func (x *execution) buildLog(name string) (*os.File, error) {
	dir, err := x.logDir()
	if err != nil {
		return nil, err
	}
	x.pruneLogs(dir, name)
	return os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// pruneLogs keeps the newest logs of the image. A name holds a build id after the last dash, so that the logs of ubuntu
// are not those of ubuntu-jammy.
func (x *execution) pruneLogs(dir, name string) {
	keep := x.Desired.Settings.BuildLogKeep
	if keep < 0 {
		return
	}
	image := name[:strings.LastIndexByte(name, '-')]
	type old struct {
		path string
		time time.Time
	}
	var logs []old
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		stem, isLog := strings.CutSuffix(entry.Name(), ".log")
		if id := plan.BuildIDOfFile(entry.Name()); !isLog || id == "" || stem != image+"-"+id {
			continue
		}
		if info, err := entry.Info(); err == nil {
			logs = append(logs, old{filepath.Join(dir, entry.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(logs, func(a, b old) int { return b.time.Compare(a.time) })
	for _, l := range logs[min(max(keep-1, 0), len(logs)):] {
		_ = os.Remove(l.path)
	}
}
