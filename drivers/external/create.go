package external

import (
	"context"
	"fmt"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

func wireSpec(spec drivers.Spec) (*specJSON, error) {
	s, err := decodeOffer(spec.Config)
	return &specJSON{ownerJSON: ownerOf(spec.Marks), Hostname: spec.Hostname, Zone: spec.Zone, Settings: s.Settings,
		Properties: spec.Properties, MaybeCreated: spec.MaybeCreated}, err
}

// Create implements drivers.Cloud.
func (c *cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	wire, err := wireSpec(spec)
	if err != nil {
		return resources.Instance{}, err
	}
	if problems := c.checkLabel(wire.Settings); len(problems) > 0 {
		return resources.Instance{}, rejectedf("%s", problemText(problems))
	}
	return c.instance(ctx, request{Call: callCreate, Spec: wire})
}

// instance makes a call with an instance as its response.
func (c *cloud) instance(ctx context.Context, r request) (i resources.Instance, err error) {
	err = c.call(ctx, r, func(got response) error {
		if i, err = got.Instance.instance(); err != nil {
			return fmt.Errorf("%s: %w", r.Call, err)
		}
		return nil
	})
	return i, err
}
