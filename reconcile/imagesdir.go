package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/mounts"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// imagesDir is the directory of the image files.
type imagesDir struct {
	path     string
	builders map[string]builders.Builder // remove what a killed build has left
	log      *slog.Logger
}

func (e *Engine) files() imagesDir { return imagesDir{e.imagesDir(), e.Builders, e.Log} }

// list lists the images directory. A missing directory has no files.
func (d imagesDir) list() ([]plan.ImageFile, error) {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return []plan.ImageFile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	makers, err := d.marks()
	if err != nil {
		return nil, fmt.Errorf("list the marks of builds: %w", err)
	}
	files := make([]plan.ImageFile, 0, len(entries))
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			files = append(files, plan.ImageFile{Name: entry.Name(), Size: info.Size(), Installation: makers[plan.BuildIDOfFile(entry.Name())]})
		}
	}
	return files, nil
}

// removeBuild removes all files in the images directory with the build ID in their names.
func (d imagesDir) removeBuild(ctx context.Context, b *resources.Build) error {
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if plan.BuildIDOfFile(entry.Name()) != b.ID {
			continue
		}
		if err := d.remove(ctx, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// forgottenDir is the directory inside the images directory for the files of forgotten builds.
const forgottenDir = "forgotten"

// forgetBuild moves all files with the build ID in their names to forgottenDir, where npctl never deletes them.
func (d imagesDir) forgetBuild(id string) error {
	files, err := d.list()
	if err != nil {
		return err
	}
	for _, f := range files {
		if plan.BuildIDOfFile(f.Name) != id {
			continue
		}
		if err := os.MkdirAll(filepath.Join(d.path, forgottenDir), 0o700); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(d.path, f.Name), filepath.Join(d.path, forgottenDir, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a file or directory of the images directory. It first unmounts what a killed builder left mounted.
// While anything is still mounted it deletes nothing, because the deletion would follow the mount.
func (d imagesDir) remove(ctx context.Context, name string) error {
	path := filepath.Join(d.path, name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(path)
	}
	for _, builder := range d.builders {
		if sweeper, ok := builder.(builders.Sweeper); ok {
			if err := sweeper.Sweep(ctx, path); err != nil {
				return fmt.Errorf("sweep %s: %w", path, err)
			}
		}
	}
	return mounts.RemoveTree(ctx, path)
}

// removeWork removes a build's work directory. If that fails, the next plan finds the directory by its name.
func (d imagesDir) removeWork(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := d.remove(ctx, name); err != nil {
		d.log.Warn("work directory of a build was not deleted", "directory", name, "error", err)
	}
}

// removeImage removes a file with a build ID in its name. It rejects any other name.
func (d imagesDir) removeImage(ctx context.Context, name string) error {
	if name != filepath.Base(name) || plan.BuildIDOfFile(name) == "" {
		return fmt.Errorf("%q is not the name of an image file", name)
	}
	return d.remove(ctx, name)
}

// marksDir is the directory inside the images directory with a mark of each build: an empty file ID.INSTALLATION. Without a
// record, npctl treats only the files of builds that its own installation has marked as leaks: another state, or Nodepool,
// may keep files with names of the same form in the directory.
const marksDir = ".npctl-builds"

func (d imagesDir) mark(id, installation string) string {
	return filepath.Join(d.path, marksDir, id+"."+installation)
}

// markBuild marks the files of a build before the first of them exists.
func (d imagesDir) markBuild(id, installation string) error {
	err := os.MkdirAll(filepath.Join(d.path, marksDir), 0o700)
	if err == nil {
		err = os.WriteFile(d.mark(id, installation), nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("mark the build in the images directory: %w", err)
	}
	return nil
}

// marks returns the installations that have made builds, by build.
func (d imagesDir) marks() (map[string]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, marksDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	makers := make(map[string]string, len(entries))
	for _, entry := range entries {
		if id, installation, isMark := strings.Cut(entry.Name(), "."); isMark && entry.Type().IsRegular() {
			makers[id] = installation
		}
	}
	return makers, nil
}

// removeMarks removes the marks of an installation for builds without files and without a record, and the directory of the
// marks after the last one.
func (d imagesDir) removeMarks(installation string, hasRecord func(build string) bool) error {
	makers, err := d.marks()
	if err != nil || len(makers) == 0 {
		return err
	}
	files, err := d.list()
	if err != nil {
		return err
	}
	inUse := map[string]bool{}
	for _, f := range files {
		inUse[plan.BuildIDOfFile(f.Name)] = true
	}
	for id, maker := range makers {
		if maker != installation || inUse[id] || hasRecord(id) {
			continue
		}
		if err := os.Remove(d.mark(id, installation)); err != nil {
			return err
		}
	}
	_ = os.Remove(filepath.Join(d.path, marksDir)) // it may contain other marks
	return nil
}

// BuilderIDFile is the file in the images directory that holds the ID of its builder. Nodepool's builder keeps its ID
// in a file of this name, so a host keeps its ID when it moves from Nodepool to npctl or gets another name.
const BuilderIDFile = "builder_id.txt"

// BuilderID returns the ID of the images directory among the builders that share a store. It creates the ID on first
// use.
func (e *Engine) BuilderID() (string, error) {
	path := filepath.Join(e.imagesDir(), BuilderIDFile)
	id, err := readBuilderID(path)
	if errors.Is(err, fs.ErrNotExist) {
		id, err = createBuilderID(path)
	}
	if err != nil {
		return "", fmt.Errorf("id of this builder: %w", err)
	}
	return id, nil
}

// addBuilders adds the ID of this builder, without creating one, and the IDs of the other registered builders.
func (e *Engine) addBuilders(seen *plan.Observed, registered []string) {
	seen.BuilderID, seen.OtherBuilders = "", map[string]bool{}
	if id, err := readBuilderID(filepath.Join(e.imagesDir(), BuilderIDFile)); err == nil {
		seen.BuilderID = id
	}
	for _, id := range registered {
		if id != seen.BuilderID {
			seen.OtherBuilders[id] = true
		}
	}
}

func readBuilderID(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	id, err := uuid.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("%s: %w; delete the file to get a new id", path, err)
	}
	return id.String(), nil
}

// createBuilderID never shows a partial ID to another process and never replaces an existing one.
func createBuilderID(path string) (id string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+BuilderIDFile+"-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(draft.Name()) //nolint:errcheck // no program reads the file
	_, err = draft.WriteString(uuid.NewString())
	if err = errors.Join(err, draft.Close()); err != nil {
		return "", err
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return readBuilderID(path)
}

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

// consoleFile matches the names that consoleName returns. Programs such as libvirt also write files that end with consoleEnd.
var consoleFile = regexp.MustCompile(`^node-[0-9]{10,}-attempt-[0-9]+\.console\.log$`)

func consoleName(n *resources.Node) string {
	return fmt.Sprintf("node-%s-attempt-%d"+consoleEnd, n.ID, n.Attempt)
}

// pruneConsoles removes old consoles, and those above the limit less one, so that another can be stored.
func pruneConsoles(dir string, now time.Time) {
	entries, _ := os.ReadDir(dir)
	consoles := newestFirst(dir, entries, consoleFile.MatchString)
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
