package sandbox

import (
	"context"
	"io"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// imageStore is a Cloud that accepts uploads. It keeps the checksums of the images, and not their content.
type imageStore struct {
	*Cloud
	format string
}

var _ drivers.ImageStore = (*imageStore)(nil)

// ImageFormat implements drivers.ImageStore.
func (s *imageStore) ImageFormat() string { return s.format }

// UploadImage implements drivers.ImageStore. After an error nothing remains, except after the fault lost.
func (s *imageStore) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	if spec.MaybeCreated {
		if err := s.store.change(func(f *fleet) error {
			maps.DeleteFunc(f.Images, func(_ string, i *image) bool { return i.owner().SameRecord(spec.Marks) })
			return nil
		}); err != nil {
			return resources.RemoteImage{}, err
		}
	}
	var made resources.RemoteImage
	err := s.around(ctx, opUpload, spec.Name, func(*fault) error {
		sums := cloudkit.NewFileSums()
		size, err := io.Copy(sums, &reader{ctx: ctx, from: content, progress: spec.Progress})
		if err == nil && !s.catalog.anything {
			err = sums.Check(spec)
		}
		if err == nil {
			err = wait(ctx, s.imageTime)
		}
		if err != nil {
			return err
		}
		i := &image{ID: uuid.NewString(), Name: spec.Name, Properties: maps.Clone(spec.Properties), Tags: spec.Tags, Format: spec.Format, Size: size,
			SHA256: spec.SHA256, Created: time.Now()}
		if i.Properties == nil {
			i.Properties = map[string]string{}
		}
		maps.Copy(i.Properties, drivers.EncodeTags(spec.Marks))
		made = i.remote()
		return s.store.change(func(f *fleet) error { f.Images[i.ID] = i; return nil })
	})
	if err != nil {
		return resources.RemoteImage{}, err
	}
	return made, nil
}

// reader reads until ctx ends, and reports the progress.
type reader struct {
	ctx      context.Context
	from     io.Reader
	progress func(int64)
	n        int64
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.from.Read(p)
	r.n += int64(n)
	if r.progress != nil {
		r.progress(r.n)
	}
	return n, err
}

// DeleteImage implements drivers.ImageStore.
func (s *imageStore) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	return s.call(ctx, opDeleteImage, id, func(f *fleet, _ *fault) error {
		i := f.Images[id]
		if i == nil {
			return nil
		}
		if err := drivers.CheckOwner("image", id, i.owner(), expected); err != nil {
			return err
		}
		delete(f.Images, id)
		return nil
	})
}

// ListImages implements drivers.ImageStore.
func (s *imageStore) ListImages(ctx context.Context) (list []resources.RemoteImage, err error) {
	err = s.read(ctx, opListImages, func(f *fleet) error {
		for _, i := range f.sorted() {
			if i.owner().Installation != "" {
				list = append(list, i.remote())
			}
		}
		return nil
	})
	return list, err
}
