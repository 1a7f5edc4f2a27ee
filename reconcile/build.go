package reconcile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/mounts"
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// workSuffix ends the name of the directory a build works in, inside the images directory. Like every other name of a
// build it holds the build's id, so that whatever a dead build leaves is known to be its.
const workSuffix = ".work"

// manifestSuffix ends the name of a directory with what a builder tells about the content of an image. It is kept with
// the image.
const manifestSuffix = ".d"

// build makes an image: intent, work directory, builder, missing formats, checksums, files in place, result.
func (x *execution) build(ctx context.Context, s plan.Step) (string, error) {
	img, builder, err := x.imageBuilder(s.Image)
	if err != nil {
		return "", err
	}
	b, err := x.intendBuild(ctx, img)
	if err != nil {
		return "", err
	}
	if err := x.makeBuild(ctx, s, img, builder, b); err != nil {
		return b.ID, errors.Join(err, x.failBuild(ctx, b, err))
	}
	x.took("build/"+img.Name, b.Seconds)
	x.mu.Lock()
	x.built[img.Name] = b.ID
	x.mu.Unlock()
	return b.ID, nil
}

func (x *execution) imageBuilder(name string) (*resources.Image, builders.Builder, error) {
	for i := range x.Desired.Images {
		if img := &x.Desired.Images[i]; img.Name == name {
			builder := x.Builders[img.Builder]
			if builder == nil {
				return nil, nil, fmt.Errorf("%s: this npctl has no builder %q", img.Ref(), img.Builder)
			}
			return img, builder, nil
		}
	}
	return nil, nil, fmt.Errorf("image %s is not configured", name)
}

func (x *execution) intendBuild(ctx context.Context, img *resources.Image) (*resources.Build, error) {
	id := uuid.New()
	now := x.Now()
	hash := plan.ImageHashes(img.Hashes, x.seen.Inputs[img.Name]).Current()
	b := &resources.Build{ID: hex.EncodeToString(id[:]), Image: img.Name, Kind: img.Kind, State: resources.StateBuilding,
		StateTime: now, Created: now, Builder: img.Builder, Host: x.host, Hash: hash, Login: img.Login}
	return b, x.ledger.put(ctx, append([]resources.Record{b}, x.template(hash, img.Static)...)...)
}

// makeBuild runs the builder and brings its files to the images directory.
func (x *execution) makeBuild(ctx context.Context, s plan.Step, img *resources.Image, builder builders.Builder, b *resources.Build) error {
	started := time.Now()
	name := b.Image + "-" + b.ID
	work := filepath.Join(x.imagesDir(), name+workSuffix)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return fmt.Errorf("make directory for the build: %w", err)
	}
	if err := x.claim(x.seen.Installation); err != nil {
		return err
	}
	defer x.removeWork(ctx, filepath.Base(work))
	log, err := x.buildLog(name)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // a log that cannot be flushed does not spoil the image
	job := builders.Job{Image: img.Name, BuildID: b.ID, Config: img.Config, Formats: s.Formats, Dir: work, Name: name,
		BaseDir: x.Desired.Settings.Dir, Timeout: img.BuildTimeout, Progress: x.progress(s)}
	artifact, err := builder.Build(ctx, job, log)
	if err != nil {
		return fmt.Errorf("%w (log: %s)", err, log.Name())
	}
	if b.Files, err = x.collect(ctx, s, artifact, name, log); err != nil {
		return err
	}
	manifests := name + manifestSuffix
	err = os.Rename(filepath.Join(work, manifests), filepath.Join(x.imagesDir(), manifests))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.Extra = artifact.Extra
	b.State, b.StateTime, b.Seconds = resources.StateReady, x.Now(), time.Since(started).Seconds()
	return x.ledger.put(ctx, b)
}

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

// collect gives the files their final names, in every format asked for, with their sums.
func (x *execution) collect(ctx context.Context, s plan.Step, artifact builders.Artifact, name string, log io.Writer) ([]resources.ImageFile, error) {
	if len(artifact.Files) == 0 {
		return nil, errors.New("the builder left no image file")
	}
	var files []resources.ImageFile
	have := map[string]bool{}
	for _, f := range artifact.Files {
		x.progress(s)("checksums of "+f.Format, 0, 0)
		sums, err := imagefile.HashFile(ctx, f.Path, nil)
		if err != nil {
			return nil, err
		}
		file := resources.ImageFile{Format: f.Format, Name: name + "." + f.Format, Size: sums.Size, SHA256: sums.SHA256, MD5: sums.MD5}
		if err := os.Rename(f.Path, filepath.Join(x.imagesDir(), file.Name)); err != nil {
			return nil, err
		}
		files = append(files, file)
		have[f.Format] = true
	}
	source := files[0]
	for _, format := range s.Formats {
		if have[format] {
			continue
		}
		file, err := x.convert(ctx, s, source, name, format, log)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func (x *execution) convert(ctx context.Context, s plan.Step, from resources.ImageFile, name, format string, log io.Writer) (resources.ImageFile, error) {
	report := x.progress(s)
	to := name + "." + format
	result, err := qemuimg.Convert(ctx, filepath.Join(x.imagesDir(), from.Name), from.Format,
		filepath.Join(x.imagesDir(), to), format, qemuimg.Options{Log: log,
			Progress: func(done, total int64) { report("converting to "+format, done, total) }})
	if err != nil {
		return resources.ImageFile{}, err
	}
	return resources.ImageFile{Format: format, Name: to, Size: result.Size, SHA256: result.SHA256, MD5: result.MD5}, nil
}

// convertBuild adds a format to a build that is there.
func (x *execution) convertBuild(ctx context.Context, s plan.Step) error {
	b, ok := get[resources.Build](x.ledger, resources.Key{Kind: resources.KindBuild, ID: s.Build})
	if !ok {
		return fmt.Errorf("build %s is gone from the state", s.Build)
	}
	started := time.Now()
	for _, from := range b.Files {
		if _, err := os.Stat(filepath.Join(x.imagesDir(), from.Name)); err != nil {
			continue
		}
		file, err := x.convert(ctx, s, from, b.Image+"-"+b.ID, s.Format, nil)
		if err != nil {
			return err
		}
		b.Files = append(slices.DeleteFunc(slices.Clone(b.Files), func(f resources.ImageFile) bool { return f.Format == s.Format }), file)
		x.took("convert/"+b.Image+"/"+s.Format, time.Since(started).Seconds())
		return x.ledger.put(ctx, b)
	}
	return fmt.Errorf("no file of build %s is left to convert", b.ID)
}

// failBuild records that a build failed and removes what it left.
func (x *execution) failBuild(ctx context.Context, b *resources.Build, cause error) error {
	b.State, b.StateTime, b.Error, b.Files = resources.StateFailed, x.Now(), cause.Error(), nil
	if err := x.ledger.put(ctx, b); err != nil {
		return err
	}
	clear, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := x.removeBuildFiles(clear, b); err != nil {
		return err
	}
	return x.ledger.drop(ctx, b.Key())
}

// deleteBuild removes a build's files and then its record.
func (x *execution) deleteBuild(ctx context.Context, s plan.Step) error {
	b, ok := get[resources.Build](x.ledger, s.Record)
	if !ok {
		return nil
	}
	b.State, b.StateTime = resources.StateDeleting, x.Now()
	if err := x.ledger.put(ctx, b); err != nil {
		return err
	}
	if err := x.removeBuildFiles(ctx, b); err != nil {
		return err
	}
	return x.ledger.drop(ctx, b.Key())
}

// removeBuildFiles removes everything in the images directory that carries the build's id.
func (x *execution) removeBuildFiles(ctx context.Context, b *resources.Build) error {
	entries, err := os.ReadDir(x.imagesDir())
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
		if err := x.removeFile(ctx, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// removeFile removes a file or directory of the images directory. What a killed builder left mounted is unmounted first;
// while something is still mounted nothing is deleted, since the deletion would go through the mount.
func (x *execution) removeFile(ctx context.Context, name string) error {
	path := filepath.Join(x.imagesDir(), name)
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
	for _, builder := range x.Builders {
		if sweeper, ok := builder.(builders.Sweeper); ok {
			if err := sweeper.Sweep(ctx, path); err != nil {
				return fmt.Errorf("sweep %s: %w", path, err)
			}
		}
	}
	return mounts.RemoveTree(ctx, path)
}

// removeWork removes a build's work directory. What cannot be removed is found by its name in the next plan.
func (x *execution) removeWork(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := x.removeFile(ctx, name); err != nil {
		x.Log.Warn("work directory of a build stays", "directory", name, "error", err)
	}
}

// deleteFile removes an image file, and its mention in the build's record. A step that names no build means the one that
// this run has made.
func (x *execution) deleteFile(ctx context.Context, s plan.Step) error {
	name, build := s.External, s.Build
	if build == "" {
		x.mu.Lock()
		build = x.built[s.Image]
		x.mu.Unlock()
		name = s.Image + "-" + build + "." + s.Format
	}
	if err := x.dropFile(ctx, build, name); err != nil {
		return err
	}
	return x.removeImageFile(ctx, name)
}

// removeImageFile removes a file that carries a build's id, and no other.
func (x *execution) removeImageFile(ctx context.Context, name string) error {
	if name != filepath.Base(name) || plan.BuildIDOfFile(name) == "" {
		return fmt.Errorf("%q is not the name of an image file", name)
	}
	return x.removeFile(ctx, name)
}

func (x *execution) dropFile(ctx context.Context, build, name string) error {
	x.files.Lock()
	defer x.files.Unlock()
	b, ok := get[resources.Build](x.ledger, resources.Key{Kind: resources.KindBuild, ID: build})
	if !ok {
		return nil
	}
	b.Files = slices.DeleteFunc(slices.Clone(b.Files), func(f resources.ImageFile) bool { return f.Name == name })
	return x.ledger.put(ctx, b)
}
