package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// buildInstance is an instance that one builder uses exclusively.
type buildInstance struct {
	*instanceProvider
	provider  *resources.Provider
	pool      *resources.Pool
	offer     *resources.Offer
	cloud     drivers.Cloud
	release   func() // called when the cloud is no longer used
	snapshots drivers.Snapshotter
	images    drivers.ImageStore

	image    string // the cloud's ID of the image that the instance boots from
	login    resources.Login
	external string // the cloud's ID of the instance, once it is known
	instance resources.Instance
	captured bool // an image of the instance may exist in the cloud
}

var _ builders.Instance = (*buildInstance)(nil)

// Address implements builders.Instance.
func (b *buildInstance) Address() string { return b.instance.Addresses.Interface }

// Login implements builders.Instance.
func (b *buildInstance) Login() resources.Login { return b.login }

// HostKeys implements builders.Instance.
func (b *buildInstance) HostKeys() []string { return b.instance.HostKeys }

// marks returns the ownership tags of the instance and of its image: both belong to the build and are deleted when it
// ends.
func (b *buildInstance) marks() resources.OwnerTags {
	return resources.OwnerTags{Installation: b.x.seen.Installation, Kind: resources.KindBuild, ID: b.build, Provider: b.provider.Name,
		Pool: b.pool.Name, Label: b.offer.Label, Image: b.step.Image}
}

// name returns the name of the instance and of its image in the cloud.
func (b *buildInstance) name() string { return "npctl-build-" + b.build[:min(12, len(b.build))] }

// attempt creates the instance and waits until it is ready.
func (b *buildInstance) attempt(ctx context.Context, number int64) error {
	limit := cmp.Or(b.provider.LaunchTimeout, launchTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within launch_timeout (%s)", limit))
	defer cancel()
	spec := drivers.Spec{Marks: b.marks(), Hostname: b.name(), ImageID: b.image, Zone: b.zone(number), Config: b.offer.Config, MaybeCreated: number > 1}
	made, err := b.cloud.Create(ctx, spec)
	if err != nil {
		return err
	}
	b.external = made.ID
	b.x.progress(b.step)("waiting for the instance to be ready", 0, 0)
	b.instance, err = b.x.awaitReady(ctx, b.cloud, spec, b.external)
	return err
}

// Console implements builders.Instance.
func (b *buildInstance) Console(ctx context.Context) string {
	console, ok := drivers.ConsoleOf(b.cloud)
	if !ok || b.external == "" {
		return ""
	}
	text, err := console.ConsoleLog(ctx, b.external)
	if err != nil {
		return fmt.Sprintf("(it cannot be read: %v)\n", err)
	}
	return text
}

// Close implements builders.Instance.
func (b *buildInstance) Close(ctx context.Context) error {
	defer b.releaseInstance()
	defer b.release()
	return b.remove(ctx)
}

// remove deletes the instance and its image, each even if deleting the other fails, and waits until listings show
// neither.
func (b *buildInstance) remove(ctx context.Context) error {
	err := b.x.instanceRemover(b.step, b.cloud).remove(ctx, deletionTarget{external: b.external, marks: b.marks(), record: b.build})
	if b.captured {
		err = errors.Join(err, b.x.imageRemover(b.images).remove(ctx, b.marks()))
	}
	return err
}

// snapshotsThereAre lists the images of this build's instance.
func (b *buildInstance) snapshotsThereAre(ctx context.Context) ([]resources.RemoteImage, error) {
	return imagesMarked(ctx, b.images, b.marks())
}
