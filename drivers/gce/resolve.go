package gce

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// zonesFor returns the zones to choose from.
func (c *Cloud) zonesFor(s labelSettings) []string {
	if len(s.Zones) > 0 {
		return s.Zones
	}
	return c.zones
}

// checkZones checks that all zones are in the region.
func (c *Cloud) checkZones(wanted []string) error {
	var unknown []error
	for _, zone := range wanted {
		if !slices.Contains(c.zones, zone) {
			unknown = append(unknown, &drivers.UnknownName{Attribute: "zones", Value: zone, Detail: "no such zone in the region " + c.region, Near: drivers.Suggestions(zone, c.zones)})
		}
	}
	return errors.Join(unknown...)
}

// checkName checks that a name is in a list. It accepts a path that may refer to another project, because npctl may not be allowed to list that one.
func checkName(ctx context.Context, list *drivers.Names[string], attribute, detail, name string) error {
	if name == "" || strings.Contains(name, "/") {
		return nil
	}
	return drivers.CheckNames(ctx, list, attribute, detail, name)
}

// ResolveOffer implements drivers.Resolver.
func (c *Cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	s, err := decodeOffer(config)
	if err != nil {
		return resources.ResolvedOffer{}, nil, err
	}
	all := c.zonesFor(s)
	zonesErr := c.checkZones(s.Zones)
	if zonesErr != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(zone string) bool { return !slices.Contains(c.zones, zone) })
	}
	zones, types, missing, err := c.names.offered(ctx, s.MachineTypes, all)
	if err != nil {
		return resources.ResolvedOffer{}, nil, err
	}
	problems, err := drivers.ProblemsIn(errors.Join(zonesErr,
		c.names.unknownTypes(ctx, missing, all),
		c.names.checkDiskType(ctx, s.VolumeType, zones),
		checkName(ctx, &c.names.networks, "network", "no such network in the project", s.Network),
		checkName(ctx, &c.names.subnetworks, "subnetwork", "no such subnetwork in the region", s.Subnetwork),
	))
	if err != nil || len(problems) > 0 {
		return resources.ResolvedOffer{}, problems, err
	}
	preferred := types[zones[0]][0]
	return resources.ResolvedOffer{
		Flavor: preferred.name, FlavorNames: s.MachineTypes, Zones: zones,
		Resources: amountsOf(preferred, &compute.Instance{NetworkInterfaces: []*compute.NetworkInterface{c.networkInterface(s)}, Scheduling: schedulingOf(s)}),
		Values:    cloudkit.PlannedValues(map[string]any{"zones": zones}),
	}, nil, nil
}
