package openstack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// offer is an offer's configuration with resolved names.
type offer struct {
	settings labelSettings
	flavor   flavor
	networks []network
	groups   []string // IDs
	floating network  // network of floating IPs; zero if unused
	zones    []string
	amounts  resources.ResourceAmounts
}

// offerResolver looks up the names of a configuration.
type offerResolver struct {
	names        *names
	microversion microversion
}

// resolve resolves the names that Create needs; the first unknown name is the error.
func (r *offerResolver) resolve(ctx context.Context, config cty.Value) (offer, error) {
	var o offer
	if err := cloudkit.Decode(config, &o.settings); err != nil {
		return offer{}, err
	}
	for _, look := range r.neededLookups() {
		if err := look(ctx, &o); err != nil {
			return offer{}, err
		}
	}
	o.amounts = amountsOf(o)
	return o, nil
}

type lookup func(context.Context, *offer) error

func (r *offerResolver) neededLookups() []lookup {
	return []lookup{
		func(ctx context.Context, o *offer) (err error) {
			o.flavor, err = r.names.flavorFor(ctx, o.settings.Flavor, o.settings.MinRAM)
			return err
		},
		func(ctx context.Context, o *offer) error {
			var missing []error
			for _, name := range o.settings.Networks {
				n, err := r.names.networkFor(ctx, "networks", name)
				missing = append(missing, err)
				o.networks = append(o.networks, n)
			}
			return errors.Join(missing...)
		},
		func(ctx context.Context, o *offer) error {
			var missing []error
			for _, name := range o.settings.SecurityGroups {
				g, err := r.names.securityGroupFor(ctx, name)
				missing = append(missing, err)
				o.groups = append(o.groups, g.ID)
			}
			return errors.Join(missing...)
		},
		func(ctx context.Context, o *offer) (err error) {
			if o.settings.AutoFloatingIP {
				o.floating, err = r.names.floatingNetwork(ctx, o.settings.FloatingIPNetwork)
			}
			return err
		},
	}
}

// extraLookups check names that Create passes on unchanged.
func (r *offerResolver) extraLookups() []lookup {
	return []lookup{
		func(ctx context.Context, o *offer) error {
			if name := o.settings.KeyName; name != "" {
				return drivers.CheckNames(ctx, &r.names.keys, "key_name", "no such key pair", name)
			}
			return nil
		},
		r.lookUpZones,
		r.lookUpVolume,
		func(ctx context.Context, o *offer) error {
			if name := o.settings.InterfaceNetwork; name != "" {
				_, err := r.names.networkFor(ctx, "interface_network", name)
				return err
			}
			return nil
		},
	}
}

// lookUpZones returns the configured zones, else all; a cloud with one zone needs no choice.
func (r *offerResolver) lookUpZones(ctx context.Context, o *offer) error {
	o.zones = o.settings.AvailabilityZones
	if len(o.zones) == 0 {
		zones, err := r.names.zones.Get(ctx)
		if len(zones) > 1 {
			o.zones = slices.Sorted(slices.Values(zones))
		}
		return err
	}
	return drivers.CheckNames(ctx, &r.names.zones, "availability_zones", "no such zone, or the zone is not available", o.zones...)
}

func (r *offerResolver) lookUpVolume(ctx context.Context, o *offer) error {
	if !o.settings.BootFromVolume {
		return nil
	}
	if !r.names.hasService(serviceVolume) {
		return &drivers.UnknownName{Attribute: "boot_from_volume", Value: "true", Detail: "the cloud has no block storage service"}
	}
	name := o.settings.VolumeType
	switch {
	case name == "":
		return nil
	case r.microversion < withVolumeType:
		return &drivers.UnknownName{Attribute: "volume_type", Value: name, Detail: fmt.Sprintf("the compute service does not support volume types (it has microversion %s, %s is required)", r.microversion, withVolumeType)}
	default:
		return drivers.CheckNames(ctx, &r.names.volumeTypes, "volume_type", "no such volume type", name)
	}
}

// ResolveOffer implements drivers.Resolver.
func (c *Cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	return c.offers.ResolveOffer(ctx, config)
}

// ResolveOffer implements a method of drivers.Resolver.
func (r *offerResolver) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	var o offer
	if err := cloudkit.Decode(config, &o.settings); err != nil {
		return resources.ResolvedOffer{}, nil, err
	}
	var problems []resources.Problem
	for _, look := range slices.Concat(r.neededLookups(), r.extraLookups()) {
		found, err := drivers.ProblemsIn(look(ctx, &o))
		if err != nil {
			return resources.ResolvedOffer{}, nil, err
		}
		problems = append(problems, found...)
	}
	if len(problems) > 0 {
		return resources.ResolvedOffer{}, problems, nil
	}
	return resources.ResolvedOffer{
		Flavor:      fmt.Sprintf("%s (%s)", o.flavor.Name, o.flavor.ID),
		FlavorNames: []string{o.flavor.Name},
		Resources:   amountsOf(o),
		Zones:       o.zones,
		Values:      plannedValues(o),
	}, nil, nil
}

// plannedValues returns the objects that the names in an offer currently refer to.
func plannedValues(o offer) map[string]string {
	planned := map[string]any{"flavor": o.flavor.Name, "flavor_id": o.flavor.ID, "cores": o.flavor.VCPUs, "ram": o.flavor.RAM}
	if len(o.networks) > 0 {
		var names, ids []string
		for _, n := range o.networks {
			names, ids = append(names, n.Name), append(ids, n.ID)
		}
		planned["networks"], planned["network_ids"] = names, ids
	}
	if len(o.zones) > 0 {
		planned["availability_zones"] = o.zones
	}
	if o.floating.ID != "" {
		planned["floating_ip_network"] = o.floating.Name
	}
	if o.settings.BootFromVolume {
		planned["volume_size"] = o.settings.VolumeSize
	}
	return cloudkit.PlannedValues(planned)
}

func amountsOf(o offer) resources.ResourceAmounts {
	amounts := resources.ResourceAmounts{Instances: 1, Cores: o.flavor.VCPUs, RAM: o.flavor.RAM}
	if o.settings.BootFromVolume {
		amounts.Volumes, amounts.VolumeGB = 1, o.settings.VolumeSize
	}
	if o.settings.AutoFloatingIP {
		amounts.Addresses = 1
	}
	return amounts
}
