package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

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
	return b.wait(ctx, spec)
}

// wait follows the machine through the provider's listings.
func (b *borrowed) wait(ctx context.Context, spec drivers.Spec) error {
	var patience patience
	seen := false
	return b.poll(b.cloud).await(ctx, func(now listing) (bool, error) {
		instance, found := now.byID[b.external]
		switch {
		case !found && seen:
			return false, fmt.Errorf("instance %s disappeared while it started", b.external)
		case !found:
			return false, nil // a list may lag behind
		case instance.Status == resources.StatusDeleting:
			return false, fmt.Errorf("somebody is deleting instance %s", instance.ID)
		}
		seen = true
		if instance.Status != resources.StatusFailed {
			var err error
			if instance, err = b.cloud.Advance(ctx, spec, instance); err != nil {
				return false, patience.with(err)
			}
		}
		if instance.Status == resources.StatusFailed {
			return false, fault(instance)
		}
		b.instance = instance
		return instance.Status == resources.StatusReady && instance.Addresses.Interface != "", nil
	})
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
	return b.remove(ctx)
}

// remove deletes the machine and its image, each whatever becomes of the other, and believes only listings that they
// are gone.
func (b *borrowed) remove(ctx context.Context) error {
	err := b.removeInstances(ctx, b.step, b.cloud, &resources.Node{ID: b.build, Provider: b.provider.Name, ExternalID: b.external})
	if b.captured {
		err = errors.Join(err, b.removeImages(ctx))
	}
	return err
}

// removeImages deletes every image that carries the build's marks.
func (b *borrowed) removeImages(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deleteTimeout, fmt.Errorf("the snapshot is not gone after %s", deleteTimeout))
	defer cancel()
	for {
		found, err := b.snapshotsThereAre(ctx)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, image := range found {
			if err := b.images.DeleteImage(ctx, image.ID); err != nil {
				return fmt.Errorf("delete snapshot %s: %w", image.ID, err)
			}
		}
		select {
		case <-time.After(pollLeast):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// snapshotsThereAre lists the images of this build's machine.
func (b *borrowed) snapshotsThereAre(ctx context.Context) ([]resources.RemoteImage, error) {
	images, err := b.images.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	var ours []resources.RemoteImage
	for _, i := range images {
		if i.Marks.Installation == b.seen.Installation && i.Marks.Kind == resources.KindBuild && i.Marks.ID == b.build {
			ours = append(ours, i)
		}
	}
	return ours, nil
}
