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

// borrowed is a machine that a builder has to itself.
type borrowed struct {
	*machines
	provider  *resources.Provider
	pool      *resources.Pool
	offer     *resources.Offer
	cloud     drivers.Cloud
	leave     func() // is called when the cloud is used no more
	snapshots drivers.Snapshots
	images    drivers.ImageStore

	image    string // the cloud's id of what it boots from
	login    resources.Login
	external string // the cloud's id of the machine, once it is known
	instance resources.Instance
	captured bool // an image of it may be in the cloud
}

var _ builders.Machine = (*borrowed)(nil)

// Address implements builders.Machine.
func (b *borrowed) Address() string { return b.instance.Addresses.Interface }

// Login implements builders.Machine.
func (b *borrowed) Login() resources.Login { return b.login }

// HostKeys implements builders.Machine.
func (b *borrowed) HostKeys() []string { return b.instance.HostKeys }

// marks are on the machine and on the image that is made of it: both are the build's, and go when it ends.
func (b *borrowed) marks() resources.Marks {
	return resources.Marks{Installation: b.seen.Installation, Kind: resources.KindBuild, ID: b.build, Provider: b.provider.Name,
		Pool: b.pool.Name, Label: b.offer.Label, Image: b.step.Image}
}

// name is what the machine and its image are called in the cloud.
func (b *borrowed) name() string { return "npctl-build-" + b.build[:min(12, len(b.build))] }

// attempt boots the machine and sees it through to ready.
func (b *borrowed) attempt(ctx context.Context, number int64) error {
	limit := cmp.Or(b.provider.LaunchTimeout, launchTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within launch_timeout (%s)", limit))
	defer cancel()
	spec := drivers.Spec{Marks: b.marks(), Hostname: b.name(), ImageID: b.image, Zone: b.zone(number), Config: b.offer.Config, Retried: number > 1}
	made, err := b.cloud.Create(ctx, spec)
	if err != nil {
		return err
	}
	b.external = made.ID
	b.progress(b.step)("waiting for the machine to be ready", 0, 0)
	b.instance, err = b.awaitReady(ctx, b.cloud, spec, b.external)
	return err
}

// Console implements builders.Machine.
func (b *borrowed) Console(ctx context.Context) string {
	console, ok := drivers.Consoles(b.cloud)
	if !ok || b.external == "" {
		return ""
	}
	text, err := console.ConsoleLog(ctx, b.external)
	if err != nil {
		return fmt.Sprintf("(it cannot be read: %v)\n", err)
	}
	return text
}

// Close implements builders.Machine.
func (b *borrowed) Close(ctx context.Context) error {
	defer b.giveBack()
	defer b.leave()
	return b.remove(ctx)
}

// remove deletes the machine and its image, each whatever becomes of the other, and believes only listings that they
// are gone.
func (b *borrowed) remove(ctx context.Context) error {
	err := b.removeInstances(ctx, b.step, b.cloud, doomed{external: b.external, marks: b.marks(), record: b.build})
	if b.captured {
		err = errors.Join(err, b.removeImages(ctx, b.images, b.marks()))
	}
	return err
}

// snapshotsThereAre lists the images of this build's machine.
func (b *borrowed) snapshotsThereAre(ctx context.Context) ([]resources.RemoteImage, error) {
	return imagesMarked(ctx, b.images, b.marks())
}
