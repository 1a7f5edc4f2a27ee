package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// deletesAtMost limits the delete calls for one instance when the cloud accepts a deletion and then fails to complete
// it.
const deletesAtMost = 5

// deletionTarget is the object of a deletion: one instance, or every instance with the ownership tags of one record.
type deletionTarget struct {
	external string              // the cloud's ID; may be empty if the tags are sufficient
	marks    resources.OwnerTags // required tags of the instance with this ID
	record   string              // ID in the tags of further instances to delete; empty: none
}

// instanceRemover deletes instances for one step.
type instanceRemover struct {
	cloud  drivers.Cloud
	poller *poller // of the cloud
	claims *claims // a deletion waits until the state is connected
	log    *slog.Logger
	step   plan.Step
	waits  func() // called when the step has sent its first request and only waits
}

func (x *execution) instanceRemover(s plan.Step, cloud drivers.Cloud) instanceRemover {
	return instanceRemover{cloud: cloud, poller: x.pollers.of(cloud, x.connections, x.seen.Installation), claims: x.cache.claims, log: x.Log, step: s, waits: func() {
		x.slots.releaseEarly(s.ID)
		x.progress(s)("waiting for the instance to be gone", 0, 0)
	}}
}

// remove deletes every instance of d and waits until none is listed. Listings may lag behind: an instance that
// no listing has shown counts as gone only after two listings without it. An instance without the expected ownership
// tags belongs to another owner; it is not deleted and counts as gone.
func (r instanceRemover) remove(ctx context.Context, d deletionTarget) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deleteTimeout, fmt.Errorf("not gone after %s", deleteTimeout))
	defer cancel()
	asked, foreign := map[string]int{}, map[string]bool{}
	ask := func(id string, marks resources.OwnerTags) error {
		if err := r.claims.awaitConnected(ctx, r.step.ID); err != nil {
			return err
		}
		asked[id]++
		err := r.cloud.Delete(ctx, id, marks)
		if errors.Is(err, drivers.ErrNotOurs) {
			r.log.Warn("instance belongs to another owner; not deleted", "step", r.step.ID, "provider", r.step.Provider, "instance", id, "error", err)
			foreign[id] = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("delete instance %s: %w", id, err)
		}
		return nil
	}
	if d.external != "" {
		if err := ask(d.external, d.marks); err != nil {
			return err
		}
	}
	r.waits()
	missing, shown := 0, false
	return r.poller.await(ctx, func(now listing) (bool, error) {
		left := now.left(d, foreign)
		if len(left) == 0 {
			missing++
			return shown || missing > 1, nil
		}
		missing, shown = 0, true
		for _, i := range left {
			again := asked[i.ID] == 0 || i.Status == resources.StatusFailed || i.Status == resources.StatusReady && asked[i.ID] < deletesAtMost
			if asked[i.ID] >= deletesAtMost && i.Status == resources.StatusFailed {
				return false, fmt.Errorf("instance %s cannot be deleted after %d tries: %s", i.ID, deletesAtMost, i.Fault)
			}
			if !again {
				continue
			}
			marks := i.Marks
			if i.ID == d.external {
				marks = d.marks
			}
			if err := ask(i.ID, marks); err != nil {
				return false, err
			}
		}
		return false, nil
	})
}

// left returns the instances of d that are in the listing.
func (l listing) left(d deletionTarget, foreign map[string]bool) []resources.Instance {
	var left []resources.Instance
	if d.record != "" {
		left = append(left, l.byNode[d.record]...)
	}
	if i, found := l.byID[d.external]; found && len(left) == 0 {
		left = append(left, i)
	}
	return slices.DeleteFunc(left, func(i resources.Instance) bool { return foreign[i.ID] })
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
