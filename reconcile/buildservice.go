package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// extraRequestedID is the key in Build.Extra of the ID by which the build was requested.
const extraRequestedID = "asked_as"

// BuildService builds, uploads and removes images for other processes with the code of the executor. Its store contains
// only the builds on its own disk.
type BuildService struct {
	flight singleflight.Group

	mu       sync.Mutex // guards the fields below
	inForce  *execution // of the active configuration
	progress map[string]func(phase string, done, total int64)
}

var _ builders.BuildService = (*BuildService)(nil)

// NewBuildService returns a build service after removing the unfinished builds and uploads of an earlier one. The
// caller must not use the engine or its store for anything else at the same time.
func NewBuildService(ctx context.Context, e *Engine) (*BuildService, error) {
	seen, err := e.Observe(ctx, false)
	if err != nil {
		return nil, err
	}
	shared, err := newRun(ctx, e.Store)
	if err != nil {
		return nil, err
	}
	w := &BuildService{inForce: &execution{Engine: e, sharedRun: shared, seen: seen}, progress: map[string]func(string, int64, int64){}}
	e.Report = w.pass
	return w, tidyUp(ctx, w.inForce)
}

// Use activates the configuration of an engine that Engine.With has derived from the previous one. Running jobs keep
// the configuration that they started with. After an error the previous configuration stays active.
func (w *BuildService) Use(ctx context.Context, e *Engine) error {
	seen, err := e.Observe(ctx, false)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inForce.activate(e)
	w.inForce = &execution{Engine: e, sharedRun: w.inForce.sharedRun, seen: seen}
	return nil
}

// active returns the execution of the active configuration. A job keeps it until it ends.
func (w *BuildService) active() *execution {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inForce
}

// pass forwards the progress of a step to the caller that listens to it.
func (w *BuildService) pass(event Event) {
	w.mu.Lock()
	progress := w.progress[event.Step.ID]
	w.mu.Unlock()
	if progress != nil && event.Kind == EventProgress {
		progress(event.Phase, event.Done, event.Total)
	}
}

func (w *BuildService) listen(id string, progress func(phase string, done, total int64)) (forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress[id] = progress
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.progress, id)
	}
}

// tidyUp removes unfinished builds and uploads, and files without a record.
func tidyUp(ctx context.Context, x *execution) error {
	for _, u := range all[resources.Upload](x.cache) {
		if err := x.deleteUpload(ctx, plan.Step{Record: u.Key()}); err != nil { // its provider may not respond; the next start retries
			x.Log.Warn("an incomplete upload was not deleted; the next plan deletes it", "provider", u.Provider, "image", u.Image, "error", err)
		}
	}
	known := map[string]bool{}
	for _, b := range all[resources.Build](x.cache) {
		if known[b.ID] = b.State == resources.StateReady; known[b.ID] {
			continue
		}
		if err := x.deleteBuild(ctx, plan.Step{Record: b.Key()}); err != nil {
			return err
		}
	}
	for _, file := range x.seen.Files {
		if id := plan.BuildIDOfFile(file.Name); id != "" && !known[id] && file.Installation == x.seen.Installation {
			if err := x.files().remove(ctx, file.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Images implements builders.BuildService.
func (w *BuildService) Images() []string { return w.active().Buildable() }

// Buildable returns the names of the configured images that are not paused and that a builder of this engine can build.
func (e *Engine) Buildable() []string {
	var names []string
	for i := range e.Desired.Images {
		if img := &e.Desired.Images[i]; e.Builders[img.Builder] != nil && !img.Pause {
			names = append(names, img.Name)
		}
	}
	return names
}

// VersionedImages implements builders.BuildService.
func (w *BuildService) VersionedImages() []string {
	x := w.active()
	return slices.DeleteFunc(x.Buildable(), func(name string) bool {
		_, builder, err := x.imageBuilder(name)
		_, versioned := builder.(builders.Versioned)
		return err != nil || !versioned
	})
}

// Versions implements builders.BuildService.
func (w *BuildService) Versions(ctx context.Context, image string) ([]resources.Version, error) {
	x := w.active()
	img, builder, err := x.imageBuilder(image)
	if err != nil {
		return nil, err
	}
	source, ok := builder.(builders.Versioned)
	if !ok {
		return nil, fmt.Errorf("%s: %w", img.Ref(), builders.ErrNoVersions)
	}
	return source.Versions(ctx, img.Name, img.Config, x.Desired.Settings.Dir)
}

// ListBuilds implements builders.BuildService.
func (w *BuildService) ListBuilds(context.Context) ([]string, error) {
	x := w.active()
	files, err := x.files().list()
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f.Name] = true
	}
	var ids []string
	for _, b := range all[resources.Build](x.cache) {
		onDisk := slices.ContainsFunc(b.Files, func(f resources.ImageFile) bool { return there[f.Name] })
		if b.State == resources.StateReady && onDisk {
			ids = append(ids, cmp.Or(b.Extra[extraRequestedID], b.ID))
		}
	}
	slices.Sort(ids)
	return ids, nil
}

var hexID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// buildID returns the ID of a build in this store, where all IDs are 32 hex digits.
func buildID(asked string) string {
	if hexID.MatchString(asked) {
		return asked
	}
	sum := sha256.Sum256([]byte(asked))
	return hex.EncodeToString(sum[:16])
}

// keptBuild returns the record of a build on this host.
func keptBuild(x *execution, id string) (*resources.Build, error) {
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: buildID(id)})
	if !ok || b.State != resources.StateReady {
		return nil, fmt.Errorf("build %s is not on this host", id)
	}
	return b, nil
}

// Build implements builders.BuildService.
func (w *BuildService) Build(ctx context.Context, job builders.RemoteBuild) ([]resources.ImageFile, error) {
	files, err, _ := w.flight.Do(job.BuildID, func() (any, error) { return w.build(ctx, job) })
	made, _ := files.([]resources.ImageFile)
	return made, err
}

func (w *BuildService) build(ctx context.Context, job builders.RemoteBuild) ([]resources.ImageFile, error) {
	x, id := w.active(), job.BuildID
	if b, err := keptBuild(x, id); err == nil {
		return b.Files, nil
	}
	img, _, err := x.imageBuilder(job.Image)
	if err != nil {
		return nil, err
	}
	wanted := slices.Concat(job.Formats, img.Formats)
	if len(job.Formats) == 0 {
		wanted = slices.AppendSeq(wanted, maps.Values(x.seen.Formats)) // of the providers in this configuration
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("%s: the request contains no format, and none is configured on this host", img.Ref())
	}
	slices.Sort(wanted)
	step := plan.Step{ID: "build " + id, Kind: plan.KindBuild, Image: job.Image, Build: buildID(id),
		Version: job.Version, Formats: slices.Compact(wanted)}
	defer w.listen(step.ID, job.Progress)()
	if _, err := x.runStep(ctx, step, stepRun{}); err != nil {
		return nil, err
	}
	b, err := keptBuild(x, id)
	if err != nil {
		return nil, err
	}
	if b.ID == id {
		return b.Files, nil
	}
	b.Extra = maps.Clone(b.Extra)
	if b.Extra == nil {
		b.Extra = map[string]string{}
	}
	b.Extra[extraRequestedID] = id
	return b.Files, x.cache.put(ctx, b)
}

// Upload implements builders.BuildService.
func (w *BuildService) Upload(ctx context.Context, job builders.UploadJob) (string, error) {
	x := w.active()
	b, err := keptBuild(x, job.BuildID)
	if err != nil {
		return "", err
	}
	p, ok := x.Desired.Provider(job.Provider)
	if !ok {
		return "", fmt.Errorf("provider %s is not configured on this host", job.Provider)
	}
	cloud, leave, err := x.cloud(ctx, job.Provider, nil)
	defer leave()
	if err != nil {
		return "", err
	}
	store, ok := drivers.ImagesOf(cloud)
	if !ok {
		return "", fmt.Errorf("provider %s does not support image uploads: %w", job.Provider, drivers.ErrNotSupported)
	}
	format := cmp.Or(job.Format, store.ImageFormat())
	step := plan.Step{ID: "upload " + job.BuildID + " to " + p.Name, Kind: plan.KindUpload, Image: b.Image,
		Build: b.ID, Provider: p.Name, Format: format}
	return x.runStep(ctx, step, stepRun{work: func(ctx context.Context) (string, error) {
		file, err := w.fileOf(ctx, x, b.ID, format)
		if err != nil {
			return "", err
		}
		u := &imageUpload{x: x, store: store, provider: p, build: b, file: file, record: &resources.Upload{ID: job.Marks.ID}}
		if job.Marks.ID == "" {
			return u.sendUntagged(ctx, job)
		}
		return u.sendTagged(ctx, job)
	}})
}

// sendTagged uploads for a caller that keeps the record. It reuses or removes the image of an earlier attempt.
func (u *imageUpload) sendTagged(ctx context.Context, job builders.UploadJob) (string, error) {
	there, err := imagesMarked(ctx, u.store, job.Marks)
	if err != nil {
		return "", err
	}
	if len(there) == 1 && there[0].Status == resources.StatusReady && there[0].Size == u.file.Size {
		return there[0].ID, nil
	}
	if err := u.x.imageRemover(u.store).remove(ctx, job.Marks); err != nil {
		return "", err
	}
	spec := u.spec()
	spec.Name, spec.Marks = job.Name, job.Marks
	spec.Progress = func(sent int64) {
		if job.Progress != nil {
			job.Progress(sent, u.file.Size)
		}
	}
	maps.Copy(spec.Properties, job.Properties)
	spec.Tags = slices.Concat(spec.Tags, job.Tags)
	slices.Sort(spec.Tags)
	spec.Tags = slices.Compact(spec.Tags)
	image, err := u.sendFile(ctx, spec)
	if err != nil {
		return "", errors.Join(err, u.undo(ctx, job.Marks))
	}
	return image.ID, nil
}

// undo removes the remains of a failed upload, even if ctx is canceled.
func (u *imageUpload) undo(ctx context.Context, marks resources.OwnerTags) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return u.x.imageRemover(u.store).remove(ctx, marks)
}

// sendUntagged uploads for a caller that does not use ownership tags. The image carries the tags of this host, and its
// record is kept until the image is complete, so that a partial upload is removed after a crash.
func (u *imageUpload) sendUntagged(ctx context.Context, job builders.UploadJob) (string, error) {
	if err := u.intend(ctx, ""); err != nil {
		return "", err
	}
	job.Marks = u.spec().Marks
	job.Name = cmp.Or(job.Name, imageName(u.provider.ImageNames, cmp.Or(job.Image, u.build.Image), u.record.ID, u.x.Now()))
	id, err := u.sendTagged(ctx, job)
	if err != nil && u.undo(ctx, job.Marks) != nil {
		return "", err // the record stays, and the next start removes the image
	}
	return id, errors.Join(err, u.x.cache.drop(ctx, u.record.Key()))
}

// fileOf returns the build's file of a format, and converts the build if there is none.
func (w *BuildService) fileOf(ctx context.Context, x *execution, id, format string) (resources.ImageFile, error) {
	step := plan.Step{ID: "convert " + id + " to " + format, Kind: plan.KindConvert, Build: id, Format: format}
	file, err, _ := w.flight.Do(step.ID, func() (any, error) {
		for converted := false; ; converted = true {
			b, err := keptBuild(x, id)
			if err != nil {
				return nil, err
			}
			if f, ok := b.File(format); ok || converted {
				return f, nil
			}
			step.Image = b.Image
			if _, err := x.runStep(ctx, step, stepRun{}); err != nil {
				return nil, err
			}
		}
	})
	if err != nil {
		return resources.ImageFile{}, err
	}
	return file.(resources.ImageFile), nil
}

// Remove implements builders.BuildService.
func (w *BuildService) Remove(ctx context.Context, id string) error {
	step := plan.Step{ID: "delete build " + id, Kind: plan.KindDeleteBuild,
		Record: resources.Key{Kind: resources.KindBuild, ID: buildID(id)}}
	_, err := w.active().runStep(ctx, step, stepRun{})
	return err
}

// OpenLog opens the log of a build. The build may still write to it.
func (w *BuildService) OpenLog(_ context.Context, id string) (io.ReadCloser, error) {
	x := w.active()
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: buildID(id)})
	if !ok {
		return nil, fmt.Errorf("log of build %s: %w", id, fs.ErrNotExist)
	}
	dir, err := x.logDir()
	if err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(dir, b.Image+"-"+b.ID+".log"))
}

// Close ends the build service. No job may be running.
func (w *BuildService) Close() { w.active().pollers.end() }
