package openstack

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/resources"
)

// List implements drivers.Cloud with one call per thousand servers. Networks, and the flavors of old clouds, come
// from the cache.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	servers, err := all(ctx, listing{client: c.compute, path: "servers/detail", key: "servers", doing: "list servers"},
		func(s server) string { return s.ID })
	if err != nil {
		return nil, err
	}
	c.addFaults(ctx, servers)
	instances, err := c.instances(ctx, servers)
	if err != nil {
		return nil, err
	}
	c.attached.update(servers, c.belongingsOf)
	return instances, nil
}

func (c *Cloud) instances(ctx context.Context, servers []server) ([]resources.Instance, error) {
	var external externalNetworks
	var flavors []flavor
	var err error
	if slices.ContainsFunc(servers, func(s server) bool { return len(s.Addresses) > 0 }) {
		if external, err = c.names.externalNetworks(ctx); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(servers, func(s server) bool { return s.Flavor.Name == "" && s.Flavor.ID != "" }) {
		if flavors, err = c.names.flavors.Get(ctx); err != nil {
			return nil, err
		}
	}
	instances := make([]resources.Instance, 0, len(servers))
	for _, s := range servers {
		instances = append(instances, c.instance(s, external, flavors))
	}
	return instances, nil
}

// attachedResources states which associated resources npctl deletes with a server.
type attachedResources struct {
	marks    resources.OwnerTags
	floating bool
	ports    bool
	volume   bool
	choice   addressChoice
}

func (c *Cloud) belongingsOf(metadata map[string]string) attachedResources {
	return attachedResources{
		marks:    ownerOf(metadata),
		floating: metadata[keyFloating] == "true",
		ports:    metadata[keyPorts] == "true",
		volume:   metadata[keyVolumeGB] != "",
		choice:   choiceOf(metadata, c.entry.private),
	}
}

// attached caches facts of the last list, so that Advance and Delete need no further calls, and the floating IPs that
// this process has associated and Nova may not show yet.
type attached struct {
	mu      sync.Mutex
	servers map[string]attachedResources // guarded by mu
	active  map[string]bool              // guarded by mu; servers that wait only for their floating IP
	address map[string]association       // guarded by mu; floating IPs by server
	faults  map[string]*fault            // guarded by mu; read one by one, see addFaults
}

// association is a floating IP that this process has given to a server.
type association struct {
	address string
	at      time.Time
}

// associationDelay is the time for which Nova may not show an association. Then another user may have removed it.
const associationDelay = 2 * time.Minute

func (a *attached) update(servers []server, of func(map[string]string) attachedResources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	addresses, faults := a.address, a.faults
	a.servers, a.active, a.address, a.faults = map[string]attachedResources{}, map[string]bool{}, map[string]association{}, map[string]*fault{}
	for _, s := range servers {
		b := of(s.Metadata)
		a.servers[s.ID] = b
		if b.floating && statusOf(s) == resources.StatusReady {
			a.active[s.ID] = true
		}
		if address, ok := addresses[s.ID]; ok && !s.hasFloating() { // once Nova has shown one, its absence is no delay
			a.address[s.ID] = address
		}
		if f, ok := faults[s.ID]; ok {
			a.faults[s.ID] = f
		}
	}
}

func (a *attached) get(id string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	with, ok := a.address[id]
	return with.address, ok && time.Since(with.at) < associationDelay
}

func (a *attached) set(id, address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.address == nil {
		a.address = map[string]association{}
	}
	a.address[id] = association{address, time.Now()}
}

func (a *attached) isActive(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active[id]
}

func (a *attached) belongings(id string) (attachedResources, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, ok := a.servers[id]
	return b, ok
}
