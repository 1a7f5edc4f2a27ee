package openstack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/npctl/npctl/drivers"
)

// names are the lists that names in the configuration are looked up in.
type names struct {
	flavors        cache[flavor]
	networks       cache[network]
	securityGroups cache[securityGroup]
	keys           cache[string]
	zones          cache[string]
	volumeTypes    cache[string]
}

type flavor struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	VCPUs int64  `json:"vcpus"`
	RAM   int64  `json:"ram"`
	Disk  int64  `json:"disk"`
}

type network struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	External bool   `json:"router:external"`
	Shared   bool   `json:"shared"`
	Default  bool   `json:"is_default"`
	Project  string `json:"project_id"`
}

type securityGroup struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Project string `json:"project_id"`
}

func (n *names) init(c *Cloud) {
	n.flavors.fetch = c.fetchFlavors
	n.networks.fetch = c.fetchNetworks
	n.securityGroups.fetch = c.fetchSecurityGroups
	n.keys.fetch = c.fetchKeys
	n.zones.fetch = c.fetchZones
	n.volumeTypes.fetch = c.fetchVolumeTypes
}

// drop forgets everything: after a 400 some name may mean something else than before.
func (n *names) drop() {
	n.flavors.drop()
	n.networks.drop()
	n.securityGroups.drop()
	n.keys.drop()
	n.zones.drop()
	n.volumeTypes.drop()
}

func (c *Cloud) fetchFlavors(ctx context.Context) ([]flavor, error) {
	return all(ctx, listing{client: c.compute, path: "flavors/detail", key: "flavors", doing: "list flavors"},
		func(f flavor) string { return f.ID })
}

func (c *Cloud) fetchNetworks(ctx context.Context) ([]network, error) {
	client, err := c.service(serviceNetwork)
	if err != nil {
		return nil, err
	}
	fields := url.Values{"fields": {"id", "name", "router:external", "shared", "is_default", "project_id"}}
	found, err := all(ctx, listing{client: client, path: "networks", query: fields, key: "networks", doing: "list networks"},
		func(n network) string { return n.ID })
	if err != nil {
		return nil, err
	}
	var usable []network
	for _, n := range found { // an administrator sees those of other projects too
		if n.Project == c.project || n.Project == "" || n.Shared || n.External {
			usable = append(usable, n)
		}
	}
	return usable, nil
}

func (c *Cloud) fetchSecurityGroups(ctx context.Context) ([]securityGroup, error) {
	client, err := c.service(serviceNetwork)
	if err != nil {
		return nil, err
	}
	query := url.Values{"fields": {"id", "name", "project_id"}}
	return all(ctx, listing{client: client, path: "security-groups", query: query, key: "security_groups", doing: "list security groups"},
		func(g securityGroup) string { return g.ID })
}

func (c *Cloud) fetchKeys(ctx context.Context) ([]string, error) {
	var answer struct {
		Keypairs []struct {
			Keypair struct {
				Name string `json:"name"`
			} `json:"keypair"`
		} `json:"keypairs"`
	}
	if err := get(ctx, c.compute, c.compute.ServiceURL("os-keypairs"), &answer); err != nil {
		return nil, wrap("list key pairs", err)
	}
	var keys []string
	for _, k := range answer.Keypairs {
		keys = append(keys, k.Keypair.Name)
	}
	return keys, nil
}

// fetchZones lists the zones that servers can be made in now.
func (c *Cloud) fetchZones(ctx context.Context) ([]string, error) {
	var answer struct {
		Zones []struct {
			Name  string `json:"zoneName"`
			State struct {
				Available bool `json:"available"`
			} `json:"zoneState"`
		} `json:"availabilityZoneInfo"`
	}
	if err := get(ctx, c.compute, c.compute.ServiceURL("os-availability-zone"), &answer); err != nil {
		return nil, wrap("list availability zones", err)
	}
	var zones []string
	for _, z := range answer.Zones {
		if z.State.Available {
			zones = append(zones, z.Name)
		}
	}
	return zones, nil
}

func (c *Cloud) fetchVolumeTypes(ctx context.Context) ([]string, error) {
	client, err := c.service(serviceVolume)
	if err != nil {
		return nil, err
	}
	type volumeType struct{ ID, Name string }
	found, err := all(ctx, listing{client: client, path: "types", key: "volume_types", doing: "list volume types"},
		func(t volumeType) string { return t.ID })
	if err != nil {
		return nil, err
	}
	var types []string
	for _, t := range found {
		types = append(types, t.Name, t.ID)
	}
	return types, nil
}

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
		for _, n := range list {
			if n == name {
				return n, true
			}
		}
		return "", false
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
