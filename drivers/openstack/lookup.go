package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/npctl/npctl/drivers"
)

// unknown is a name in the configuration that means nothing in the cloud.
type unknown struct {
	attribute, value, detail string
	near                     []string
}

func (u *unknown) Error() string {
	text := fmt.Sprintf("%s %q: %s", u.attribute, u.value, u.detail)
	if len(u.near) > 0 {
		text += meant(u.value, u.near)
	}
	return text
}

func (u *unknown) Unwrap() error     { return drivers.ErrRejected }
func (u *unknown) NothingDone() bool { return true }

// flavorFor finds the flavor an offer means: by name or id, or the one with the least RAM that has enough, the first
// by name among equals, among those whose names hold the text when there is one.
func (c *Cloud) flavorFor(ctx context.Context, name string, minRAM int64) (flavor, error) {
	if name == "" && minRAM == 0 {
		return flavor{}, &unknown{attribute: "flavor", detail: "write flavor, or min_ram"}
	}
	found, all, ok, err := search(ctx, &c.names.flavors, func(list []flavor) (flavor, bool) { return chooseFlavor(list, name, minRAM) })
	if err != nil || ok {
		return found, err
	}
	if minRAM > 0 {
		return flavor{}, &unknown{attribute: "min_ram", value: fmt.Sprint(minRAM), detail: noFlavor(name, all)}
	}
	return flavor{}, &unknown{attribute: "flavor", value: name, detail: "no such flavor", near: near(name, flavorNames(all))}
}

// onlyOne chooses by id, or by name where just one has it, preferring the project's own.
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

func (c *Cloud) networkFor(ctx context.Context, attribute, name string) (network, error) {
	choose := func(list []network) (network, int) {
		return onlyOne(list, name, func(n network) string { return n.ID }, func(n network) string { return n.Name },
			func(n network) bool { return n.Project == c.project })
	}
	found, all, ok, err := search(ctx, &c.names.networks, atLeastOne(choose))
	if err != nil {
		return network{}, err
	}
	if !ok {
		return network{}, &unknown{attribute: attribute, value: name, detail: "no such network", near: near(name, networkNames(all))}
	}
	if _, n := choose(all); n > 1 {
		return network{}, &unknown{attribute: attribute, value: name, detail: fmt.Sprintf("%d networks have this name; write the id", n)}
	}
	return found, nil
}

func (c *Cloud) securityGroupFor(ctx context.Context, name string) (securityGroup, error) {
	choose := func(list []securityGroup) (securityGroup, int) {
		own := func(g securityGroup) bool { return g.Project == c.project || g.Project == "" }
		return onlyOne(list, name, func(g securityGroup) string { return g.ID }, func(g securityGroup) string { return g.Name }, own)
	}
	found, all, ok, err := search(ctx, &c.names.securityGroups, atLeastOne(choose))
	if err != nil {
		return securityGroup{}, err
	}
	if !ok {
		return securityGroup{}, &unknown{attribute: "security_groups", value: name, detail: "no such security group", near: near(name, groupNames(all, c.project))}
	}
	if _, n := choose(all); n > 1 {
		return securityGroup{}, &unknown{attribute: "security_groups", value: name, detail: fmt.Sprintf("%d security groups have this name; write the id", n)}
	}
	return found, nil
}

func atLeastOne[T any](choose func([]T) (T, int)) func([]T) (T, bool) {
	return func(list []T) (T, bool) {
		item, n := choose(list)
		return item, n > 0
	}
}

// oneOf checks a plain name.
func oneOf(ctx context.Context, c *cache[string], attribute, name, detail string) error {
	_, all, ok, err := search(ctx, c, func(list []string) (string, bool) {
		return name, slices.Contains(list, name)
	})
	if err != nil {
		return err
	}
	if !ok {
		return &unknown{attribute: attribute, value: name, detail: detail, near: near(name, all)}
	}
	return nil
}

// externalNetworks returns the names of external networks. Clouds that do not let us look have none.
func (c *Cloud) externalNetworks(ctx context.Context) (externalNetworks, error) {
	if !c.hasService(serviceNetwork) {
		return nil, nil
	}
	list, err := c.names.networks.get(ctx, cacheAge)
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

// floatingNetwork finds where floating IPs come from: the network named, else the default one, else the only one.
func (c *Cloud) floatingNetwork(ctx context.Context, name string) (network, error) {
	if name != "" {
		n, err := c.networkFor(ctx, "floating_ip_network", name)
		if err == nil && !n.External {
			return network{}, &unknown{attribute: "floating_ip_network", value: name, detail: "this network is not external"}
		}
		return n, err
	}
	list, err := c.names.networks.get(ctx, cacheAge)
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
	return network{}, &unknown{attribute: "floating_ip_network", detail: fmt.Sprintf("the cloud has %d external networks; name the one floating IPs come from", len(external)),
		near: networkNames(external)}
}
