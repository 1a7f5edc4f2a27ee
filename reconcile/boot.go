package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Functions that nodes and build instances share between their creation and ready.

// cloudImage returns the image that a cloud_image block resolves to: from the observation, or from the cloud if the
// plan was computed without listing it.
func (x *execution) cloudImage(ctx context.Context, p *resources.Provider, ref resources.ImageRef) (id string, login resources.Login, err error) {
	i := slices.IndexFunc(p.CloudImages, func(spec resources.CloudImageSpec) bool { return spec.Name == ref.Name })
	if i < 0 {
		return "", login, fmt.Errorf("%w: provider %s has no %s", drivers.ErrRejected, p.Name, ref)
	}
	spec := p.CloudImages[i]
	if id := x.seen.Providers[p.Name].CloudImages[ref.Name].Image.ID; id != "" {
		return id, spec.Login, nil
	}
	cloud, release, err := x.cloud(ctx, p.Name, nil)
	defer release()
	if err != nil {
		return "", login, err
	}
	resolver, ok := drivers.ResolverOf(cloud)
	if !ok {
		return "", login, fmt.Errorf("%s: %w", ref, drivers.ErrNotSupported)
	}
	found, problems, err := resolver.ResolveImage(ctx, spec)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%w: %s = %q: %s", drivers.ErrRejected, problems[0].Attribute, problems[0].Value, problems[0].Detail)
	}
	if err != nil {
		return "", login, fmt.Errorf("%s: %w", ref, err)
	}
	return found.ID, spec.Login, nil
}

// awaitReady follows an instance in the provider's listings until it is ready.
func (x *execution) awaitReady(ctx context.Context, cloud drivers.Cloud, spec drivers.Spec, id string) (ready resources.Instance, err error) {
	var patience advanceFailures
	seen, missing := false, 0
	err = x.pollers.of(cloud, x.connections, x.seen.Installation).await(ctx, func(now listing) (bool, error) {
		instance, found := now.byID[id]
		if !found {
			if missing++; seen && missing > 1 {
				return false, fmt.Errorf("instance %s disappeared while it started", id)
			}
			return false, nil // a listing may lag behind
		}
		seen, missing = true, 0
		switch instance.Status {
		case resources.StatusFailed:
			return false, fault(instance)
		case resources.StatusDeleting:
			return false, fmt.Errorf("instance %s is being deleted by another client", id)
		}
		advanced, err := cloud.Advance(ctx, spec, instance)
		if err != nil {
			return false, patience.retryOr(err)
		}
		if advanced.Status == resources.StatusFailed {
			return false, fault(advanced)
		}
		ready = advanced
		return advanced.Status == resources.StatusReady && advanced.Addresses.Interface != "", nil
	})
	return ready, err
}

// fault converts the fault of a failed instance into an error of the kind that decides the next action.
func fault(i resources.Instance) error {
	text := i.Fault
	if text == "" {
		text = "the cloud reports no reason"
	}
	kinds := map[resources.FaultKind]error{resources.FaultQuota: drivers.ErrQuota,
		resources.FaultCapacity: drivers.ErrCapacity, resources.FaultRejected: drivers.ErrRejected}
	if kind := kinds[i.FaultKind]; kind != nil {
		return fmt.Errorf("instance %s failed: %w: %s", i.ID, kind, text)
	}
	return fmt.Errorf("instance %s failed: %s", i.ID, text)
}
