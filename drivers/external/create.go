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
	if problems := checkValues("settings", wire.Settings, c.description.Label); len(problems) > 0 {
		return resources.Instance{}, rejectedf("%s", problemText(problems))
	}
	got, err := c.call(ctx, request{Call: callCreate, Spec: wire})
	return instanceOf(callCreate, got, err)
}

func instanceOf(call string, got response, err error) (resources.Instance, error) {
	if err != nil {
		return resources.Instance{}, err
	}
	i, err := got.Instance.instance()
	if err != nil {
		return i, fmt.Errorf("%s: %w", call, err)
	}
	return i, nil
}
