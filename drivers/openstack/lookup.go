package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/npctl/npctl/drivers"
)

// flavorFor returns the flavor of an offer: by name or ID, or the one with the least sufficient RAM, the first by
// name among equals. With min_ram, name is a substring that the flavor's name must contain.
func (nm *names) flavorFor(ctx context.Context, name string, minRAM int64) (flavor, error) {
	if name == "" && minRAM == 0 {
		return flavor{}, &drivers.UnknownName{Attribute: "flavor", Detail: "write flavor, or min_ram"}
	}
	found, all, ok, err := drivers.Search(ctx, &nm.flavors, func(list []flavor) (flavor, bool) { return chooseFlavor(list, name, minRAM) })
	if err != nil || ok {
		return found, err
	}
	if minRAM > 0 {
		return flavor{}, &drivers.UnknownName{Attribute: "min_ram", Value: fmt.Sprint(minRAM), Detail: noFlavor(name, all)}
	}
	return flavor{}, &drivers.UnknownName{Attribute: "flavor", Value: name, Detail: "no such flavor", Near: drivers.Suggestions(name, flavorNames(all))}
}

// onlyOne selects by ID, or by a unique name, and prefers the project's own objects.
func onlyOne[T any](list []T, name string, idOf, nameOf func(T) string, own func(T) bool) (T, int) {
	var result T
	count, ours := 0, 0
	for _, item := range list {
		switch {
		case idOf(item) == name:
			return item, 1
		case nameOf(item) != name:
		case own(item):
			ours++
			result = item
		default:
			if count++; ours == 0 {
				result = item
			}
		}
	}
	if ours > 0 {
		return result, ours
	}
	return result, count
}

// findOnly looks up an object by ID or by a unique name. kind is for errors; known returns the names to suggest.
func findOnly[T any](ctx context.Context, list *drivers.Names[T], attribute, kind, name string, choose func([]T) (T, int), known func([]T) []string) (none T, _ error) {
	found, all, ok, err := drivers.Search(ctx, list, func(all []T) (T, bool) {
		item, n := choose(all)
		return item, n > 0
	})
	if err != nil {
		return none, err
	}
	if !ok {
		return none, &drivers.UnknownName{Attribute: attribute, Value: name, Detail: "no such " + kind, Near: drivers.Suggestions(name, known(all))}
	}
	if _, n := choose(all); n > 1 {
		return none, &drivers.UnknownName{Attribute: attribute, Value: name, Detail: fmt.Sprintf("%d %ss have this name; write the id", n, kind)}
	}
	return found, nil
}

func (nm *names) networkFor(ctx context.Context, attribute, name string) (network, error) {
	choose := func(list []network) (network, int) {
		return onlyOne(list, name, func(n network) string { return n.ID }, func(n network) string { return n.Name },
			func(n network) bool { return n.Project == nm.project })
	}
	return findOnly(ctx, &nm.networks, attribute, "network", name, choose, networkNames)
}

func (nm *names) securityGroupFor(ctx context.Context, name string) (securityGroup, error) {
	own := func(g securityGroup) bool { return g.Project == nm.project || g.Project == "" }
	choose := func(list []securityGroup) (securityGroup, int) {
		return onlyOne(list, name, func(g securityGroup) string { return g.ID }, func(g securityGroup) string { return g.Name }, own)
	}
	return findOnly(ctx, &nm.securityGroups, "security_groups", "security group", name, choose, func(all []securityGroup) []string {
		return namesOf(slices.DeleteFunc(slices.Clone(all), func(g securityGroup) bool { return !own(g) }), func(g securityGroup) string { return g.Name })
	})
}

// externalNetworks returns the names of external networks, none if the cloud denies access to the list.
func (nm *names) externalNetworks(ctx context.Context) (externalNetworks, error) {
	if !nm.hasService(serviceNetwork) {
		return nil, nil
	}
	list, err := nm.networks.Get(ctx)
	if isStatus(err, http.StatusForbidden) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	external := externalNetworks{}
	for _, n := range list {
		if n.External {
			external[n.Name] = true
		}
	}
	return external, nil
}

// floatingNetwork returns the network of floating IPs: the named one, else the default one, else the only one.
func (nm *names) floatingNetwork(ctx context.Context, name string) (network, error) {
	if name != "" {
		n, err := nm.networkFor(ctx, "floating_ip_network", name)
		if err == nil && !n.External {
			return network{}, &drivers.UnknownName{Attribute: "floating_ip_network", Value: name, Detail: "this network is not external"}
		}
		return n, err
	}
	list, err := nm.networks.Get(ctx)
	if err != nil {
		return network{}, err
	}
	var external []network
	for _, n := range list {
		if n.External && n.Default {
			return n, nil
		}
		if n.External {
			external = append(external, n)
		}
	}
	if len(external) == 1 {
		return external[0], nil
	}
	return network{}, &drivers.UnknownName{Attribute: "floating_ip_network", Detail: fmt.Sprintf("the cloud has %d external networks; set floating_ip_network to one of them", len(external)),
		Near: networkNames(external)}
}
