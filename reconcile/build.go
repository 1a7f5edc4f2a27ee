package reconcile

import (
	"cmp"
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
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// workSuffix ends the name of a build's work directory in the images directory. Like every name of a build it contains
// the build ID, which identifies the remains of an interrupted build.
const workSuffix = ".work"

// manifestSuffix ends the name of the directory in which a builder describes the content of an image. It is kept with
// the image.
const manifestSuffix = ".d"

// gonesAtMost is how many missing versions of a source are remembered.
const gonesAtMost = 50

// imageBuild is one build, from its intent to its ready state.
type imageBuild struct {
	x       *execution
	step    plan.Step
	image   *resources.Image
	builder builders.Builder
	build   *resources.Build
}

// build creates an image: intent, work directory, builder, missing formats, checksums, files in place, result.
func (x *execution) build(ctx context.Context, s plan.Step) (string, error) {
	img, builder, err := x.imageBuilder(s.Image)
	if err != nil {
		return "", err
	}
	m := &imageBuild{x: x, step: s, image: img, builder: builder}
	if err := m.recordIntent(ctx); err != nil {
		return "", err
	}
	if err := m.runBuilder(ctx); err != nil {
		return m.build.ID, m.failed(ctx, err)
	}
	x.books.recordDuration("build/"+img.Name, m.build.Seconds)
	x.results.add(img.Name, "", m.build.ID)
	if store, ok := x.Store.(state.BuildRequester); ok {
		if err := store.RequestBuild(ctx, img.Name, false); err != nil {
			return m.build.ID, err
		}
	}
	return m.build.ID, x.cache.changeImage(ctx, img.Name, img.Kind, func(r *resources.ImageRecord) { r.Failure = nil })
}

// recordIntent writes the record of the build, or reads the record of an interrupted build to resume.
func (m *imageBuild) recordIntent(ctx context.Context) error {
	if m.step.Record.Kind != "" {
		b, ok := get[resources.Build](m.x.cache, m.step.Record)
		if !ok {
			return fmt.Errorf("%s is not in the state any more", m.step.Record)
		}
		m.build = b
		return nil
	}
	id := m.step.Build // set by build hosts
	if id == "" {
		random := uuid.New()
		id = hex.EncodeToString(random[:])
	}
	now, img := m.x.Now(), m.image
	inputs := m.x.seen.Inputs[img.Name]
	hash := plan.ImageHashes(img.Hashes, inputs.Hash).Current()
	_, remote := m.builder.(builders.Remote)
	builder := ""
	if !remote && (m.x.cache.claims.store != nil || m.x.seen.Shared) { // other builders have builds in the same store
		var err error
		if builder, err = m.x.BuilderID(); err != nil {
			return err
		}
	}
	m.build = &resources.Build{ID: id, Image: img.Name, Kind: img.Kind, State: resources.StateBuilding,
		StateTime: now, Created: now, Builder: img.Builder, Host: m.x.host, HostID: builder, Hash: hash, Login: img.Login, Remote: remote}
	if m.step.Version != "" {
		m.build.Version, m.build.VersionTime = m.step.Version, m.versionTime()
	}
	if err := m.x.cache.putFor(ctx, m.step.ID, append([]resources.Record{m.build}, m.x.cache.template(hash, img.Static, inputs.Files)...)...); err != nil {
		return err
	}
	if err := m.builtByOther(ctx); err != nil {
		return errors.Join(err, m.x.cache.drop(ctx, m.build.Key()))
	}
	return nil
}

// builtByOther returns an error if another program has finished a build of the image that was not ready when this one
// was planned. The record of this build holds the lock of the image's builds at that point, so no other build becomes
// ready unnoticed.
func (m *imageBuild) builtByOther(ctx context.Context) error {
	store := m.x.cache.claims.store
	if store == nil {
		return nil
	}
	planned := map[string]bool{} // by build ID: whether it was ready
	for _, b := range m.x.seen.Records.Builds {
		planned[b.ID] = b.State == resources.StateReady
	}
	if err := store.Sync(ctx); err != nil {
		return err
	}
	entries, err := store.List(ctx, resources.KindBuild)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		b, ok := entry.Record.(*resources.Build)
		if ok && b.Image == m.build.Image && b.State == resources.StateReady && !planned[b.ID] {
			return fmt.Errorf("build %s of %s was finished after this one was planned: %w", b.ID, b.Image, errChanged)
		}
	}
	return nil
}

func (m *imageBuild) versionTime() time.Time {
	for _, v := range m.x.seen.Versions[m.image.Name].Versions {
		if v.ID == m.step.Version {
			return v.Time
		}
	}
	return time.Time{}
}

// name returns the base name of the build's files.
func (m *imageBuild) name() string { return m.build.Image + "-" + m.build.ID }

// runBuilder runs the builder and moves its files to the images directory.
func (m *imageBuild) runBuilder(ctx context.Context) error {
	started := time.Now()
	work := filepath.Join(m.x.imagesDir(), m.name()+workSuffix)
	if err := m.x.files().markBuild(m.build.ID, m.x.seen.Installation); err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return fmt.Errorf("create the work directory of the build: %w", err)
	}
	defer m.x.files().removeWork(ctx, filepath.Base(work))
	if err := m.checkDiskSpace(); err != nil {
		return err
	}
	log, err := m.x.openBuildLog(m.name())
	if err != nil {
		return err
	}
	defer func() {
		if err := log.Close(); err != nil {
			m.x.Log.Warn("the log of a build is incomplete", "image", m.image.Name, "build", m.build.ID, "error", err)
		}
	}()
	artifact, err := m.builder.Build(ctx, m.job(work), log)
	if err != nil {
		if strings.Contains(err.Error(), "\n") { // the error contains the last lines of a program's output
			return fmt.Errorf("%w\n  log: %s", err, log.file.Name())
		}
		return fmt.Errorf("%w (log: %s)", err, log.file.Name())
	}
	if err := m.installFiles(ctx, artifact, work, log); err != nil {
		return err
	}
	b := m.build
	b.State, b.StateTime, b.Seconds = resources.StateReady, m.x.Now(), time.Since(started).Seconds()
	return m.x.cache.put(ctx, b)
}

func (m *imageBuild) job(work string) builders.Job {
	return builders.Job{Image: m.image.Name, BuildID: m.build.ID, Config: m.image.Config, Formats: m.step.Formats, Dir: work,
		Name: m.name(), BaseDir: m.x.Desired.Settings.Dir, Timeout: m.image.BuildTimeout, Version: m.build.Version,
		Instances: &instanceProvider{x: m.x, step: m.step, build: m.build.ID}, Progress: m.x.progress(m.step)}
}

// minDiskSpace is the minimum free disk space of a build, in bytes.
const minDiskSpace = 256 << 20

// checkDiskSpace checks that the disk has space for a build as large as the previous one and its conversions.
func (m *imageBuild) checkDiskSpace() error {
	if m.build.Remote {
		return nil
	}
	need := int64(minDiskSpace)
	var last *resources.Build
	for _, b := range all[resources.Build](m.x.cache) {
		if b.Image == m.image.Name && b.State == resources.StateReady && (last == nil || b.StateTime.After(last.StateTime)) {
			last = b
		}
	}
	if last != nil {
		var size int64
		for _, f := range last.Files {
			if info, err := os.Stat(filepath.Join(m.x.imagesDir(), f.Name)); err == nil {
				size += imagefile.Allocated(info)
			}
		}
		need = max(need, 2*size)
	}
	return imagefile.CheckFree(m.x.imagesDir(), need)
}

// installFiles moves the files of the builder to the images directory and records them.
func (m *imageBuild) installFiles(ctx context.Context, artifact builders.Artifact, work string, log io.Writer) (err error) {
	m.build.Extra = artifact.Extra
	if m.build.Remote {
		m.build.Files = artifact.RemoteFiles
		m.build.Host = cmp.Or(artifact.Host, m.build.Host)
		return nil
	}
	if m.build.Files, err = m.collectFiles(ctx, artifact, log); err != nil {
		return err
	}
	manifests := m.name() + manifestSuffix
	err = os.Rename(filepath.Join(work, manifests), filepath.Join(m.x.imagesDir(), manifests))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// collectFiles renames the files, converts them to the missing formats, and returns them with their checksums.
func (m *imageBuild) collectFiles(ctx context.Context, artifact builders.Artifact, log io.Writer) ([]resources.ImageFile, error) {
	if len(artifact.Files) == 0 {
		return nil, errors.New("the builder created no image file")
	}
	var files []resources.ImageFile
	have := map[string]bool{}
	for _, f := range artifact.Files {
		m.x.progress(m.step)("checksums of "+f.Format, 0, 0)
		sums, err := imagefile.HashFile(ctx, f.Path, nil)
		if err != nil {
			return nil, err
		}
		file := resources.ImageFile{Format: f.Format, Name: m.name() + "." + f.Format, Size: sums.Size, SHA256: sums.SHA256, MD5: sums.MD5}
		if err := os.Rename(f.Path, filepath.Join(m.x.imagesDir(), file.Name)); err != nil {
			return nil, err
		}
		files = append(files, file)
		have[f.Format] = true
	}
	source := files[0]
	for _, format := range m.step.Formats {
		if have[format] {
			continue
		}
		file, err := m.x.convert(ctx, m.step, source, m.name(), format, log)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// failed removes the files of a failed build and records the failure. A build on another host that was only interrupted
// continues there; the next run asks for it again.
func (m *imageBuild) failed(ctx context.Context, cause error) error {
	interrupted := ctx.Err() != nil
	if interrupted && m.build.Remote {
		return ErrInterrupted
	}
	b := m.build
	b.State, b.StateTime, b.Error, b.Files = resources.StateFailed, m.x.Now(), cause.Error(), nil
	if err := m.x.cache.put(ctx, b); err != nil {
		return errors.Join(cause, err)
	}
	var remembered error
	if !interrupted {
		remembered = m.x.cache.changeImage(ctx, b.Image, b.Kind, func(r *resources.ImageRecord) {
			r.Failure = failedAgain(r.Failure, m.x.Now(), cause, b.ID)
			r.Failure.Hash, r.Failure.Requested = b.Hash, m.step.Reason == plan.ReasonRequested
			if errors.Is(cause, builders.ErrVersionGone) && b.Version != "" {
				r.MissingVersions = append(r.MissingVersions[max(0, len(r.MissingVersions)-gonesAtMost+1):], b.Version)
			}
		})
	}
	clear, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	err := m.x.removeBuild(clear, b)
	if err != nil && b.Remote { // most likely for the same cause
		m.x.Log.Warn("a failed build may still be on a build host; the next plan deletes it", "build", b.ID, "error", err)
		return errors.Join(cause, remembered)
	}
	if err == nil {
		err = m.x.cache.drop(ctx, b.Key())
	}
	return errors.Join(cause, remembered, err)
}

// deleteBuild removes a build's files and then its record.
func (x *execution) deleteBuild(ctx context.Context, s plan.Step) error {
	b, ok := get[resources.Build](x.cache, s.Record)
	if !ok {
		return nil
	}
	b.State, b.StateTime = resources.StateDeleting, x.Now()
	if err := x.cache.put(ctx, b); err != nil {
		return err
	}
	if err := x.removeBuild(ctx, b); err != nil {
		return err
	}
	return x.cache.drop(ctx, b.Key())
}

// removeBuild removes the files of a build on this host or a remote one. A running remote build is stopped.
func (x *execution) removeBuild(ctx context.Context, b *resources.Build) error {
	if !b.Remote {
		return x.files().removeBuild(ctx, b)
	}
	remote, ok := x.Builders[b.Builder].(builders.Remote)
	if !ok {
		return fmt.Errorf("build %s is on %s, which this npctl cannot reach: it has no builder %q", b.ID, b.Host, b.Builder)
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	err := remote.Remove(ctx, b.ID)
	if errors.Is(err, builders.ErrHostUnavailable) && isGoneEverywhere(ctx, remote, b) {
		err = nil
	}
	if err != nil {
		return err
	}
	return x.files().removeBuild(ctx, b) // npctl may have been killed before it removed the work directory
}

// isGoneEverywhere reports whether a build that no host offers no longer exists, as opposed to being on a host that is
// down. It does not exist if it never became ready, because it was lost with its host or never started, or if its host
// is up and does not have it, for example because a removal was not recorded.
func isGoneEverywhere(ctx context.Context, remote builders.Remote, b *resources.Build) bool {
	hosts, ok := remote.(builders.HostStatus)
	if b.Seconds == 0 || !ok {
		return b.Seconds == 0
	}
	if up, err := hosts.Up(ctx, b.Host); !up || err != nil {
		return false
	}
	// The host may have returned after the removal and before Up.
	held, err := remote.ListBuilds(ctx)
	return err == nil && !held[b.ID]
}

func (x *execution) convert(ctx context.Context, s plan.Step, from resources.ImageFile, name, format string, log io.Writer) (resources.ImageFile, error) {
	report := x.progress(s)
	to := name + "." + format
	result, err := qemuimg.Convert(ctx, filepath.Join(x.imagesDir(), from.Name), from.Format,
		filepath.Join(x.imagesDir(), to), format, qemuimg.Options{Log: log, Run: x.RunQemuImg,
			Progress: func(done, total int64) { report("converting to "+format, done, total) }})
	if err != nil {
		return resources.ImageFile{}, err
	}
	return resources.ImageFile{Format: format, Name: to, Size: result.Size, SHA256: result.SHA256, MD5: result.MD5}, nil
}

// convertBuild adds a format to an existing build.
func (x *execution) convertBuild(ctx context.Context, s plan.Step) error {
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: s.Build})
	if !ok {
		return fmt.Errorf("build %s is not in the state any more", s.Build)
	}
	err := x.addFormat(ctx, s, b)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, x.rememberUnconverted(ctx, b, s.Format, err))
}

func (x *execution) addFormat(ctx context.Context, s plan.Step, b *resources.Build) error {
	started := time.Now()
	there := func(f resources.ImageFile) bool {
		_, err := os.Stat(filepath.Join(x.imagesDir(), f.Name))
		return err == nil
	}
	i := slices.IndexFunc(b.Files, there)
	if i < 0 {
		return fmt.Errorf("build %s has no file to convert", b.ID)
	}
	file, err := x.convert(ctx, s, b.Files[i], b.Image+"-"+b.ID, s.Format, nil)
	if err != nil {
		return err
	}
	x.books.recordDuration("convert/"+b.Image+"/"+s.Format, time.Since(started).Seconds())
	found, err := x.changeFiles(ctx, b.ID, func(files []resources.ImageFile) []resources.ImageFile {
		return append(slices.DeleteFunc(files, func(f resources.ImageFile) bool { return f.Format == file.Format }), file)
	})
	if err == nil && !found {
		err = fmt.Errorf("build %s is not in the state any more", b.ID)
	}
	return err
}

// deleteFile removes an image file and its entry in the record of the build. A step without a build refers to the build
// that this run has created.
func (x *execution) deleteFile(ctx context.Context, s plan.Step) error {
	name, build := s.External, s.Build
	if build == "" {
		build = x.results.id(s.Image, "")
		name = s.Image + "-" + build + "." + s.Format
	}
	_, err := x.changeFiles(ctx, build, func(files []resources.ImageFile) []resources.ImageFile {
		return slices.DeleteFunc(files, func(f resources.ImageFile) bool { return f.Name == name })
	})
	if err != nil {
		return err
	}
	return x.files().removeImage(ctx, name)
}

// changeFiles changes the files in the record of a build, and reports whether there is one. It does not overwrite the
// change of another step.
func (x *execution) changeFiles(ctx context.Context, build string, change func([]resources.ImageFile) []resources.ImageFile) (found bool, err error) {
	release, err := x.slots.acquire(ctx, "files of builds", 1)
	if err != nil {
		return false, err
	}
	defer release()
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: build})
	if !ok {
		return false, nil
	}
	b.Files = change(slices.Clone(b.Files))
	return true, x.cache.put(ctx, b)
}

// rememberUnconverted records a failure for each provider that needs the format, so that its backoff also covers the
// conversion: no upload to it will fail.
func (x *execution) rememberUnconverted(ctx context.Context, b *resources.Build, format string, cause error) error {
	ref := resources.ImageRef{Kind: b.Kind, Name: b.Image}
	waits := func(p resources.Provider) bool {
		return x.seen.Formats[p.Name] == format && p.Uses(ref)
	}
	has := map[string]bool{}
	for _, u := range all[resources.Upload](x.cache) {
		has[u.Provider] = has[u.Provider] || u.Build == b.ID && u.State == resources.StateReady
	}
	return x.cache.changeImage(ctx, b.Image, b.Kind, func(r *resources.ImageRecord) {
		for _, p := range x.Desired.Providers {
			if waits(p) && !has[p.Name] {
				uploadFailed(r, p.Name, x.Now(), cause, b.ID)
			}
		}
	})
}
