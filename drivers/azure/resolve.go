package azure

import (
	"context"
	"errors"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// offer is an offer's configuration with its sizes, the preferred one first.
type offer struct {
	settings labelSettings
	sizes    []size
}

// offer resolves what Create needs; an unknown size is the error.
func (c *Cloud) offer(ctx context.Context, config cty.Value) (offer, error) {
	settings, err := decodeOffer(config)
	if err != nil {
		return offer{}, err
	}
	if settings.Network == "" && !isID(settings.Subnet) {
		return offer{}, missingNetwork()
	}
	sizes, err := c.names.offered(ctx, settings.VMSizes)
	return offer{settings, sizes}, err
}

// offered returns sizes in the given order.
func (n *names) offered(ctx context.Context, wanted []string) ([]size, error) {
	return drivers.FindAll(ctx, &n.sizes, "vm_sizes", "no such size in "+n.account.location, wanted, size.is, size.suggested)
}

// checkSizesIn checks that the subscription may use the sizes, and that each zone has one of them.
func checkSizesIn(sizes []size, zones []string) error {
	var problems []error
	for _, s := range sizes {
		if s.restricted {
			problems = append(problems, &drivers.UnknownName{Attribute: "vm_sizes", Value: s.name, Detail: "the subscription must not use this size in the location; ask Azure for access or choose another"})
		}
	}
	var all []string
	for _, s := range sizes {
		all = append(all, s.zones...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, zone := range zones {
		if len(sizes) > 0 && !slices.Contains(all, zone) {
			problems = append(problems, &drivers.UnknownName{Attribute: "availability_zones", Value: zone, Detail: "none of vm_sizes is in this zone", Near: drivers.Suggestions(zone, all)})
		}
	}
	return errors.Join(problems...)
}

// ResolveOffer implements drivers.Resolver.
func (c *Cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	s, err := decodeOffer(config)
	if err != nil {
		return resources.ResolvedOffer{}, nil, err
	}
	sizes, sizesErr := c.names.offered(ctx, s.VMSizes)
	var loginErr error
	if s.SSHPublicKey == "" && s.AdminPassword == "" && !s.GeneratePassword {
		loginErr = missingLogin()
	}
	problems, err := drivers.ProblemsIn(errors.Join(sizesErr, checkSizesIn(sizes, s.Zones), c.names.checkSubnet(ctx, s.poolSettings),
		c.names.checkID(ctx, "security_group_id", s.SecurityGroupID, "/networkSecurityGroups/"), loginErr))
	if err != nil || len(problems) > 0 {
		return resources.ResolvedOffer{}, problems, err
	}
	if len(sizes) == 0 {
		return resources.ResolvedOffer{}, nil, drivers.Rejectf("the offer has no size")
	}
	return resources.ResolvedOffer{
		Flavor: sizes[0].name, FlavorNames: s.VMSizes, Zones: s.Zones,
		Resources: sizes[0].amounts(s.isSpot()), Values: plannedValues(sizes[0], s.Zones),
	}, nil, nil
}

// plannedValues returns the objects that the names in an offer currently refer to.
func plannedValues(s size, zones []string) map[string]string {
	planned := map[string]any{"cores": s.cores, "ram": s.ram}
	if len(zones) > 0 {
		planned["availability_zones"] = zones
	}
	return cloudkit.PlannedValues(planned)
}
