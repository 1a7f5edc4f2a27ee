package external

import (
	"context"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Advance implements drivers.Cloud.
func (c *cloud) Advance(ctx context.Context, spec drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	if !c.description.can(callAdvance) || seen.Status != resources.StatusPending {
		return seen, nil
	}
	wire, err := wireSpec(spec)
	if err != nil {
		return resources.Instance{}, err
	}
	return c.instance(ctx, request{Call: callAdvance, Spec: wire, Instance: wireInstance(seen)})
}
