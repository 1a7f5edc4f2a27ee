package ibmvpc

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/npctl/npctl/drivers"
)

// names are the lists that resolve the names in the configuration.
type names struct {
	api *api

	profiles       drivers.Names[profile]
	subnets        drivers.Names[subnet]
	securityGroups drivers.Names[reference]
	keys           drivers.Names[reference]
}

// profile is a size of instances.
type profile struct {
	Name   string
	VCPU   amount `json:"vcpu_count"`
	Memory amount // GiB
}

// amount is a number that depends on other settings of the instance unless its type is fixed.
type amount struct{ Value int64 }

type subnet struct {
	reference

	Zone reference
}

func newNames(a *api, vpc string) *names {
	n := &names{api: a}
	inVPC := url.Values{"vpc.id": {vpc}}
	n.profiles.Fetch = func(ctx context.Context) ([]profile, error) {
		var all struct{ Profiles []profile } // this list has no pages
		err := a.call(ctx, "list instance profiles", http.MethodGet, "/instance/profiles", nil, nil, &all)
		return all.Profiles, err
	}
	n.subnets.Fetch = func(ctx context.Context) ([]subnet, error) {
		return list[subnet](ctx, a, "list subnets", "/subnets", inVPC, "subnets")
	}
	n.securityGroups.Fetch = func(ctx context.Context) ([]reference, error) {
		return list[reference](ctx, a, "list security groups", "/security_groups", inVPC, "security_groups")
	}
	n.keys.Fetch = func(ctx context.Context) ([]reference, error) {
		return list[reference](ctx, a, "list SSH keys", "/keys", nil, "keys")
	}
	return n
}

// ids returns the IDs of objects that the configuration names.
func ids(ctx context.Context, all *drivers.Names[reference], attribute, detail string, wanted []string) (ids []byID, err error) {
	found, err := drivers.FindAll(ctx, all, attribute, detail, wanted, reference.is, reference.name)
	for _, one := range found {
		ids = append(ids, byID{one.ID})
	}
	return ids, err
}

// profilesOf returns profiles in the given order.
func (n *names) profilesOf(ctx context.Context, wanted []string) ([]profile, error) {
	return drivers.FindAll(ctx, &n.profiles, "profiles", "no such instance profile in the region", wanted,
		func(p profile, name string) bool { return p.Name == name }, func(p profile) string { return p.Name })
}

// subnetsOf returns the configured subnets, or all of the VPC in the order of their names.
func (n *names) subnetsOf(ctx context.Context, wanted []string) ([]subnet, error) {
	if len(wanted) == 0 {
		all, err := n.subnets.Get(ctx)
		if err == nil && len(all) == 0 {
			err = &drivers.UnknownName{Attribute: "subnets", Detail: "the VPC has no subnet"}
		}
		return slices.SortedFunc(slices.Values(all), func(a, b subnet) int { return compareNames(a.reference, b.reference) }), err
	}
	return drivers.FindAll(ctx, &n.subnets, "subnets", "no such subnet in the VPC", wanted, subnet.is, subnet.name)
}
