package reconcile

import (
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

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// upload brings a build to a provider: intent, stream, result.
func (x *execution) upload(ctx context.Context, s plan.Step) (string, error) {
	b, err := x.buildOf(s)
	if err != nil {
		return "", err
	}
	file, ok := b.File(s.Format)
	if !ok {
		return "", fmt.Errorf("build %s has no %s file", b.ID, s.Format)
	}
	provider, ok := x.provider(s.Provider)
	if !ok {
		return "", fmt.Errorf("provider %s is not configured", s.Provider)
	}
	cloud, err := x.cloud(ctx, s.Provider, nil)
	if err != nil {
		return "", err
	}
	store, ok := drivers.Images(cloud)
	if !ok {
		return "", fmt.Errorf("provider %s takes no images: %w", s.Provider, drivers.ErrNotSupported)
	}
	u, err := x.intendUpload(ctx, b, file, provider)
	if err != nil {
		return "", err
	}
	if err := x.send(ctx, s, store, provider, b, file, u); err != nil {
		err = fmt.Errorf("upload %s to %s: %w", file.Name, s.Provider, err)
		return u.ID, errors.Join(err, x.failUpload(ctx, store, u, err))
	}
	x.took(fmt.Sprintf("upload/%s/%s", s.Provider, s.Image), u.Seconds)
	x.mu.Lock()
	x.uploaded[uploadedTo{s.Image, s.Provider}] = u.ID
	x.mu.Unlock()
	return u.ID, nil
}

// buildOf is the build to upload: the one the step names, or the one that this run has made.
func (x *execution) buildOf(s plan.Step) (*resources.Build, error) {
	id := s.Build
	if id == "" {
		x.mu.Lock()
		id = x.built[s.Image]
		x.mu.Unlock()
	}
	b, ok := get[resources.Build](x.ledger, resources.Key{Kind: resources.KindBuild, ID: id})
	if !ok {
		return nil, fmt.Errorf("build %s is gone from the state", id)
	}
	return b, nil
}

func (x *execution) intendUpload(ctx context.Context, b *resources.Build, file resources.ImageFile, p *resources.Provider) (*resources.Upload, error) {
	now := x.Now()
	u := &resources.Upload{Image: b.Image, Build: b.ID, Provider: p.Name, State: resources.StateUploading, StateTime: now,
		Created: now, Format: file.Format, Size: file.Size, Hash: b.Hash, Login: x.login(b, p)}
	if err := x.ledger.put(ctx, u); err != nil {
		return nil, err
	}
	u.Name = imageName(p.ImageNames, b.Image, u.ID, now)
	return u, nil
}

// login is how one gets into nodes of the image there: as its block says, unless the provider's does.
func (x *execution) login(b *resources.Build, p *resources.Provider) resources.Login {
	login := b.Login
	own, ok := providerImage(p, b)
	if !ok {
		return login
	}
	if own.Login.Username != "" {
		login.Username = own.Login.Username
	}
	if own.Login.PythonPath != "" {
		login.PythonPath = own.Login.PythonPath
	}
	if own.Login.ShellType != "" {
		login.ShellType = own.Login.ShellType
	}
	if own.Login.ConnectionType != "" {
		login.ConnectionType, login.ConnectionPort = own.Login.ConnectionType, own.Login.ConnectionPort
	}
	return login
}

func providerImage(p *resources.Provider, b *resources.Build) (resources.ProviderImage, bool) {
	ref := resources.ImageRef{Kind: b.Kind, Name: b.Image}
	i := slices.IndexFunc(p.Images, func(o resources.ProviderImage) bool { return o.Image == ref })
	if i < 0 {
		return resources.ProviderImage{}, false
	}
	return p.Images[i], true
}

// imageName fills the template of image names: {image_name}, {upload_id} and {timestamp} (Unix seconds).
func imageName(template, image, upload string, now time.Time) string {
	if template == "" {
		template = "{image_name}-{timestamp}"
	}
	return strings.NewReplacer("{image_name}", image, "{upload_id}", upload,
		"{timestamp}", strconv.FormatInt(now.Unix(), 10)).Replace(template)
}

// send streams the file and writes the result.
func (x *execution) send(ctx context.Context, s plan.Step, store drivers.ImageStore, p *resources.Provider, b *resources.Build,
	file resources.ImageFile, u *resources.Upload) error {
	started := time.Now()
	content, err := os.Open(filepath.Join(x.imagesDir(), file.Name))
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // only read
	report := x.progress(s)
	image, err := store.UploadImage(ctx, x.imageSpec(p, b, file, u, func(sent int64) { report("uploading", sent, file.Size) }), content)
	if err != nil {
		return err
	}
	u.ExternalID, u.State, u.StateTime, u.Seconds = image.ID, resources.StateReady, x.Now(), time.Since(started).Seconds()
	if image.Name != "" {
		u.Name = image.Name
	}
	return x.ledger.put(ctx, u)
}

func (x *execution) imageSpec(p *resources.Provider, b *resources.Build, file resources.ImageFile, u *resources.Upload, progress func(int64)) drivers.ImageSpec {
	spec := drivers.ImageSpec{
		Marks: resources.Marks{Installation: x.seen.Installation, Kind: resources.KindUpload, ID: u.ID, Provider: p.Name,
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

// failUpload records that an upload failed and removes what it left in the cloud.
func (x *execution) failUpload(ctx context.Context, store drivers.ImageStore, u *resources.Upload, cause error) error {
	u.State, u.StateTime, u.Error = resources.StateFailed, x.Now(), cause.Error()
	if err := x.ledger.put(ctx, u); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the cause is the caller's to return; the next plan removes the rest
	}
	if err := x.removeImages(ctx, store, u); err != nil {
		return err
	}
	return x.ledger.drop(ctx, u.Key())
}

// deleteUpload removes an image from a cloud and then its record.
func (x *execution) deleteUpload(ctx context.Context, s plan.Step) error {
	u, ok := get[resources.Upload](x.ledger, s.Record)
	if !ok {
		return nil
	}
	cloud, err := x.cloud(ctx, u.Provider, x.rememberedProvider(u.Provider))
	if err != nil {
		return err
	}
	store, ok := drivers.Images(cloud)
	if !ok {
		return drivers.ErrNotSupported
	}
	u.State, u.StateTime = resources.StateDeleting, x.Now()
	if u.ExternalID == "" {
		u.ExternalID = s.External
	}
	if err := x.ledger.put(ctx, u); err != nil {
		return err
	}
	if err := x.removeImages(ctx, store, u); err != nil {
		return err
	}
	return x.ledger.drop(ctx, u.Key())
}

// removeImages deletes every image that carries the upload's marks, and believes only a listing that they are gone.
func (x *execution) removeImages(ctx context.Context, store drivers.ImageStore, u *resources.Upload) error {
	if u.ExternalID != "" {
		if err := store.DeleteImage(ctx, u.ExternalID); err != nil {
			return fmt.Errorf("delete image %s: %w", u.ExternalID, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deleteTimeout, fmt.Errorf("image not gone after %s", deleteTimeout))
	defer cancel()
	for {
		images, err := store.ListImages(ctx)
		if err != nil {
			return err
		}
		left := 0
		for _, image := range images {
			if image.Marks.Installation != x.seen.Installation || image.Marks.ID != u.ID || image.Marks.Kind != resources.KindUpload {
				continue
			}
			left++
			if err := store.DeleteImage(ctx, image.ID); err != nil {
				return fmt.Errorf("delete image %s: %w", image.ID, err)
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-time.After(pollLeast):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
