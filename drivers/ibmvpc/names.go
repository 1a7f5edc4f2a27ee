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
func ids(ctx context.Context, all *drivers.Names[reference], attribute, detail string, wanted []string) ([]byID, error) {
	var found []byID
	var unknown problems
	for _, name := range wanted {
		one, list, ok, err := drivers.Search(ctx, all, func(list []reference) (reference, bool) { return choose(list, name, identity) })
		if err != nil {
			return nil, err
		}
		if !ok {
			unknown.add(attribute, name, detail, namesOf(list))
		}
		found = append(found, byID{one.ID})
	}
	return found, unknown.err()
}

func identity(r reference) reference { return r }

// choose finds an object by name or ID.
func choose[T any](all []T, nameOrID string, of func(T) reference) (T, bool) {
	if i := slices.IndexFunc(all, func(t T) bool { return of(t).is(nameOrID) }); i >= 0 {
		return all[i], true
	}
	var none T
	return none, false
}

// profilesOf returns profiles in the given order.
func (n *names) profilesOf(ctx context.Context, wanted []string) (found []profile, err error) {
	var unknown problems
	for _, name := range wanted {
		one, all, ok, err := drivers.Search(ctx, &n.profiles, func(all []profile) (profile, bool) {
			return choose(all, name, func(p profile) reference { return reference{Name: p.Name} })
		})
		if err != nil {
			return nil, err
		}
		if !ok {
			var known []string
			for _, p := range all {
				known = append(known, p.Name)
			}
			unknown.add("profiles", name, "no such instance profile in the region", known)
		}
		found = append(found, one)
	}
	return found, unknown.err()
}

// subnetsOf returns the configured subnets, or all of the VPC in the order of their names.
func (n *names) subnetsOf(ctx context.Context, wanted []string) (found []subnet, err error) {
	if len(wanted) == 0 {
		all, err := n.subnets.Get(ctx)
		if err == nil && len(all) == 0 {
			err = &drivers.UnknownName{Attribute: "subnets", Detail: "the VPC has no subnet"}
		}
		return slices.SortedFunc(slices.Values(all), func(a, b subnet) int { return compareNames(a.reference, b.reference) }), err
	}
	var unknown problems
	for _, name := range wanted {
		one, all, ok, err := drivers.Search(ctx, &n.subnets, func(all []subnet) (subnet, bool) {
			return choose(all, name, func(s subnet) reference { return s.reference })
		})
		if err != nil {
			return nil, err
		}
		if !ok {
			var known []string
			for _, s := range all {
				known = append(known, s.Name)
			}
			unknown.add("subnets", name, "no such subnet in the VPC", known)
		}
		found = append(found, one)
	}
	return found, unknown.err()
}
