package ibmvpc

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

func compareNames(a, b reference) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
}

// offer is an offer's configuration with its names resolved.
type offer struct {
	settings       labelSettings
	profiles       []profile // the preferred one first
	subnets        []subnet
	zones          []string // to choose from
	securityGroups []byID
	keys           []byID
}

// offer resolves all names; the error contains each unknown one.
func (c *Cloud) offer(ctx context.Context, config cty.Value) (o offer, err error) {
	if o.settings, err = decodeOffer(config); err != nil {
		return o, err
	}
	var all [4]error
	o.profiles, all[0] = c.names.profilesOf(ctx, o.settings.Profiles)
	if o.subnets, all[1] = c.names.subnetsOf(ctx, o.settings.Subnets); all[1] == nil {
		o.zones, all[1] = zonesOf(o.settings, o.subnets)
	}
	o.securityGroups, all[2] = ids(ctx, &c.names.securityGroups, "security_groups", "no such security group in the VPC", o.settings.SecurityGroups)
	o.keys, all[3] = ids(ctx, &c.names.keys, "keys", "no such SSH key in the region", o.settings.Keys)
	return o, errors.Join(all[:]...)
}

// zonesOf returns the zones to choose from: the configured ones, else those of the subnets.
func zonesOf(s labelSettings, subnets []subnet) ([]string, error) {
	var inSubnets []string
	for _, one := range subnets {
		if !slices.Contains(inSubnets, one.Zone.Name) {
			inSubnets = append(inSubnets, one.Zone.Name)
		}
	}
	if len(s.Zones) == 0 {
		return inSubnets, nil
	}
	var unknown []error
	for _, zone := range s.Zones {
		if !slices.Contains(inSubnets, zone) {
			unknown = append(unknown, &drivers.UnknownName{Attribute: "zones", Value: zone, Detail: "no usable subnet of the VPC is in this zone", Near: drivers.Suggestions(zone, inSubnets)})
		}
	}
	return s.Zones, errors.Join(unknown...)
}

// subnetIn returns the first subnet in a zone.
func (o offer) subnetIn(zone string) (subnet, error) {
	zone = cmp.Or(zone, o.zones[0])
	i := slices.IndexFunc(o.subnets, func(s subnet) bool { return s.Zone.Name == zone })
	if i < 0 {
		return subnet{}, &drivers.UnknownName{Attribute: "subnets", Value: zone, Detail: "none of the subnets is in this zone"}
	}
	return o.subnets[i], nil
}

// ResolveOffer implements drivers.Resolver.
func (c *Cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	o, err := c.offer(ctx, config)
	if err != nil {
		found, err := drivers.ProblemsIn(err)
		return resources.ResolvedOffer{}, found, err
	}
	return resources.ResolvedOffer{
		Flavor: o.profiles[0].Name, FlavorNames: o.settings.Profiles, Zones: o.zones,
		Resources: amountsOf(o.profiles[0].VCPU.Value, o.profiles[0].Memory.Value),
		Values:    plannedValues(o),
	}, nil, nil
}

// plannedValues returns the objects that the names in an offer currently refer to.
func plannedValues(o offer) map[string]string {
	first := o.profiles[0]
	return cloudkit.PlannedValues(map[string]any{"cores": first.VCPU.Value, "ram": first.Memory.Value * mibPerGiB, "zones": o.zones})
}

const mibPerGiB = 1024

// amountsOf returns the resources of an instance; the API has memory in GiB.
func amountsOf(cores, memory int64) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: 1, Cores: cores, RAM: memory * mibPerGiB}
}
