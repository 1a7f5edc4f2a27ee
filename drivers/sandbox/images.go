package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/waits"
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

// UploadImage implements drivers.ImageStore. The image is pending until its content has arrived.
func (s *imageStore) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	if err := ctx.Err(); err != nil {
		return resources.RemoteImage{}, drivers.Unsent(err)
	}
	i := image{ID: uuid.NewString(), Name: spec.Name, Properties: map[string]string{}, Tags: spec.Tags, Format: spec.Format, Pending: true, Created: time.Now()}
	maps.Copy(i.Properties, spec.Properties)
	maps.Copy(i.Properties, drivers.EncodeTags(spec.Marks))
	err := s.store.change(func(f *fleet) error {
		if spec.MaybeCreated {
			maps.DeleteFunc(f.Images, func(_ string, i *image) bool { return i.owner().SameRecord(spec.Marks) })
		}
		pending := i
		f.Images[i.ID] = &pending
		return nil
	})
	if err != nil {
		return resources.RemoteImage{}, err
	}
	complete := false
	err = s.around(ctx, opUpload, spec.Name, func(*fault) error {
		if err := s.receive(ctx, &i, spec, content); err != nil {
			return err
		}
		return s.store.change(func(f *fleet) error {
			if f.Images[i.ID] == nil {
				return fmt.Errorf("image %s was deleted during its upload", i.ID)
			}
			f.Images[i.ID], complete = &i, true
			return nil
		})
	})
	switch {
	case err == nil:
		return i.remote(), nil
	case !complete:
		err = errors.Join(err, s.store.change(func(f *fleet) error { delete(f.Images, i.ID); return nil }))
	}
	return resources.RemoteImage{}, err
}

// receive reads the content of an image, which is then no longer pending.
func (s *imageStore) receive(ctx context.Context, i *image, spec drivers.ImageSpec, content io.Reader) error {
	sums := cloudkit.NewFileSums()
	size, err := io.Copy(sums, &reader{ctx: ctx, from: content, progress: spec.Progress})
	if err == nil && !s.catalog.anything {
		err = sums.Check(spec)
	}
	if err == nil {
		err = waits.Sleep(ctx, s.imageTime)
	}
	i.Size, i.SHA256, i.Pending = size, spec.SHA256, false
	return err
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
