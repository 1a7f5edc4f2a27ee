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

// buildServiceJob is one job of a BuildService. It keeps the configuration that was active when it started.
type buildServiceJob struct {
	x    *execution
	shop *BuildService
}

var _ builders.BuildService = (*BuildService)(nil)

// NewBuildService returns a build service after removing the unfinished builds and uploads of an earlier one. The
// caller must not use the engine or its store for anything else at the same time.
func NewBuildService(ctx context.Context, e *Engine) (*BuildService, error) {
	seen, err := e.Observe(ctx, false)
	if err != nil {
		return nil, err
	}
	x, err := e.begin(ctx, seen)
	if err != nil {
		return nil, err
	}
	w := &BuildService{inForce: x, progress: map[string]func(string, int64, int64){}}
	e.Report = w.pass
	return w, w.job().tidyUp(ctx)
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
	e.activate(w.inForce.run)
	w.inForce = e.execution(w.inForce.run, seen)
	return nil
}

// job starts a job under the active configuration.
func (w *BuildService) job() *buildServiceJob {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &buildServiceJob{x: w.inForce, shop: w}
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
func (w *buildServiceJob) tidyUp(ctx context.Context) error {
	for _, u := range all[resources.Upload](w.x.cache) {
		if err := w.dropUpload(ctx, u); err != nil { // its provider may not respond; the next start retries
			w.x.Log.Warn("an incomplete upload was not deleted; the next plan deletes it", "provider", u.Provider, "image", u.Image, "error", err)
		}
	}
	known := map[string]bool{}
	for _, b := range all[resources.Build](w.x.cache) {
		if known[b.ID] = b.State == resources.StateReady; known[b.ID] {
			continue
		}
		if err := errors.Join(w.x.files().removeBuild(ctx, b), w.x.cache.drop(ctx, b.Key())); err != nil {
			return err
		}
	}
	if w.x.seen.ImagesDirOwner != w.x.seen.Installation {
		return nil // the directory is not ours
	}
	for _, file := range w.x.seen.Files {
		if id := plan.BuildIDOfFile(file.Name); id != "" && !known[id] {
			if err := w.x.files().remove(ctx, file.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *buildServiceJob) dropUpload(ctx context.Context, u *resources.Upload) error {
	_, store, release, err := w.images(ctx, u.Provider)
	if err != nil {
		return err
	}
	defer release()
	if err := w.x.imageRemover(store).remove(ctx, w.marksOf(u)); err != nil {
		return err
	}
	return w.x.cache.drop(ctx, u.Key())
}

// marksOf returns the ownership tags of an upload.
func (w *buildServiceJob) marksOf(u *resources.Upload) resources.OwnerTags {
	return resources.OwnerTags{Installation: w.x.seen.Installation, Kind: resources.KindUpload, ID: u.ID}
}

// images returns a configured provider and its image store. The caller must call release after it has used the store.
func (w *buildServiceJob) images(ctx context.Context, name string) (p *resources.Provider, store drivers.ImageStore, release func(), err error) {
	p, ok := w.x.provider(name)
	if !ok {
		return nil, nil, nil, fmt.Errorf("provider %s is not configured on this host", name)
	}
	cloud, release, err := w.x.cloud(ctx, name, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	store, ok = drivers.ImagesOf(cloud)
	if !ok {
		release()
		return nil, nil, nil, fmt.Errorf("provider %s does not support image uploads: %w", name, drivers.ErrNotSupported)
	}
	return p, store, release, nil
}

// Images implements builders.BuildService.
func (w *BuildService) Images() []string { return w.job().x.Buildable() }

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

// ListBuilds implements builders.BuildService.
func (w *BuildService) ListBuilds(context.Context) ([]string, error) {
	job := w.job()
	files, err := job.x.files().list()
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f.Name] = true
	}
	var ids []string
	for _, b := range all[resources.Build](job.x.cache) {
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

func (w *buildServiceJob) kept(id string) (*resources.Build, bool) {
	b, ok := get[resources.Build](w.x.cache, resources.Key{Kind: resources.KindBuild, ID: buildID(id)})
	return b, ok && b.State == resources.StateReady
}

// Build implements builders.BuildService.
func (w *BuildService) Build(ctx context.Context, image, id string, formats []string, progress func(phase string, done, total int64)) ([]resources.ImageFile, error) {
	files, err, _ := w.flight.Do(id, func() (any, error) { return w.job().make(ctx, image, id, formats, progress) })
	made, _ := files.([]resources.ImageFile)
	return made, err
}

func (w *buildServiceJob) make(ctx context.Context, image, id string, formats []string, progress func(phase string, done, total int64)) ([]resources.ImageFile, error) {
	if b, ok := w.kept(id); ok {
		return b.Files, nil
	}
	img, builder, err := w.x.imageBuilder(image)
	if err != nil {
		return nil, err
	}
	step := plan.Step{ID: "build " + id, Action: plan.ActionBuild, Thing: plan.ThingBuild, Image: image, Formats: w.formatsFor(img, formats)}
	if len(step.Formats) == 0 {
		return nil, fmt.Errorf("%s: the request contains no format, and none is configured on this host", img.Ref())
	}
	defer w.shop.listen(step.ID, progress)()
	release, err := w.x.acquireSlot(ctx, step)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.x.cache.clearBusy(step.ID)
	m := &imageBuild{x: w.x, step: step, image: img, builder: builder}
	if err := m.recordIntentAs(ctx, buildID(id)); err != nil {
		return nil, err
	}
	if err := m.runBuilder(ctx); err != nil {
		return nil, m.failed(ctx, err)
	}
	if m.build.ID != id {
		m.build.Extra = maps.Clone(m.build.Extra)
		if m.build.Extra == nil {
			m.build.Extra = map[string]string{}
		}
		m.build.Extra[extraRequestedID] = id
		if err := w.x.cache.put(ctx, m.build); err != nil {
			return nil, err
		}
	}
	return m.build.Files, nil
}

// formatsFor returns the formats to create: the requested and the configured ones. If none is requested, it adds the
// formats of the providers in this configuration.
func (w *buildServiceJob) formatsFor(img *resources.Image, asked []string) []string {
	formats := slices.Concat(asked, img.Formats)
	if len(asked) == 0 {
		formats = slices.AppendSeq(formats, maps.Values(w.x.seen.Formats))
	}
	slices.Sort(formats)
	return slices.Compact(formats)
}

// Upload implements builders.BuildService.
func (w *BuildService) Upload(ctx context.Context, s builders.UploadJob) (string, error) {
	return w.job().send(ctx, s)
}

func (w *buildServiceJob) send(ctx context.Context, s builders.UploadJob) (string, error) {
	b, ok := w.kept(s.BuildID)
	if !ok {
		return "", fmt.Errorf("build %s is not on this host", s.BuildID)
	}
	p, store, leave, err := w.images(ctx, s.Provider)
	if err != nil {
		return "", err
	}
	defer leave()
	format := cmp.Or(s.Format, store.ImageFormat())
	step := plan.Step{ID: "upload " + s.BuildID + " to " + p.Name, Action: plan.ActionUpload, Thing: plan.ThingUpload, Image: b.Image,
		Build: b.ID, Provider: p.Name, Format: format}
	release, err := w.x.acquireSlot(ctx, step)
	if err != nil {
		return "", err
	}
	defer release()
	file, err := w.fileOf(ctx, b.ID, format)
	if err != nil {
		return "", err
	}
	if s.Marks.ID == "" {
		return w.uploadUntagged(ctx, store, p, b, file, s)
	}
	return w.uploadTagged(ctx, store, p, b, file, s)
}

// uploadTagged uploads for a caller that keeps the record. It reuses or removes the image of an earlier attempt.
func (w *buildServiceJob) uploadTagged(ctx context.Context, store drivers.ImageStore, p *resources.Provider, b *resources.Build,
	file resources.ImageFile, s builders.UploadJob) (string, error) {
	there, err := imagesMarked(ctx, store, s.Marks)
	if err != nil {
		return "", err
	}
	if len(there) == 1 && there[0].Status == resources.StatusReady && there[0].Size == file.Size {
		return there[0].ID, nil
	}
	if err := w.x.imageRemover(store).remove(ctx, s.Marks); err != nil {
		return "", err
	}
	spec := w.x.imageSpec(p, b, file, &resources.Upload{ID: s.Marks.ID, Name: s.Name}, func(sent int64) {
		if s.Progress != nil {
			s.Progress(sent, file.Size)
		}
	})
	spec.Marks = s.Marks
	maps.Copy(spec.Properties, s.Properties)
	spec.Tags = slices.Concat(spec.Tags, s.Tags)
	slices.Sort(spec.Tags)
	spec.Tags = slices.Compact(spec.Tags)
	image, err := w.x.sendFile(ctx, store, p, b, file, spec)
	if err != nil {
		return "", errors.Join(err, w.undo(ctx, store, s.Marks))
	}
	return image.ID, nil
}

// undo removes the remains of a failed upload, even if ctx is canceled.
func (w *buildServiceJob) undo(ctx context.Context, store drivers.ImageStore, marks resources.OwnerTags) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return w.x.imageRemover(store).remove(ctx, marks)
}

// uploadUntagged uploads for a caller that does not use ownership tags. The image carries the tags of this host, and
// its record is kept until the image is complete, so that a partial upload is removed after a crash.
func (w *buildServiceJob) uploadUntagged(ctx context.Context, store drivers.ImageStore, p *resources.Provider, b *resources.Build,
	file resources.ImageFile, s builders.UploadJob) (string, error) {
	u, err := w.x.intendUpload(ctx, "", b, file, p)
	if err != nil {
		return "", err
	}
	marks := w.marksOf(u)
	s.Marks = w.x.imageSpec(p, b, file, u, nil).Marks
	s.Name = cmp.Or(s.Name, imageName(p.ImageNames, cmp.Or(s.Image, b.Image), u.ID, w.x.Now()))
	id, err := w.uploadTagged(ctx, store, p, b, file, s)
	if err != nil && w.undo(ctx, store, marks) != nil {
		return "", err // the record stays, and the next start removes the image
	}
	return id, errors.Join(err, w.x.cache.drop(ctx, u.Key()))
}

// fileOf returns the build's file of a format, and converts the build if there is none.
func (w *buildServiceJob) fileOf(ctx context.Context, id, format string) (resources.ImageFile, error) {
	file, err, _ := w.shop.flight.Do("convert "+id+" to "+format, func() (any, error) {
		for converted := false; ; converted = true {
			b, ok := w.kept(id)
			if !ok {
				return nil, fmt.Errorf("build %s is not on this host", id)
			}
			if f, ok := b.File(format); ok || converted {
				return f, nil
			}
			step := plan.Step{ID: "convert " + id + " to " + format, Action: plan.ActionConvert, Image: b.Image, Build: id, Format: format}
			if err := w.x.convertBuild(ctx, step); err != nil {
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
	job := w.job()
	b, ok := get[resources.Build](job.x.cache, resources.Key{Kind: resources.KindBuild, ID: buildID(id)})
	if !ok {
		return nil
	}
	return job.x.deleteBuild(ctx, plan.Step{ID: "delete build " + id, Record: b.Key()})
}

// OpenLog opens the log of a build. The build may still write to it.
func (w *BuildService) OpenLog(_ context.Context, id string) (io.ReadCloser, error) {
	job := w.job()
	b, ok := get[resources.Build](job.x.cache, resources.Key{Kind: resources.KindBuild, ID: buildID(id)})
	if !ok {
		return nil, fmt.Errorf("log of build %s: %w", id, fs.ErrNotExist)
	}
	dir, err := job.x.logDir()
	if err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(dir, b.Image+"-"+b.ID+".log"))
}

// Close ends the build service. No job may be running.
func (w *BuildService) Close() { w.job().x.end() }
