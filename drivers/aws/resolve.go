package aws

import (
	"context"
	"errors"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// offer is an offer's configuration with its instance types, the preferred one first.
type offer struct {
	settings labelSettings
	types    []instanceType
}

// offer resolves what Create needs; the first unknown instance type is the error.
func (c *Cloud) offer(ctx context.Context, config cty.Value) (offer, error) {
	settings, err := decodeOffer(config)
	if err != nil {
		return offer{}, err
	}
	if err := settings.checkCombination(); err != nil {
		return offer{}, err
	}
	types, err := c.names.offeredTypes(ctx, settings.InstanceTypes)
	return offer{settings, types}, err
}

// offeredTypes returns instance types in the given order.
func (n *names) offeredTypes(ctx context.Context, wanted []string) ([]instanceType, error) {
	found, err := n.instanceTypes(ctx, wanted)
	if err != nil {
		return nil, err
	}
	var list []instanceType
	var unknown []error
	for _, name := range wanted {
		if t, ok := found[name]; ok {
			list = append(list, t)
			continue
		}
		all, err := n.typeNames.Get(ctx)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, &drivers.UnknownName{Attribute: "instance_types", Value: name, Detail: "no such instance type in the region", Near: drivers.Suggestions(name, all)})
	}
	return list, errors.Join(unknown...)
}

// subnetsOf returns the configured subnets.
func (n *names) subnetsOf(ctx context.Context, wanted []string) ([]subnet, error) {
	return drivers.FindAll(ctx, &n.subnets, "subnet_ids", "no such subnet", wanted, func(s subnet, id string) bool { return s.id == id }, func(s subnet) string { return s.id })
}

// subnetIn returns the first configured subnet in a zone; an empty zone stands for any. Without configured subnets it
// returns "".
func (n *names) subnetIn(ctx context.Context, zone string, wanted []string) (string, error) {
	if len(wanted) == 0 {
		return "", nil
	}
	list, err := n.subnetsOf(ctx, wanted)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(list, func(s subnet) bool { return zone == "" || s.zone == zone })
	if i < 0 {
		return "", &drivers.UnknownName{Attribute: "subnet_ids", Value: zone, Detail: "none of the subnets is in this zone"}
	}
	return list[i].id, nil
}

// zonesOf returns the zones to choose from: the configured ones, else those of the subnets.
func zonesOf(s labelSettings, subnets []subnet) ([]string, error) {
	var inSubnets []string
	for _, s := range subnets {
		if !slices.Contains(inSubnets, s.zone) {
			inSubnets = append(inSubnets, s.zone)
		}
	}
	if len(s.AvailabilityZones) == 0 {
		return inSubnets, nil
	}
	for _, zone := range s.AvailabilityZones {
		if len(subnets) > 0 && !slices.Contains(inSubnets, zone) {
			return nil, &drivers.UnknownName{Attribute: "availability_zones", Value: zone, Detail: "none of subnet_ids is in this zone", Near: inSubnets}
		}
	}
	return s.AvailabilityZones, nil
}

// ResolveOffer implements drivers.Resolver.
func (c *Cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	s, err := decodeOffer(config)
	if err != nil {
		return resources.ResolvedOffer{}, nil, err
	}
	var keys []string
	if s.KeyName != "" {
		keys = []string{s.KeyName}
	}
	types, typesErr := c.names.offeredTypes(ctx, s.InstanceTypes)
	subnets, subnetsErr := c.names.subnetsOf(ctx, s.SubnetIDs)
	zones, zonesErr := zonesOf(s, subnets)
	if subnetsErr != nil {
		zonesErr = nil
	}
	problems, err := drivers.ProblemsIn(errors.Join(s.checkCombination(), typesErr, subnetsErr,
		drivers.CheckNames(ctx, &c.names.zones, "availability_zones", "no such zone in the region, or the zone is not available", s.AvailabilityZones...),
		zonesErr,
		drivers.CheckNames(ctx, &c.names.securityGroups, "security_group_ids", "no such security group", s.SecurityGroupIDs...),
		drivers.CheckNames(ctx, &c.names.keys, "key_name", "no such key pair", keys...),
	))
	if err != nil || len(problems) > 0 {
		return resources.ResolvedOffer{}, problems, err
	}
	if s.VolumeType != "" {
		c.quotas.volumes.Store(true)
	}
	return resources.ResolvedOffer{
		Flavor: types[0].name, FlavorNames: s.InstanceTypes, Zones: zones,
		Resources: c.nodeAmounts(ctx, types[0], s.isSpot(), s.DedicatedHost, rootDisk{s.VolumeType, s.VolumeSize, s.IOPS}),
		Values:    plannedValues(types, zones), Architectures: architectures(types),
	}, nil, nil
}

func architectures(list []instanceType) map[string][]string {
	byName := map[string][]string{}
	for _, t := range list {
		byName[t.name] = t.runs
	}
	return byName
}

// plannedValues returns the objects that the names in an offer currently refer to.
func plannedValues(list []instanceType, zones []string) map[string]string {
	planned := map[string]any{"cores": list[0].cores, "ram": list[0].ram}
	if len(zones) > 0 {
		planned["availability_zones"] = zones
	}
	return cloudkit.PlannedValues(planned)
}
