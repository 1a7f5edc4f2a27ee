package drivers

import (
	"context"
	"io"

	"github.com/npctl/npctl/resources"
)

// The decorated forms of Cloud and of each ability: every call passes through one Decorator.

type decoratedCloud struct {
	inner  Cloud
	around Decorator
}

var _ Cloud = (*decoratedCloud)(nil)

func (d *decoratedCloud) Create(ctx context.Context, spec Spec) (resources.Instance, error) {
	call := Call{Name: "create", Subject: spec.Marks.ID, Retry: retryIfNothingDone}
	return do(ctx, d.around, call, func(ctx context.Context) (resources.Instance, error) { return d.inner.Create(ctx, spec) })
}

func (d *decoratedCloud) Advance(ctx context.Context, spec Spec, seen resources.Instance) (resources.Instance, error) {
	call := Call{Name: "advance", Subject: spec.Marks.ID, Retry: retryIfNothingDone}
	return do(ctx, d.around, call, func(ctx context.Context) (resources.Instance, error) { return d.inner.Advance(ctx, spec, seen) })
}

func (d *decoratedCloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	return d.around(ctx, Call{Name: "delete", Subject: id}, func(ctx context.Context) error { return d.inner.Delete(ctx, id, expected) })
}

func (d *decoratedCloud) List(ctx context.Context) ([]resources.Instance, error) {
	return do(ctx, d.around, Call{Name: "list", Weight: paged}, d.inner.List)
}

func (d *decoratedCloud) Quota(ctx context.Context) (resources.Quota, error) {
	return do(ctx, d.around, Call{Name: "quota"}, d.inner.Quota)
}

func (d *decoratedCloud) Close() error { return d.inner.Close() }

type decoratedImages struct {
	inner  ImageStore
	around Decorator
}

func (d *decoratedImages) ImageFormat() string { return d.inner.ImageFormat() }

func (d *decoratedImages) UploadImage(ctx context.Context, spec ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	call := Call{Name: "upload_image", Subject: spec.Name, Retry: retryUnlessTimedOut, Weight: wholeImage}
	return do(ctx, d.around, call, func(ctx context.Context) (resources.RemoteImage, error) {
		image, err := d.inner.UploadImage(ctx, spec, content)
		spec.MaybeCreated = spec.MaybeCreated || !IsNothingDone(err)
		return image, err
	})
}

func (d *decoratedImages) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	call := Call{Name: "delete_image", Subject: id}
	return d.around(ctx, call, func(ctx context.Context) error { return d.inner.DeleteImage(ctx, id, expected) })
}

func (d *decoratedImages) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	return do(ctx, d.around, Call{Name: "list_images", Weight: paged}, d.inner.ListImages)
}
