package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// imageUpload is one upload of a build to a provider.
type imageUpload struct {
	x        *execution
	store    drivers.ImageStore // of the provider
	provider *resources.Provider
	build    *resources.Build
	file     resources.ImageFile
	record   *resources.Upload
}

// upload uploads a build to a provider: intent, stream, result.
func (x *execution) upload(ctx context.Context, s plan.Step) (string, error) {
	id := cmp.Or(s.Build, x.results.id(s.Image, ""))
	b, ok := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: id})
	if !ok {
		return "", fmt.Errorf("build %s is not in the state any more", id)
	}
	provider, ok := x.Desired.Provider(s.Provider)
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
	u := &imageUpload{x: x, store: store, provider: provider, build: b, file: file}
	if err := u.intend(ctx, s.ID); err != nil {
		return "", err
	}
	if err := u.run(ctx, s); err != nil {
		err = fmt.Errorf("upload %s to %s: %w", cmp.Or(file.Name, b.Image), s.Provider, err)
		return u.record.ID, errors.Join(err, u.failed(ctx, err))
	}
	x.books.recordDuration(fmt.Sprintf("upload/%s/%s", s.Provider, s.Image), u.record.Seconds)
	x.results.add(s.Image, s.Provider, u.record.ID)
	return u.record.ID, x.cache.changeImage(ctx, b.Image, b.Kind, func(r *resources.ImageRecord) { delete(r.Uploads, s.Provider) })
}

// intend writes the record of the upload. The login of nodes that boot from the image comes from the configuration, or
// from the build if the image is no longer configured.
func (u *imageUpload) intend(ctx context.Context, step string) error {
	now, b, p := u.x.Now(), u.build, u.provider
	login := b.Login
	if img := u.x.Desired.Image(b.Image); img != nil {
		login = img.LoginIn(p)
	}
	u.record = &resources.Upload{Image: b.Image, Build: b.ID, Provider: p.Name, State: resources.StateUploading, StateTime: now,
		Created: now, Format: u.file.Format, Size: u.file.Size, Hash: b.Hash, Login: login}
	settings, static := p.ImageSettings(resources.ImageRef{Kind: b.Kind, Name: b.Image})
	u.record.Settings = settings.Current()
	if err := u.x.cache.putFor(ctx, step, append([]resources.Record{u.record}, u.x.cache.template(u.record.Settings, static, nil)...)...); err != nil {
		return err
	}
	u.record.Name = imageName(p.ImageNames, b.Image, u.record.ID, now)
	return nil
}

// imageName expands a template of image names: {image_name}, {upload_id} and {timestamp} (Unix seconds).
func imageName(template, image, upload string, now time.Time) string {
	template = cmp.Or(template, "{image_name}-{timestamp}")
	return strings.NewReplacer("{image_name}", image, "{upload_id}", upload,
		"{timestamp}", strconv.FormatInt(now.Unix(), 10)).Replace(template)
}

// run uploads the file from this host, or from the host that has it, and writes the result.
func (u *imageUpload) run(ctx context.Context, s plan.Step) error {
	if err := u.x.cache.claims.awaitConnected(ctx, s.ID); err != nil {
		return err
	}
	started := time.Now()
	report := u.x.progress(s)
	spec := u.spec()
	r := u.record
	var image resources.RemoteImage
	var err error
	if u.build.Remote {
		image, r.Unmarked, err = u.sendFromHost(ctx, spec, func(sent, total int64) { report("uploading", sent, total) })
	} else {
		spec.Progress = func(sent int64) { report("uploading", sent, u.file.Size) }
		image, err = u.sendFile(ctx, spec)
	}
	if err != nil {
		return err
	}
	r.ExternalID, r.State, r.StateTime, r.Seconds = image.ID, resources.StateReady, u.x.Now(), time.Since(started).Seconds()
	r.Name, r.Size = cmp.Or(image.Name, r.Name), cmp.Or(r.Size, image.Size)
	return u.x.cache.put(ctx, r)
}

// spec returns the description of the image for the driver.
func (u *imageUpload) spec() drivers.ImageSpec {
	b, file := u.build, u.file
	spec := drivers.ImageSpec{
		Marks: resources.OwnerTags{Installation: u.x.seen.Installation, Kind: resources.KindUpload, ID: u.record.ID, Provider: u.provider.Name,
			Image: b.Image, Build: b.ID, Hash: b.Hash},
		Name: u.record.Name, Format: file.Format, Size: file.Size, SHA256: file.SHA256, MD5: file.MD5,
		Properties: map[string]string{}, Config: cty.NullVal(cty.DynamicPseudoType),
	}
	if img := u.x.Desired.Image(b.Image); img != nil {
		maps.Copy(spec.Properties, img.Properties)
		spec.Tags = append(spec.Tags, img.Tags...)
	}
	ref := resources.ImageRef{Kind: b.Kind, Name: b.Image}
	if i := slices.IndexFunc(u.provider.Images, func(o resources.ProviderImage) bool { return o.Image == ref }); i >= 0 {
		own := u.provider.Images[i]
		maps.Copy(spec.Properties, own.Properties)
		spec.Tags = append(spec.Tags, own.Tags...)
		spec.Config = own.Config
	}
	slices.Sort(spec.Tags)
	spec.Tags = slices.Compact(spec.Tags)
	return spec
}

// sendFile streams a file of this host and runs the provider's hook for the image.
func (u *imageUpload) sendFile(ctx context.Context, spec drivers.ImageSpec) (resources.RemoteImage, error) {
	path := filepath.Join(u.x.imagesDir(), u.file.Name)
	content, err := os.Open(path)
	if err != nil {
		return resources.RemoteImage{}, err
	}
	defer content.Close() //nolint:errcheck // the file is only read
	image, err := u.store.UploadImage(ctx, spec, content)
	if err != nil {
		return image, err
	}
	return image, u.hook(ctx, spec, image.ID, path)
}

// sendFromHost lets another host upload the file, and checks the image. A host that does not use ownership tags creates
// an image without them.
func (u *imageUpload) sendFromHost(ctx context.Context, spec drivers.ImageSpec, progress func(sent, total int64)) (image resources.RemoteImage, unmarked bool, err error) {
	b := u.build
	remote, ok := u.x.Builders[b.Builder].(builders.Remote)
	if !ok {
		return image, false, fmt.Errorf("build %s is on %s, which this npctl cannot reach: it has no builder %q", b.ID, b.Host, b.Builder)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(u.provider.UploadTimeout, drivers.DefaultUploadTimeout), errors.New("not uploaded within upload_timeout"))
	defer cancel()
	id, err := remote.Upload(ctx, builders.UploadJob{BuildID: b.ID, Image: b.Image, Provider: u.provider.Name, Format: spec.Format, Name: spec.Name,
		Marks: spec.Marks, Properties: spec.Properties, Tags: spec.Tags, Progress: progress})
	if err != nil {
		return image, false, err
	}
	images, err := u.store.ListImages(ctx)
	if err != nil {
		return image, false, fmt.Errorf("list the image that %s has uploaded: %w", b.Host, err)
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

// hook runs the provider's post_upload_hook. The upload fails if the hook fails.
func (u *imageUpload) hook(ctx context.Context, spec drivers.ImageSpec, id, path string) error {
	p, b := u.provider, u.build
	if p.PostUploadHook == "" {
		return nil
	}
	return u.x.hooks().run(ctx, hook{name: "post_upload_hook", args: []string{p.PostUploadHook, p.Name, id, path}, limit: uploadHookTimeout,
		env: map[string]string{"NPCTL_PROVIDER": p.Name, "NPCTL_IMAGE_NAME": b.Image, "NPCTL_BUILD_ID": b.ID, "NPCTL_EXTERNAL_ID": id,
			"NPCTL_FORMAT": spec.Format, "NPCTL_CLOUD_IMAGE_NAME": spec.Name},
		facts: []any{"provider", p.Name, "image", b.Image}})
}

// failed records a failed upload and removes its remains from the cloud.
func (u *imageUpload) failed(ctx context.Context, cause error) error {
	r := u.record
	r.State, r.StateTime, r.Error = resources.StateFailed, u.x.Now(), cause.Error()
	if err := u.x.cache.put(ctx, r); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the caller returns the cause; the next plan deletes the rest
	}
	err := u.x.cache.changeImage(ctx, r.Image, u.build.Kind, func(i *resources.ImageRecord) { uploadFailed(i, r.Provider, u.x.Now(), cause, r.Build) })
	if err != nil {
		return err
	}
	if err := u.x.imageRemover(u.store).removeUploaded(ctx, r); err != nil {
		return err
	}
	return u.x.cache.drop(ctx, r.Key())
}

// updateUpload records the configured login of an upload.
func (x *execution) updateUpload(ctx context.Context, s plan.Step) error {
	u, at := find[resources.Upload](x.cache, s.Record)
	img := x.Desired.Image(s.Image)
	p, configured := x.Desired.Provider(s.Provider)
	if u == nil || u.State != resources.StateReady || img == nil || !configured {
		return fmt.Errorf("%s: %w", s.Record, errChanged)
	}
	u.Login = img.LoginIn(p)
	return x.cache.replace(ctx, state.Op{Record: u, Revision: at})
}

// deleteUpload deletes an image from a cloud and then its record.
func (x *execution) deleteUpload(ctx context.Context, s plan.Step) error {
	u, ok := get[resources.Upload](x.cache, s.Record)
	if !ok {
		return nil
	}
	cloud, release, err := x.cloud(ctx, u.Provider, x.cache.provider(u.Provider))
	defer release()
	if err != nil {
		return err
	}
	store, ok := drivers.ImagesOf(cloud)
	if !ok {
		return drivers.ErrNotSupported
	}
	u.State, u.StateTime = resources.StateDeleting, x.Now()
	u.ExternalID = cmp.Or(u.ExternalID, s.External)
	if err := x.cache.put(ctx, u); err != nil {
		return err
	}
	if err := x.imageRemover(store).removeUploaded(ctx, u); err != nil {
		return err
	}
	return x.cache.drop(ctx, u.Key())
}

// imageRemover deletes images from a provider.
type imageRemover struct {
	store        drivers.ImageStore
	claims       *claims // a deletion waits until the state is connected
	log          *slog.Logger
	installation string
}

func (x *execution) imageRemover(store drivers.ImageStore) imageRemover {
	return imageRemover{store, x.cache.claims, x.Log, x.seen.Installation}
}

// removeUploaded deletes the image of an upload record and every image with its ownership tags.
func (r imageRemover) removeUploaded(ctx context.Context, u *resources.Upload) error {
	marks := resources.OwnerTags{Installation: r.installation, Kind: resources.KindUpload, ID: u.ID}
	if u.ExternalID != "" {
		expected := marks
		if u.Unmarked {
			var err error
			if expected, err = r.foreignTags(ctx, u); err != nil {
				return err
			}
		}
		if err := r.deleteImage(ctx, u.ExternalID, expected); err != nil {
			return err
		}
	}
	return r.remove(ctx, marks)
}

// foreignTags returns the ownership tags of an image that a host of another installation uploaded: the tags of that
// installation, or none.
func (r imageRemover) foreignTags(ctx context.Context, u *resources.Upload) (resources.OwnerTags, error) {
	images, err := r.store.ListImages(ctx)
	if err != nil {
		return resources.OwnerTags{}, err
	}
	for _, i := range images {
		if i.ID == u.ExternalID && i.Marks.Installation != r.installation {
			return i.Marks, nil
		}
	}
	return resources.OwnerTags{}, nil
}

// deleteImage deletes one image. An image without the expected ownership tags belongs to another owner and is not
// deleted.
func (r imageRemover) deleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	if err := r.claims.awaitConnected(ctx, ""); err != nil {
		return err
	}
	err := r.store.DeleteImage(ctx, id, expected)
	if errors.Is(err, drivers.ErrNotOurs) {
		r.log.Warn("image belongs to another owner; not deleted", "image", id, "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete image %s: %w", id, err)
	}
	return nil
}

// remove deletes every image with the given ownership tags and waits until a listing shows none.
func (r imageRemover) remove(ctx context.Context, marks resources.OwnerTags) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deleteTimeout, fmt.Errorf("image not gone after %s", deleteTimeout))
	defer cancel()
	for {
		images, err := imagesMarked(ctx, r.store, marks)
		if err != nil || len(images) == 0 {
			return err
		}
		for _, image := range images {
			if err := r.deleteImage(ctx, image.ID, image.Marks); err != nil {
				return err
			}
		}
		if err := waits.Sleep(ctx, pollLeast); err != nil {
			return err
		}
	}
}

// imagesMarked lists the images with the ownership tags of one record.
func imagesMarked(ctx context.Context, store drivers.ImageStore, marks resources.OwnerTags) ([]resources.RemoteImage, error) {
	images, err := store.ListImages(ctx)
	return slices.DeleteFunc(images, func(i resources.RemoteImage) bool {
		return i.Marks.Installation != marks.Installation || i.Marks.ID != marks.ID || i.Marks.Kind != marks.Kind
	}), err
}
