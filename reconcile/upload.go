package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// upload uploads a build to a provider: intent, stream, result.
func (x *execution) upload(ctx context.Context, s plan.Step) (string, error) {
	b, err := x.buildOf(s)
	if err != nil {
		return "", err
	}
	provider, ok := x.provider(s.Provider)
	if !ok {
		return "", fmt.Errorf("provider %s is not configured", s.Provider)
	}
	cloud, release, err := x.cloud(ctx, s.Provider, nil)
	defer release()
	if err != nil {
		return "", err
	}
	store, ok := drivers.ImagesOf(cloud)
	if !ok {
		return "", fmt.Errorf("provider %s does not support image uploads: %w", s.Provider, drivers.ErrNotSupported)
	}
	file, ok := b.File(s.Format)
	if !ok && !b.Remote {
		return "", fmt.Errorf("build %s has no %s file", b.ID, s.Format)
	}
	file.Format = s.Format
	u, err := x.intendUpload(ctx, s.ID, b, file, provider)
	if err != nil {
		return "", err
	}
	if err := x.uploadBuild(ctx, s, store, provider, b, file, u); err != nil {
		err = fmt.Errorf("upload %s to %s: %w", cmp.Or(file.Name, b.Image), s.Provider, err)
		return u.ID, errors.Join(err, x.failUpload(ctx, store, u, b.Kind, err))
	}
	x.recordDuration(fmt.Sprintf("upload/%s/%s", s.Provider, s.Image), u.Seconds)
	x.results.addUpload(s.Image, s.Provider, u.ID)
	return u.ID, x.imageRecords().change(ctx, u.Image, b.Kind, func(r *resources.ImageRecord) { delete(r.Uploads, u.Provider) })
}

// buildOf returns the build to upload: from the step, or created by this run.
func (x *execution) buildOf(s plan.Step) (*resources.Build, error) {
	id := cmp.Or(s.Build, x.results.build(s.Image))
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: id})
	if !ok {
		return nil, fmt.Errorf("build %s is not in the state any more", id)
	}
	return b, nil
}

func (x *execution) intendUpload(ctx context.Context, step string, b *resources.Build, file resources.ImageFile, p *resources.Provider) (*resources.Upload, error) {
	now := x.Now()
	u := &resources.Upload{Image: b.Image, Build: b.ID, Provider: p.Name, State: resources.StateUploading, StateTime: now,
		Created: now, Format: file.Format, Size: file.Size, Hash: b.Hash, Login: x.login(b, p)}
	if err := x.cache.putFor(ctx, step, u); err != nil {
		return nil, err
	}
	u.Name = imageName(p.ImageNames, b.Image, u.ID, now)
	return u, nil
}

// login returns the login of nodes that boot from the image: from the configuration, or from the build if the image is
// no longer configured.
func (x *execution) login(b *resources.Build, p *resources.Provider) resources.Login {
	if img := x.image(b.Image); img != nil {
		return img.LoginIn(p)
	}
	return b.Login
}

// updateUpload records the configured login of an upload.
func (x *execution) updateUpload(ctx context.Context, s plan.Step) error {
	u, at := find[resources.Upload](x.cache, s.Record)
	img := x.image(s.Image)
	p, configured := x.provider(s.Provider)
	if u == nil || u.State != resources.StateReady || img == nil || !configured {
		return fmt.Errorf("%s: %w", s.Record, errChanged)
	}
	u.Login = img.LoginIn(p)
	return x.cache.replace(ctx, state.Op{Record: u, Revision: at})
}

// image returns the configured image of that name, or nil.
func (x *execution) image(name string) *resources.Image {
	for i := range x.Desired.Images {
		if x.Desired.Images[i].Name == name {
			return &x.Desired.Images[i]
		}
	}
	return nil
}

func providerImage(p *resources.Provider, b *resources.Build) (resources.ProviderImage, bool) {
	ref := resources.ImageRef{Kind: b.Kind, Name: b.Image}
	i := slices.IndexFunc(p.Images, func(o resources.ProviderImage) bool { return o.Image == ref })
	if i < 0 {
		return resources.ProviderImage{}, false
	}
	return p.Images[i], true
}

// imageName expands a template of image names: {image_name}, {upload_id} and {timestamp} (Unix seconds).
func imageName(template, image, upload string, now time.Time) string {
	if template == "" {
		template = "{image_name}-{timestamp}"
	}
	return strings.NewReplacer("{image_name}", image, "{upload_id}", upload,
		"{timestamp}", strconv.FormatInt(now.Unix(), 10)).Replace(template)
}

// uploadBuild uploads the file from this host, or from the host that has it, and writes the result.
func (x *execution) uploadBuild(ctx context.Context, s plan.Step, store drivers.ImageStore, p *resources.Provider, b *resources.Build,
	file resources.ImageFile, u *resources.Upload) error {
	if err := x.cache.claims.awaitConnected(ctx, s.ID); err != nil {
		return err
	}
	started := time.Now()
	report := x.progress(s)
	spec := x.imageSpec(p, b, file, u, func(sent int64) { report("uploading", sent, file.Size) })
	var image resources.RemoteImage
	var err error
	if b.Remote {
		image, u.Unmarked, err = x.uploadFromHost(ctx, store, p, b, spec, func(sent, total int64) { report("uploading", sent, total) })
	} else {
		image, err = x.sendFile(ctx, store, p, b, file, spec)
	}
	if err != nil {
		return err
	}
	u.ExternalID, u.State, u.StateTime, u.Seconds = image.ID, resources.StateReady, x.Now(), time.Since(started).Seconds()
	u.Name, u.Size = cmp.Or(image.Name, u.Name), cmp.Or(u.Size, image.Size)
	return x.cache.put(ctx, u)
}

// sendFile streams a file of this host and runs the provider's hook for the image.
func (x *execution) sendFile(ctx context.Context, store drivers.ImageStore, p *resources.Provider, b *resources.Build,
	file resources.ImageFile, spec drivers.ImageSpec) (resources.RemoteImage, error) {
	path := filepath.Join(x.imagesDir(), file.Name)
	content, err := os.Open(path)
	if err != nil {
		return resources.RemoteImage{}, err
	}
	defer content.Close() //nolint:errcheck // the file is only read
	image, err := store.UploadImage(ctx, spec, content)
	if err != nil {
		return image, err
	}
	return image, x.hook(ctx, p, b, spec, image.ID, path)
}

// uploadFromHost lets another host upload the file, and checks the image. A host that does not use ownership tags
// creates an image without them.
func (x *execution) uploadFromHost(ctx context.Context, store drivers.ImageStore, p *resources.Provider, b *resources.Build,
	spec drivers.ImageSpec, progress func(sent, total int64)) (resources.RemoteImage, bool, error) {
	remote, ok := x.Builders[b.Builder].(builders.Remote)
	if !ok {
		return resources.RemoteImage{}, false, fmt.Errorf("build %s is on %s, which this npctl cannot reach: it has no builder %q", b.ID, b.Host, b.Builder)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(p.UploadTimeout, drivers.DefaultUploadTimeout), errors.New("not uploaded within upload_timeout"))
	defer cancel()
	id, err := remote.Upload(ctx, builders.UploadJob{BuildID: b.ID, Image: b.Image, Provider: p.Name, Format: spec.Format, Name: spec.Name,
		Marks: spec.Marks, Properties: spec.Properties, Tags: spec.Tags, Progress: progress})
	if err != nil {
		return resources.RemoteImage{}, false, err
	}
	images, err := store.ListImages(ctx)
	if err != nil {
		return resources.RemoteImage{}, false, fmt.Errorf("list the image that %s has uploaded: %w", b.Host, err)
	}
	for _, image := range images {
		if image.ID != id {
			continue
		}
		if image.Status != resources.StatusReady {
			return image, false, fmt.Errorf("image %s is %s after %s has uploaded it", id, image.Status, b.Host)
		}
		return image, image.Marks.ID != spec.Marks.ID, nil
	}
	return resources.RemoteImage{ID: id, Name: spec.Name}, true, nil
}

// hookTimeout is how long post_upload_hook may run.
const hookTimeout = 30 * time.Minute

// hook runs the provider's post_upload_hook. The upload fails if the hook fails.
func (x *execution) hook(ctx context.Context, p *resources.Provider, b *resources.Build, spec drivers.ImageSpec, id, path string) error {
	if p.PostUploadHook == "" {
		return nil
	}
	program := p.PostUploadHook
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(x.Desired.Settings.Dir, program)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, hookTimeout, fmt.Errorf("it ran for more than %s", hookTimeout))
	defer cancel()
	env := process.Setall(process.BaseEnv(os.Environ()), map[string]string{"NPCTL_PROVIDER": p.Name, "NPCTL_IMAGE_NAME": b.Image,
		"NPCTL_BUILD_ID": b.ID, "NPCTL_EXTERNAL_ID": id, "NPCTL_FORMAT": spec.Format, "NPCTL_CLOUD_IMAGE_NAME": spec.Name})
	err := process.Run(ctx, process.Spec{Args: []string{program, p.Name, id, path}, Dir: x.Desired.Settings.Dir, Env: env,
		Line: func(line string) { x.Log.Info("post_upload_hook", "provider", p.Name, "image", b.Image, "line", line) }})
	if err != nil {
		return fmt.Errorf("post_upload_hook: %w", err)
	}
	return nil
}

func (x *execution) imageSpec(p *resources.Provider, b *resources.Build, file resources.ImageFile, u *resources.Upload, progress func(int64)) drivers.ImageSpec {
	spec := drivers.ImageSpec{
		Marks: resources.OwnerTags{Installation: x.seen.Installation, Kind: resources.KindUpload, ID: u.ID, Provider: p.Name,
			Image: b.Image, Build: b.ID, Hash: b.Hash},
		Name: u.Name, Format: file.Format, Size: file.Size, SHA256: file.SHA256, MD5: file.MD5, Progress: progress,
		Properties: map[string]string{}, Config: cty.NullVal(cty.DynamicPseudoType),
	}
	for _, img := range x.Desired.Images {
		if img.Name == b.Image {
			maps.Copy(spec.Properties, img.Properties)
			spec.Tags = append(spec.Tags, img.Tags...)
		}
	}
	if own, ok := providerImage(p, b); ok {
		maps.Copy(spec.Properties, own.Properties)
		spec.Tags = append(spec.Tags, own.Tags...)
		spec.Config = own.Config
	}
	slices.Sort(spec.Tags)
	spec.Tags = slices.Compact(spec.Tags)
	return spec
}

// failUpload records a failed upload and removes its remains from the cloud.
func (x *execution) failUpload(ctx context.Context, store drivers.ImageStore, u *resources.Upload, kind resources.ImageKind, cause error) error {
	u.State, u.StateTime, u.Error = resources.StateFailed, x.Now(), cause.Error()
	if err := x.cache.put(ctx, u); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the caller returns the cause; the next plan deletes the rest
	}
	err := x.imageRecords().change(ctx, u.Image, kind, func(r *resources.ImageRecord) { uploadFailed(r, u.Provider, x.Now(), cause, u.Build) })
	if err != nil {
		return err
	}
	if err := x.imageRemover(store).removeUploaded(ctx, u); err != nil {
		return err
	}
	return x.cache.drop(ctx, u.Key())
}

// deleteUpload deletes an image from a cloud and then its record.
func (x *execution) deleteUpload(ctx context.Context, s plan.Step) error {
	u, ok := get[resources.Upload](x.cache, s.Record)
	if !ok {
		return nil
	}
	cloud, release, err := x.cloud(ctx, u.Provider, x.rememberedProvider(u.Provider))
	defer release()
	if err != nil {
		return err
	}
	store, ok := drivers.ImagesOf(cloud)
	if !ok {
		return drivers.ErrNotSupported
	}
	u.State, u.StateTime = resources.StateDeleting, x.Now()
	if u.ExternalID == "" {
		u.ExternalID = s.External
	}
	if err := x.cache.put(ctx, u); err != nil {
		return err
	}
	if err := x.imageRemover(store).removeUploaded(ctx, u); err != nil {
		return err
	}
	return x.cache.drop(ctx, u.Key())
}
