package gce

import (
	"context"
	"errors"
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// names resolve the names in the configuration.
type names struct {
	api         *calls
	networks    drivers.Names[string]
	subnetworks drivers.Names[string]

	known     cloudkit.Table[string, machineType] // by zone and name
	sizes     cloudkit.Table[string, machineType] // by name; a type has the same size in all zones
	diskTypes cloudkit.Table[string, bool]        // by zone and name
}

// machineType is the part of a machine type that npctl needs.
type machineType struct {
	name       string
	cores, ram int64 // RAM in MiB
}

func newNames(api *calls, region string) *names {
	n := &names{api: api}
	n.networks.Fetch = api.networks
	n.subnetworks.Fetch = func(ctx context.Context) ([]string, error) { return api.subnetworks(ctx, region) }
	return n
}

// machineType reads a machine type of a zone; false means that the zone does not have it.
func (n *names) machineType(ctx context.Context, zone, name string) (machineType, bool, error) {
	if t, ok := n.known.Get(zone + "/" + name); ok {
		return t, true, nil
	}
	answer, err := n.api.machineType(ctx, zone, name)
	if cloudkit.IsMissing(err) {
		return machineType{}, false, nil
	}
	if err != nil {
		return machineType{}, false, err
	}
	t := machineType{name, answer.GuestCpus, answer.MemoryMb}
	n.known.Set(zone+"/"+name, t)
	n.sizes.Set(name, t)
	return t, true, nil
}

// size returns a machine type of an instance. A type without a description at Google has no size.
func (n *names) size(ctx context.Context, zone, name string) (machineType, error) {
	if t, ok := n.sizes.Get(name); ok {
		return t, nil
	}
	t, ok, err := n.machineType(ctx, zone, name)
	if err == nil && !ok {
		t = machineType{name: name}
		n.sizes.Set(name, t)
	}
	return t, err
}

// offered returns those of the zones that have at least one of the machine types, their machine types in the given order,
// and the types that none of the zones has.
func (n *names) offered(ctx context.Context, wanted, zones []string) (having []string, types map[string][]machineType, missing []string, err error) {
	types = map[string][]machineType{}
	found := map[string]bool{}
	for _, zone := range zones {
		for _, name := range wanted {
			t, ok, err := n.machineType(ctx, zone, name)
			if err != nil {
				return nil, nil, nil, err
			}
			if ok {
				types[zone], found[name] = append(types[zone], t), true
			}
		}
		if len(types[zone]) > 0 {
			having = append(having, zone)
		}
	}
	missing = slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return found[name] })
	return having, types, missing, nil
}

// unknownTypes returns the error about machine types that no zone has.
func (n *names) unknownTypes(ctx context.Context, missing, zones []string) error {
	if len(missing) == 0 || len(zones) == 0 {
		return nil
	}
	all, err := n.api.machineTypes(ctx, zones[0])
	if err != nil {
		return err
	}
	var unknown []error
	for _, name := range missing {
		unknown = append(unknown, &drivers.UnknownName{Attribute: "machine_types", Value: name, Detail: "no such machine type in the zones", Near: drivers.Suggestions(name, all)})
	}
	return errors.Join(unknown...)
}

// checkDiskType checks that all zones have a type of disks.
func (n *names) checkDiskType(ctx context.Context, name string, zones []string) error {
	if name == "" {
		return nil
	}
	for _, zone := range zones {
		if known, _ := n.diskTypes.Get(zone + "/" + name); known {
			continue
		}
		err := n.api.diskType(ctx, zone, name)
		if cloudkit.IsMissing(err) {
			all, err := n.api.diskTypes(ctx, zone)
			if err != nil {
				return err
			}
			return &drivers.UnknownName{Attribute: "volume_type", Value: name, Detail: "no such disk type in " + zone, Near: drivers.Suggestions(name, all)}
		}
		if err != nil {
			return err
		}
		n.diskTypes.Set(zone+"/"+name, true)
	}
	return nil
}
