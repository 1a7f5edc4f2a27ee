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

// extraAskedAs is the name under which a build's record keeps the id that it was asked for by.
const extraAskedAs = "asked_as"

// Workshop makes, sends and removes images for others with the code that the executor uses. Its store holds nothing but
// what is on its own disk.
type Workshop struct {
	flight singleflight.Group

	mu       sync.Mutex // guards what follows
	inForce  *execution // of the newest configuration
	progress map[string]func(phase string, done, total int64)
}

// shopJob is a job of a workshop. It ends under the configuration that was in force when it began.
type shopJob struct {
	*execution
	shop *Workshop
}

var _ builders.Workshop = (*Workshop)(nil)

// NewWorkshop returns a workshop after removing what an earlier one left unfinished. Nobody else may use the engine, or
// its store, at the same time.
func NewWorkshop(ctx context.Context, e *Engine) (*Workshop, error) {
	seen, err := e.Observe(ctx, false)
	if err != nil {
		return nil, err
	}
	x, err := e.begin(ctx, seen)
	if err != nil {
		return nil, err
	}
	w := &Workshop{inForce: x, progress: map[string]func(string, int64, int64){}}
	e.Report = w.pass
	return w, w.job().tidyUp(ctx)
}

// Use puts the configuration of another engine in force, which Engine.With has made of the one before. Jobs that run end
// under the configuration that they began with. After an error the one before stays in force.
func (w *Workshop) Use(ctx context.Context, e *Engine) error {
	seen, err := e.Observe(ctx, false)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.comeIntoForce(w.inForce.run)
	w.inForce = e.execution(w.inForce.run, seen)
	return nil
}

// job begins a job under the configuration in force.
func (w *Workshop) job() *shopJob {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &shopJob{execution: w.inForce, shop: w}
}

// pass hands the progress of a step to whoever asked for it.
func (w *Workshop) pass(event Event) {
	w.mu.Lock()
	progress := w.progress[event.Step.ID]
	w.mu.Unlock()
	if progress != nil && event.Kind == EventProgress {
		progress(event.Phase, event.Done, event.Total)
	}
}

func (w *Workshop) listen(id string, progress func(phase string, done, total int64)) (forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress[id] = progress
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.progress, id)
	}
}

// tidyUp removes builds and uploads that were never finished, and files that no record knows.
func (w *shopJob) tidyUp(ctx context.Context) error {
	for _, u := range all[resources.Upload](w.ledger) {
		if err := w.dropUpload(ctx, u); err != nil { // its provider may be away; the next start tries again
			w.Log.Warn("half an upload stays for now", "provider", u.Provider, "image", u.Image, "error", err)
		}
	}
	known := map[string]bool{}
	for _, b := range all[resources.Build](w.ledger) {
		if known[b.ID] = b.State == resources.StateReady; known[b.ID] {
			continue
		}
		if err := errors.Join(w.removeBuildFiles(ctx, b), w.ledger.drop(ctx, b.Key())); err != nil {
			return err
		}
	}
	if w.seen.FilesOf != w.seen.Installation {
		return nil // the directory is not ours
	}
	for _, file := range w.seen.Files {
		if id := plan.BuildIDOfFile(file.Name); id != "" && !known[id] {
			if err := w.removeFile(ctx, file.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *shopJob) dropUpload(ctx context.Context, u *resources.Upload) error {
	_, store, release, err := w.images(ctx, u.Provider)
	if err != nil {
		return err
	}
	defer release()
	if err := w.removeImages(ctx, store, w.marksOf(u)); err != nil {
		return err
	}
	return w.ledger.drop(ctx, u.Key())
}

// images returns a configured provider and its image store. Release has to be called when the store is used no more.
func (w *shopJob) images(ctx context.Context, name string) (p *resources.Provider, store drivers.ImageStore, release func(), err error) {
	p, ok := w.provider(name)
	if !ok {
		return nil, nil, nil, fmt.Errorf("provider %s is not configured on this host", name)
	}
	cloud, release, err := w.cloud(ctx, name, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	store, ok = drivers.Images(cloud)
	if !ok {
		release()
		return nil, nil, nil, fmt.Errorf("provider %s takes no images: %w", name, drivers.ErrNotSupported)
	}
	return p, store, release, nil
}

// Images implements builders.Workshop.
func (w *Workshop) Images() []string { return w.job().Buildable() }

// Buildable names the configured images that a builder of this engine can make and that are not paused.
func (e *Engine) Buildable() []string {
	var names []string
	for i := range e.Desired.Images {
		if img := &e.Desired.Images[i]; e.Builders[img.Builder] != nil && !img.Pause {
			names = append(names, img.Name)
		}
	}
	return names
}

// Kept implements builders.Workshop.
func (w *Workshop) Kept(context.Context) ([]string, error) {
	job := w.job()
	files, err := job.files()
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f.Name] = true
	}
	var ids []string
	for _, b := range all[resources.Build](job.ledger) {
		onDisk := slices.ContainsFunc(b.Files, func(f resources.ImageFile) bool { return there[f.Name] })
		if b.State == resources.StateReady && onDisk {
			ids = append(ids, cmp.Or(b.Extra[extraAskedAs], b.ID))
		}
	}
	slices.Sort(ids)
	return ids, nil
}

var hexID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// buildID is the id that a build has here, where all ids are 32 hex digits.
func buildID(asked string) string {
	if hexID.MatchString(asked) {
		return asked
	}
	sum := sha256.Sum256([]byte(asked))
	return hex.EncodeToString(sum[:16])
}

func (w *shopJob) kept(id string) (*resources.Build, bool) {
	b, ok := get[resources.Build](w.ledger, resources.Key{Kind: resources.KindBuild, ID: buildID(id)})
	return b, ok && b.State == resources.StateReady
}

// Make implements builders.Workshop.
func (w *Workshop) Make(ctx context.Context, image, id string, formats []string, progress func(phase string, done, total int64)) ([]resources.ImageFile, error) {
	files, err, _ := w.flight.Do(id, func() (any, error) { return w.job().make(ctx, image, id, formats, progress) })
	made, _ := files.([]resources.ImageFile)
	return made, err
}

func (w *shopJob) make(ctx context.Context, image, id string, formats []string, progress func(phase string, done, total int64)) ([]resources.ImageFile, error) {
	if b, ok := w.kept(id); ok {
		return b.Files, nil
	}
	img, builder, err := w.imageBuilder(image)
	if err != nil {
		return nil, err
	}
	step := plan.Step{ID: "build " + id, Action: plan.ActionBuild, Thing: plan.ThingBuild, Image: image, Formats: w.formatsFor(img, formats)}
	if len(step.Formats) == 0 {
		return nil, fmt.Errorf("%s: no format is asked for, and none is configured here", img.Ref())
	}
	defer w.shop.listen(step.ID, progress)()
	release, err := w.slot(ctx, step)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.ledger.release(step.ID)
	m := &making{execution: w.execution, step: step, image: img, builder: builder}
	if err := m.intendAs(ctx, buildID(id)); err != nil {
		return nil, err
	}
	if err := m.make(ctx); err != nil {
		return nil, m.failed(ctx, err)
	}
	if m.build.ID != id {
		m.build.Extra = maps.Clone(m.build.Extra)
		if m.build.Extra == nil {
			m.build.Extra = map[string]string{}
		}
		m.build.Extra[extraAskedAs] = id
		if err := w.ledger.put(ctx, m.build); err != nil {
			return nil, err
		}
	}
	return m.build.Files, nil
}

// formatsFor are the formats to make: those asked for and those configured, or else those that the providers here want.
func (w *shopJob) formatsFor(img *resources.Image, asked []string) []string {
	formats := slices.Concat(asked, img.Formats)
	if len(asked) == 0 {
		formats = slices.AppendSeq(formats, maps.Values(w.seen.Formats))
	}
	slices.Sort(formats)
	return slices.Compact(formats)
}

// Send implements builders.Workshop.
func (w *Workshop) Send(ctx context.Context, s builders.Sending) (string, error) {
	return w.job().send(ctx, s)
}

func (w *shopJob) send(ctx context.Context, s builders.Sending) (string, error) {
	b, ok := w.kept(s.BuildID)
	if !ok {
		return "", fmt.Errorf("build %s is not here", s.BuildID)
	}
	p, store, leave, err := w.images(ctx, s.Provider)
	if err != nil {
		return "", err
	}
	defer leave()
	format := cmp.Or(s.Format, store.ImageFormat())
	step := plan.Step{ID: "upload " + s.BuildID + " to " + p.Name, Action: plan.ActionUpload, Thing: plan.ThingUpload, Image: b.Image,
		Build: b.ID, Provider: p.Name, Format: format}
	release, err := w.slot(ctx, step)
	if err != nil {
		return "", err
	}
	defer release()
	file, err := w.fileOf(ctx, b.ID, format)
	if err != nil {
		return "", err
	}
	if s.Marks.ID == "" {
		return w.sendAsOwn(ctx, store, p, b, file, s)
	}
	return w.sendMarked(ctx, store, p, b, file, s)
}

// sendMarked sends for somebody who keeps the record. What an earlier try has left there is taken, or removed.
func (w *shopJob) sendMarked(ctx context.Context, store drivers.ImageStore, p *resources.Provider, b *resources.Build,
	file resources.ImageFile, s builders.Sending) (string, error) {
	there, err := imagesMarked(ctx, store, s.Marks)
	if err != nil {
		return "", err
	}
	if len(there) == 1 && there[0].Status == resources.StatusReady && there[0].Size == file.Size {
		return there[0].ID, nil
	}
	if err := w.removeImages(ctx, store, s.Marks); err != nil {
		return "", err
	}
	spec := w.imageSpec(p, b, file, &resources.Upload{ID: s.Marks.ID, Name: s.Name}, func(sent int64) {
		if s.Progress != nil {
			s.Progress(sent, file.Size)
		}
	})
	spec.Marks = s.Marks
	maps.Copy(spec.Properties, s.Properties)
	spec.Tags = slices.Concat(spec.Tags, s.Tags)
	slices.Sort(spec.Tags)
	spec.Tags = slices.Compact(spec.Tags)
	image, err := w.sendFile(ctx, store, p, b, file, spec)
	if err != nil {
		return "", errors.Join(err, w.undo(ctx, store, s.Marks))
	}
	return image.ID, nil
}

// undo removes what a failed upload left, also when the upload was cancelled.
func (w *shopJob) undo(ctx context.Context, store drivers.ImageStore, marks resources.Marks) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return w.removeImages(ctx, store, marks)
}

// sendAsOwn sends for somebody who knows no marks. The image carries this host's, and its record is kept until the image
// is complete, so that half an upload is removed after a crash.
func (w *shopJob) sendAsOwn(ctx context.Context, store drivers.ImageStore, p *resources.Provider, b *resources.Build,
	file resources.ImageFile, s builders.Sending) (string, error) {
	u, err := w.intendUpload(ctx, "", b, file, p)
	if err != nil {
		return "", err
	}
	marks := w.marksOf(u)
	s.Marks = w.imageSpec(p, b, file, u, nil).Marks
	s.Name = cmp.Or(s.Name, imageName(p.ImageNames, cmp.Or(s.Image, b.Image), u.ID, w.Now()))
	id, err := w.sendMarked(ctx, store, p, b, file, s)
	if err != nil && w.undo(ctx, store, marks) != nil {
		return "", err // the record stays, and the next start removes what is there
	}
	return id, errors.Join(err, w.ledger.drop(ctx, u.Key()))
}

// fileOf returns the build's file of the format, which is made when there is none.
func (w *shopJob) fileOf(ctx context.Context, id, format string) (resources.ImageFile, error) {
	file, err, _ := w.shop.flight.Do("convert "+id+" to "+format, func() (any, error) {
		for converted := false; ; converted = true {
			b, ok := w.kept(id)
			if !ok {
				return nil, fmt.Errorf("build %s is not here", id)
			}
			if f, ok := b.File(format); ok || converted {
				return f, nil
			}
			step := plan.Step{ID: "convert " + id + " to " + format, Action: plan.ActionConvert, Image: b.Image, Build: id, Format: format}
			if err := w.convertBuild(ctx, step); err != nil {
				return nil, err
			}
		}
	})
	if err != nil {
		return resources.ImageFile{}, err
	}
	return file.(resources.ImageFile), nil
}

// Remove implements builders.Workshop.
func (w *Workshop) Remove(ctx context.Context, id string) error {
	job := w.job()
	b, ok := get[resources.Build](job.ledger, resources.Key{Kind: resources.KindBuild, ID: buildID(id)})
	if !ok {
		return nil
	}
	return job.deleteBuild(ctx, plan.Step{ID: "delete build " + id, Record: b.Key()})
}

// OpenLog opens the log of a build, which may still grow.
func (w *Workshop) OpenLog(_ context.Context, id string) (io.ReadCloser, error) {
	job := w.job()
	b, ok := get[resources.Build](job.ledger, resources.Key{Kind: resources.KindBuild, ID: buildID(id)})
	if !ok {
		return nil, fmt.Errorf("log of build %s: %w", id, fs.ErrNotExist)
	}
	dir, err := job.logDir()
	if err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(dir, b.Image+"-"+b.ID+".log"))
}

// Close ends the workshop. Nothing may run in it any more.
func (w *Workshop) Close() { w.job().end() }
