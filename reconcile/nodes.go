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
	cloud, release, err := x.cloud(ctx, node.Provider, x.rememberedProvider(node.Provider))
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

func (x *execution) rememberedProvider(name string) *resources.ProviderRecord {
	record, _ := get[resources.ProviderRecord](x.cache, resources.Key{Kind: resources.KindProvider, ID: name})
	return record
}

// machineOf returns the deletion target of a node.
func (x *execution) machineOf(n *resources.Node) deletionTarget {
	d := deletionTarget{external: n.ExternalID, marks: resources.OwnerTags{Installation: x.seen.Installation, Kind: resources.KindNode, ID: n.ID}, record: n.ID}
	if n.Hash == "" && !x.isMarked(n.Provider, n.ExternalID) {
		d.marks = resources.OwnerTags{} // another program has launched it, and only the record proves that it belongs to the provider
	}
	return d
}

func (x *execution) isMarked(provider, external string) bool {
	i := slices.IndexFunc(x.seen.Providers[provider].Instances, func(i resources.Instance) bool { return i.ID == external })
	return i >= 0 && x.seen.Providers[provider].Instances[i].Marks.Installation != ""
}

// registerStatic writes or updates the record of a static node. The node is ready once its machine answers.
func (x *execution) registerStatic(ctx context.Context, s plan.Step) (string, error) {
	pool, node, err := x.staticNode(s)
	if err != nil {
		return "", err
	}
	now := x.Now()
	record := &resources.Node{Created: now, Static: true}
	var left []resources.Key
	if s.Record.Kind != "" {
		old, ok := get[resources.Node](x.cache, s.Record)
		if !ok {
			return "", fmt.Errorf("%s is not in the state any more", s.Record)
		}
		if record = old; x.needsNewRecord(old) {
			left = append(left, old.Key())
		}
	}
	record.Provider, record.Pool, record.Labels, record.Hash = s.Provider, s.Pool, node.Labels, node.Hashes.Current()
	record.Hostname, record.Slot, record.HostKeys, record.Login = node.Name, s.Slot, node.HostKeys, node.Login
	record.ExternalID, record.Attributes, record.Addresses = node.Name, pool.NodeAttributes, x.addressesOf(ctx, node.Address)
	if record.State.IsInService() || record.State == resources.StateReady && record.Request != "" {
		return x.putStatic(ctx, record, node) // in use
	}
	keys, unreachable := x.checkStatic(ctx, s.Provider, node)
	record.Request, record.Tenant, record.Requestor, record.Lease, record.Comment = "", "", "", nil, ""
	record.HoldUntil = time.Time{}
	if unreachable != nil {
		record.Error, record.Attempt = unreachable.Error(), record.Attempt+1
		record.State, record.StateTime = x.failedStatic(record.State), now
		id, err := x.putStatic(ctx, record, node)
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
	return x.putStatic(ctx, record, node, left...)
}

// needsNewRecord reports whether other processes have used a record of a shared store. A machine returns to service
// under a new record, because they know the old one by its ID, for instance as a node that they have held, and have
// written their own data to it.
func (x *execution) needsNewRecord(n *resources.Node) bool {
	return x.cache.claims.store != nil && (n.State == resources.StateUsed || n.State == resources.StateFailed)
}

// addressesOf resolves a machine's address in a shared store, because its users need it by address family.
func (x *execution) addressesOf(ctx context.Context, address string) resources.Addresses {
	a := resources.Addresses{Interface: address}
	if x.cache.claims.store == nil {
		return a
	}
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

// failedStatic returns the state of a machine that does not answer.
func (x *execution) failedStatic(before resources.State) resources.State {
	if before == "" || before == resources.StateUsed || before == resources.StateReady {
		return resources.StateFailed
	}
	return before
}

// putStatic writes the record of a machine, removes the records in left, and returns the ID of the record, which the
// store assigns to a new one.
func (x *execution) putStatic(ctx context.Context, record *resources.Node, node *resources.StaticNode, left ...resources.Key) (string, error) {
	err := x.cache.replaceAll(ctx, left, append([]resources.Record{record}, x.template(record.Hash, node.Static, nil)...)...)
	return record.ID, err
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

func (x *execution) staticNode(s plan.Step) (*resources.Pool, *resources.StaticNode, error) {
	if p, ok := x.provider(s.Provider); ok {
		for i := range p.Pools {
			for j := range p.Pools[i].Nodes {
				if p.Pools[i].Name == s.Pool && p.Pools[i].Nodes[j].Name == s.Node {
					return &p.Pools[i], &p.Pools[i].Nodes[j], nil
				}
			}
		}
	}
	return nil, nil, fmt.Errorf("%s is not configured", s.Address)
}

// countLeak records that the deletion of a leak starts, because leak_limit applies over time.
func (x *execution) countLeak(ctx context.Context, s plan.Step) error {
	key := (&resources.Sighting{Provider: s.Provider, Type: s.Type, External: s.External}).Key()
	seen, ok := get[resources.Sighting](x.cache, key)
	if !ok {
		return nil
	}
	seen.Deleted = x.Now()
	return x.cache.put(ctx, seen)
}

// deleteLeftover deletes an object of ours that has no record.
func (x *execution) deleteLeftover(ctx context.Context, s plan.Step) error {
	if s.Type == "file" {
		return x.files().removeImage(ctx, s.External)
	}
	cloud, release, err := x.cloud(ctx, s.Provider, x.rememberedProvider(s.Provider))
	defer release()
	if err != nil {
		return err
	}
	if err := x.cache.claims.awaitConnected(ctx, s.ID); err != nil {
		return err
	}
	if err := x.countLeak(ctx, s); err != nil {
		return err
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
