package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// deleteTimeout is the time limit for the deletion of an instance.
const deleteTimeout = 10 * time.Minute

// lookupTimeout bounds the lookup of a machine's address by its name.
const lookupTimeout = 2 * time.Second

// deleteNode removes a node as planned.
func (x *execution) deleteNode(ctx context.Context, s plan.Step) error {
	node, at := find[resources.Node](x.cache, s.Record)
	if node == nil {
		return nil // another process has removed it
	}
	if err := x.asPlanned(s, at); err != nil {
		return err
	}
	return x.removeNode(ctx, s, node, at)
}

// removeNode deletes a node's instance, waits until it is gone, and then removes the record, which was read at revision
// at.
func (x *execution) removeNode(ctx context.Context, s plan.Step, node *resources.Node, at state.Revision) error {
	if node.Static {
		return x.cache.drop(ctx, node.Key())
	}
	cloud, release, err := x.cloud(ctx, node.Provider, x.cache.provider(node.Provider))
	defer release()
	if err != nil {
		return err
	}
	node.State, node.StateTime = resources.StateDeleting, x.Now()
	if node.ExternalID == "" {
		node.ExternalID = s.External
	}
	if err := x.cache.claim(ctx, s.ID, node, at); err != nil {
		return err
	}
	if err := x.instanceRemover(s, cloud).remove(ctx, x.machineOf(node)); err != nil {
		return err
	}
	return x.cache.drop(ctx, node.Key())
}

// machineOf returns the deletion target of a node.
func (x *execution) machineOf(n *resources.Node) deletionTarget {
	d := deletionTarget{external: n.ExternalID, marks: resources.OwnerTags{Installation: x.seen.Installation, Kind: resources.KindNode, ID: n.ID}, record: n.ID}
	marked := func(i resources.Instance) bool { return i.ID == n.ExternalID && i.Marks.Installation != "" }
	if n.Hash == "" && !slices.ContainsFunc(x.seen.Providers[n.Provider].Instances, marked) {
		d.marks = resources.OwnerTags{} // another program has launched it, and only the record proves that it belongs to the provider
	}
	return d
}

// registerStatic writes or updates the record of a static node. The node is ready once its machine answers.
func (x *execution) registerStatic(ctx context.Context, s plan.Step) (string, error) {
	provider, ok := x.provider(s.Provider)
	if !ok {
		return "", fmt.Errorf("%s is not configured", s.Address)
	}
	pool, node := staticNode(provider, s.Pool, s.Node)
	if node == nil {
		return "", fmt.Errorf("%s is not configured", s.Address)
	}
	now, shared := x.Now(), x.cache.claims.store != nil
	record := &resources.Node{Created: now, Static: true}
	var left []resources.Key
	if s.Record.Kind != "" {
		old, ok := get[resources.Node](x.cache, s.Record)
		if !ok {
			return "", fmt.Errorf("%s is not in the state any more", s.Record)
		}
		record = old
		// A machine returns to service under a new record if other processes have used the old one: they know it by its
		// ID, for instance as a node that they have held, and have written their own data to it.
		if shared && (old.State == resources.StateUsed || old.State == resources.StateFailed) {
			left = append(left, old.Key())
		}
	}
	put := func(left ...resources.Key) (id string, err error) { // the store assigns the ID of a new record
		err = x.cache.replaceAll(ctx, left, append([]resources.Record{record}, x.cache.template(record.Hash, node.Static, nil)...)...)
		return record.ID, err
	}
	record.Provider, record.Pool, record.Labels, record.Hash = s.Provider, s.Pool, node.Labels, node.Hashes.Current()
	record.Hostname, record.Slot, record.HostKeys, record.Login = node.Name, s.Slot, node.HostKeys, node.Login
	record.ExternalID, record.Attributes, record.Addresses = node.Name, pool.NodeAttributes, resources.Addresses{Interface: node.Address}
	if shared {
		record.Addresses = addressesOf(ctx, node.Address)
	}
	if record.State.IsInService() || record.State == resources.StateReady && record.Request != "" {
		return put() // in use
	}
	keys, unreachable := x.checkStatic(ctx, s.Provider, node)
	record.Request, record.Tenant, record.Requestor, record.Lease, record.Comment = "", "", "", nil, ""
	record.HoldUntil = time.Time{}
	if unreachable != nil {
		record.Error, record.Attempt, record.StateTime = unreachable.Error(), record.Attempt+1, now
		if record.State == "" || record.State == resources.StateUsed || record.State == resources.StateReady {
			record.State = resources.StateFailed
		}
		id, err := put()
		return id, errors.Join(unreachable, err)
	}
	record.Error, record.Attempt, record.VerifiedAt = "", 0, now
	if len(keys) > 0 {
		record.HostKeys = keys
	}
	if record.State != resources.StateReady {
		record.State, record.StateTime = resources.StateReady, now
	}
	if len(left) > 0 {
		record.ID, record.Created = "", now
	}
	return put(left...)
}

// addressesOf resolves a machine's address for a shared store, because its users need it by address family.
func addressesOf(ctx context.Context, address string) resources.Addresses {
	a := resources.Addresses{Interface: address}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", address)
	if err != nil || len(found) == 0 { // a client that connects reports the error
		return a
	}
	if ip := found[0].Unmap(); ip.Is4() {
		a.PublicIPv4 = ip.String()
	} else {
		a.PublicIPv6 = ip.String()
	}
	return a
}

// checkStatic checks whether a machine answers, if its driver supports the check. It returns the host keys.
func (x *execution) checkStatic(ctx context.Context, provider string, node *resources.StaticNode) ([]string, error) {
	cloud, release, err := x.cloud(ctx, provider, nil)
	defer release()
	if err != nil {
		return nil, err
	}
	checker, ok := drivers.CheckerOf(cloud)
	if !ok {
		return nil, nil
	}
	return checker.Check(ctx, *node)
}

// staticNode returns a configured static node and its pool, or nil.
func staticNode(p *resources.Provider, pool, name string) (*resources.Pool, *resources.StaticNode) {
	for i := range p.Pools {
		for j := range p.Pools[i].Nodes {
			if p.Pools[i].Name == pool && p.Pools[i].Nodes[j].Name == name {
				return &p.Pools[i], &p.Pools[i].Nodes[j]
			}
		}
	}
	return nil, nil
}

// deleteLeftover deletes an object of ours that has no record.
func (x *execution) deleteLeftover(ctx context.Context, s plan.Step) error {
	if s.Type == "file" {
		return x.files().removeImage(ctx, s.External)
	}
	cloud, release, err := x.cloud(ctx, s.Provider, x.cache.provider(s.Provider))
	defer release()
	if err != nil {
		return err
	}
	if err := x.cache.claims.awaitConnected(ctx, s.ID); err != nil {
		return err
	}
	sighting, ok := get[resources.Sighting](x.cache, (&resources.Sighting{Provider: s.Provider, Type: s.Type, External: s.External}).Key())
	if ok {
		sighting.Deleted = x.Now() // leak_limit applies over time
		if err := x.cache.put(ctx, sighting); err != nil {
			return err
		}
	}
	switch s.Type {
	case "server":
		for _, i := range x.seen.Providers[s.Provider].Instances {
			if i.ID == s.External {
				return x.instanceRemover(s, cloud).remove(ctx, deletionTarget{external: i.ID, marks: i.Marks})
			}
		}
	case "image":
		store, ok := drivers.ImagesOf(cloud)
		if !ok {
			return drivers.ErrNotSupported
		}
		for _, i := range x.seen.Providers[s.Provider].Images {
			if i.ID == s.External {
				return store.DeleteImage(ctx, i.ID, i.Marks)
			}
		}
	default:
		sweeper, ok := drivers.SweeperOf(cloud)
		if !ok {
			return drivers.ErrNotSupported
		}
		for _, l := range x.seen.Providers[s.Provider].Leftovers {
			if l.Type == s.Type && l.ID == s.External {
				return sweeper.DeleteLeftover(ctx, l) // with its ownership tags, which the driver compares
			}
		}
	}
	return fmt.Errorf("%s was not listed when the plan was computed", s.Address)
}
