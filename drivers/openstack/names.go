package openstack

import (
	"context"
	"net/url"
)

// names are the lists that resolve the names in the configuration.
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

// drop clears all lists: after a 400 a name may refer to another object than before.
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
	for _, n := range found { // an administrator also sees those of other projects
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

// fetchZones lists the available zones.
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
