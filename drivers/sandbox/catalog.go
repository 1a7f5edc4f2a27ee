package sandbox

import (
	"cmp"
	"errors"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// catalog has the names and the limits of the cloud.
type catalog struct {
	anything bool // every name exists, and there is no quota
	zones    []string
	flavors  []flavor
	limits   resources.ResourceAmounts
}

var (
	networks       = []string{"private", "public"}
	defaultFlavors = []flavor{{Name: "small", VCPUs: 1, RAM: 2048}, {Name: "medium", VCPUs: 2, RAM: 4096}, {Name: "large", VCPUs: 8, RAM: 8192},
		{Name: "toobig", VCPUs: 64, RAM: 262144, NoHost: true}}
)

func catalogOf(s providerSettings) catalog {
	c := catalog{zones: s.Zones, flavors: slices.Concat(s.Flavors, defaultFlavors), limits: resources.NoLimits()}
	if len(c.zones) == 0 {
		c.zones = []string{"az1", "az2"}
	}
	limits := s.Quota
	if limits == nil {
		limits = &quota{}
		_ = cloudkit.Decode(cty.NilVal, limits) // the defaults
	}
	c.limits.Instances, c.limits.Cores, c.limits.RAM = limits.Instances, limits.Cores, limits.RAM
	return c
}

// offer is an offer with its names resolved.
type offer struct {
	settings labelSettings
	flavor   flavor
	zones    []string
}

func (o offer) amounts() resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: 1, Cores: o.flavor.VCPUs, RAM: o.flavor.RAM}
}

// offer resolves the names in an offer; the error contains each unknown one.
func (c catalog) offer(config cty.Value) (o offer, err error) {
	if c.anything {
		return o, nil
	}
	if o.settings, err = offerOf(config); err != nil {
		return o, err
	}
	var unknown []error
	add := func(attribute, value, detail string, known []string) {
		unknown = append(unknown, &drivers.UnknownName{Attribute: attribute, Value: value, Detail: detail, Near: drivers.Suggestions(value, known)})
	}
	if o.flavor, err = c.flavor(o.settings.Flavor); err != nil {
		unknown = append(unknown, err)
	}
	if len(o.settings.Networks) == 0 {
		o.settings.Networks = networks[:1]
	}
	for _, name := range o.settings.Networks {
		if !slices.Contains(networks, name) {
			add("networks", name, "no such network", networks)
		}
	}
	o.zones = c.zones
	if len(o.settings.Zones) > 0 {
		o.zones = o.settings.Zones
	}
	for _, name := range o.settings.Zones {
		if !slices.Contains(c.zones, name) {
			add("availability_zones", name, "no such zone", c.zones)
		}
	}
	return o, errors.Join(unknown...)
}

func (c catalog) flavor(name string) (flavor, error) {
	names := make([]string, len(c.flavors))
	for i, f := range c.flavors {
		if names[i] = f.Name; f.Name == name {
			return f, nil
		}
	}
	return flavor{}, &drivers.UnknownName{Attribute: "flavor", Value: name, Detail: "no such flavor", Near: drivers.Suggestions(name, names)}
}

// checkQuota returns an ErrQuota if the servers would exceed the limits together with another one.
func (c catalog) checkQuota(used, more resources.ResourceAmounts) error {
	if c.anything {
		return nil
	}
	return cloudkit.CheckQuota(c.limits, used.Plus(more))
}

// zone returns the zone of a new server.
func (o offer) zone(wanted string, used []*server) string {
	if wanted != "" || len(o.zones) == 0 {
		return wanted
	}
	count := map[string]int{}
	for _, s := range used {
		count[s.Zone]++
	}
	return slices.MinFunc(o.zones, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
}
