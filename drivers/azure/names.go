package azure

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// names are the lists that resolve the names in the configuration.
type names struct {
	account *account
	sizes   drivers.Names[size]
}

func newNames(a *account) *names {
	n := &names{account: a}
	n.sizes.Fetch = n.fetchSizes
	return n
}

// size is a size of virtual machines in the location.
type size struct {
	name, family string
	cores, ram   int64 // RAM in MiB
	zones        []string
	restricted   bool // the subscription must not use it
}

// fetchSizes reads the sizes of the location: one call.
func (n *names) fetchSizes(ctx context.Context) ([]size, error) {
	filter := "location eq '" + n.account.location + "'"
	found, err := collect(ctx, n.account.skus.NewListPager(&armcompute.ResourceSKUsClientListOptions{Filter: &filter}),
		func(p armcompute.ResourceSKUsClientListResponse) ([]*armcompute.ResourceSKU, *string) {
			return p.Value, p.NextLink
		})
	if err != nil {
		return nil, wrap("list sizes of virtual machines", err)
	}
	var sizes []size
	for _, sku := range found {
		if deref(sku.ResourceType) == "virtualMachines" {
			sizes = append(sizes, sizeOf(sku))
		}
	}
	if len(sizes) > 0 {
		return sizes, nil
	}
	all, err := list[place](ctx, n.account.rest, "/subscriptions/"+n.account.subscription+"/locations", locationVersion)
	if err != nil {
		return nil, wrap("list locations", err)
	}
	known := placeNames(all)
	if slices.ContainsFunc(known, func(name string) bool { return sameName(name, n.account.location) }) {
		return nil, nil
	}
	return nil, &drivers.UnknownName{Attribute: "location", Value: n.account.location, Detail: "no such location", Near: drivers.Suggestions(n.account.location, known)}
}

func sizeOf(sku *armcompute.ResourceSKU) size {
	s := size{name: deref(sku.Name), family: deref(sku.Family)}
	for _, c := range sku.Capabilities {
		value, err := strconv.ParseFloat(deref(c.Value), 64)
		switch name := deref(c.Name); {
		case err != nil:
		case name == "vCPUs":
			s.cores = int64(value)
		case name == "MemoryGB":
			s.ram = int64(value * 1024)
		}
	}
	for _, info := range sku.LocationInfo {
		for _, zone := range info.Zones {
			s.zones = append(s.zones, deref(zone))
		}
	}
	slices.Sort(s.zones)
	for _, r := range sku.Restrictions {
		if deref(r.Type) == armcompute.ResourceSKURestrictionsTypeLocation {
			s.restricted = true
		}
	}
	return s
}

// amounts returns the resources of one virtual machine of the size. Azure has quotas of vCPUs by family of sizes, and
// one of all spot machines. Their names are those in ResourceAmounts.Other.
func (s size) amounts(spot bool) resources.ResourceAmounts {
	a := resources.ResourceAmounts{Instances: 1, Cores: s.cores, RAM: s.ram}
	switch {
	case spot:
		a.Other = map[string]int64{spotCores: s.cores}
	case s.family != "":
		a.Other = map[string]int64{s.family: s.cores}
	}
	return a
}

// suggested returns the name of a size for suggestions, none if the subscription must not use it.
func (s size) suggested() string {
	if s.restricted {
		return ""
	}
	return s.name
}

func (s size) is(name string) bool { return sameName(s.name, name) }

// subnetID returns the ID of the subnet of an offer.
func (n *names) subnetID(s poolSettings) string {
	if isID(s.Subnet) {
		return s.Subnet
	}
	return n.account.network(n.networkGroup(s), "virtualNetworks/"+s.Network+"/subnets/"+s.Subnet)
}

func isID(s string) bool { return strings.HasPrefix(s, "/subscriptions/") }

func missingNetwork() error {
	return &drivers.UnknownName{Attribute: "network", Detail: "set network, or subnet to the full ID of a subnet"}
}

func (n *names) networkGroup(s poolSettings) string {
	if s.NetworkGroup != "" {
		return s.NetworkGroup
	}
	return n.account.group
}

// checkSubnet checks that the subnet of an offer exists: one call.
func (n *names) checkSubnet(ctx context.Context, s poolSettings) error {
	if isID(s.Subnet) {
		return n.checkID(ctx, "subnet", s.Subnet, "/subnets/")
	}
	if s.Network == "" {
		return missingNetwork()
	}
	all, err := list[virtualNetwork](ctx, n.account.rest, n.account.network(n.networkGroup(s), "virtualNetworks"), networkVersion)
	if err = wrap("list networks", err); cloudkit.IsMissing(err) {
		return &drivers.UnknownName{Attribute: "network_resource_group", Value: n.networkGroup(s), Detail: "no such resource group"}
	}
	if err != nil {
		return err
	}
	var networks, subnets []string
	for _, v := range all {
		networks = append(networks, v.Name)
		if sameName(v.Name, s.Network) {
			for _, sub := range v.Properties.Subnets {
				subnets = append(subnets, sub.Name)
			}
		}
	}
	in := func(names []string, name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return sameName(n, name) })
	}
	if !in(networks, s.Network) {
		return &drivers.UnknownName{Attribute: "network", Value: s.Network, Detail: "no such virtual network in resource group " + n.networkGroup(s), Near: drivers.Suggestions(s.Network, networks)}
	}
	if !in(subnets, s.Subnet) {
		return &drivers.UnknownName{Attribute: "subnet", Value: s.Subnet, Detail: "network " + s.Network + " has no such subnet", Near: drivers.Suggestions(s.Subnet, subnets)}
	}
	return nil
}

// checkID checks that the object of Microsoft.Network with an ID exists.
func (n *names) checkID(ctx context.Context, attribute, id, kind string) error {
	if id == "" {
		return nil
	}
	if !isID(id) || !strings.Contains(strings.ToLower(id), strings.ToLower(kind)) {
		return &drivers.UnknownName{Attribute: attribute, Value: id, Detail: "write a full ID, /subscriptions/…" + kind + "NAME"}
	}
	err := wrap("read "+attribute, n.account.rest.send(ctx, http.MethodGet, id, networkVersion, nil, nil))
	if cloudkit.IsMissing(err) {
		return &drivers.UnknownName{Attribute: attribute, Value: id, Detail: "no such object"}
	}
	return err
}
