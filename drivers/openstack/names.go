package openstack

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
)

// names are the lists that resolve the names in the configuration.
type names struct {
	*session
	compute *gophercloud.ServiceClient

	flavors        drivers.Names[flavor]
	networks       drivers.Names[network]
	securityGroups drivers.Names[securityGroup]
	keys           drivers.Names[string]
	zones          drivers.Names[string]
	volumeTypes    drivers.Names[string]
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

func newNames(s *session, compute *gophercloud.ServiceClient) *names {
	n := &names{session: s, compute: compute}
	n.flavors.Fetch = n.fetchFlavors
	n.networks.Fetch = n.fetchNetworks
	n.securityGroups.Fetch = n.fetchSecurityGroups
	n.keys.Fetch = n.fetchKeys
	n.zones.Fetch = n.fetchZones
	n.volumeTypes.Fetch = n.fetchVolumeTypes
	return n
}

// drop clears all lists: after a 400 a name may refer to another object than before.
func (nm *names) drop() {
	nm.flavors.Drop()
	nm.networks.Drop()
	nm.securityGroups.Drop()
	nm.keys.Drop()
	nm.zones.Drop()
	nm.volumeTypes.Drop()
}

func (nm *names) fetchFlavors(ctx context.Context) ([]flavor, error) {
	return all(ctx, listing{client: nm.compute, path: "flavors/detail", key: "flavors", doing: "list flavors"},
		func(f flavor) string { return f.ID })
}

func (nm *names) fetchNetworks(ctx context.Context) ([]network, error) {
	fields := url.Values{"fields": {"id", "name", "router:external", "shared", "is_default", "project_id"}}
	found, err := allIn(ctx, nm.session, serviceNetwork, listing{path: "networks", query: fields, key: "networks", doing: "list networks"},
		func(n network) string { return n.ID })
	if err != nil {
		return nil, err
	}
	var usable []network
	for _, n := range found { // an administrator also sees those of other projects
		if n.Project == nm.project || n.Project == "" || n.Shared || n.External {
			usable = append(usable, n)
		}
	}
	return usable, nil
}

func (nm *names) fetchSecurityGroups(ctx context.Context) ([]securityGroup, error) {
	query := url.Values{"fields": {"id", "name", "project_id"}}
	return allIn(ctx, nm.session, serviceNetwork, listing{path: "security-groups", query: query, key: "security_groups", doing: "list security groups"},
		func(g securityGroup) string { return g.ID })
}

func (nm *names) fetchKeys(ctx context.Context) ([]string, error) {
	var answer struct {
		Keypairs []struct {
			Keypair struct {
				Name string `json:"name"`
			} `json:"keypair"`
		} `json:"keypairs"`
	}
	if err := get(ctx, nm.compute, nm.compute.ServiceURL("os-keypairs"), &answer); err != nil {
		return nil, wrap("list key pairs", err)
	}
	var keys []string
	for _, k := range answer.Keypairs {
		keys = append(keys, k.Keypair.Name)
	}
	return keys, nil
}

// fetchZones lists the available zones.
func (nm *names) fetchZones(ctx context.Context) ([]string, error) {
	var answer struct {
		Zones []struct {
			Name  string `json:"zoneName"`
			State struct {
				Available bool `json:"available"`
			} `json:"zoneState"`
		} `json:"availabilityZoneInfo"`
	}
	if err := get(ctx, nm.compute, nm.compute.ServiceURL("os-availability-zone"), &answer); err != nil {
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

func (nm *names) fetchVolumeTypes(ctx context.Context) ([]string, error) {
	type volumeType struct{ ID, Name string }
	found, err := allIn(ctx, nm.session, serviceVolume, listing{path: "types", key: "volume_types", doing: "list volume types"},
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

// suggestionText returns the end of an error about an unknown name.
func suggestionText(name string, names []string) string {
	if n := drivers.Suggestions(name, names); len(n) > 0 {
		return "; did you mean " + strings.Join(n, ", ") + "?"
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	sorted = slices.DeleteFunc(slices.Compact(sorted), func(s string) bool { return s == "" })
	switch {
	case len(sorted) == 0:
		return ""
	case len(sorted) > 10:
		return "; there are " + strings.Join(sorted[:10], ", ") + ", …"
	default:
		return "; there are " + strings.Join(sorted, ", ")
	}
}
