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
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/imagefile"
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
