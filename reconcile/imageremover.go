package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

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
		select {
		case <-time.After(pollLeast):
		case <-ctx.Done():
			return context.Cause(ctx)
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
