package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
)

// syncRegistry creates, updates and removes registrations as wanted. writing is held.
func (pr *presence) syncRegistry(ctx context.Context) error {
	if err := pr.session.waitSynced(ctx); err != nil {
		return err
	}
	pr.mu.Lock()
	wanted := pr.registrations()
	unwanted := pr.unwanted
	pr.mu.Unlock()
	for _, r := range wanted {
		if err := pr.register(ctx, r); err != nil {
			return err
		}
	}
	for _, path := range unwanted {
		if err := pr.session.deleteEach(ctx, []any{&zk.DeleteRequest{Path: pr.session.serverPath(path), Version: -1}}); err != nil {
			return err
		}
	}
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.unwanted = nil
	return nil
}

// reregister creates the registrations again that ended with a lost session.
func (pr *presence) reregister(ctx context.Context) error {
	pr.writing.Lock()
	defer pr.writing.Unlock()
	return pr.syncRegistry(ctx)
}

// registrations lists the wanted registrations. mu is held.
func (pr *presence) registrations() []*registered {
	all := slices.Clone(pr.pools)
	for _, r := range []*registered{pr.process, pr.builder} {
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// register creates or updates one registration.
func (pr *presence) register(ctx context.Context, r *registered) error {
	pr.mu.Lock()
	pr.adopt(r)
	z := pr.cache.node(r.path)
	same := z != nil && r.sent != nil && bytes.Equal(r.sent, r.data) // not the cache, which may be older than the last write
	pr.mu.Unlock()
	data := r.data
	switch {
	case same:
		return nil
	case z != nil:
		r.sent = nil
		_, _, err := pr.session.multi(ctx, "update registration", []any{&zk.SetDataRequest{Path: pr.session.serverPath(r.path), Data: data, Version: -1}})
		if err == nil {
			r.sent = data
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	dir := registryDir + "/" + r.kind
	results, _, err := pr.session.multi(ctx, "register", []any{&zk.CreateRequest{Path: pr.session.serverPath(dir + "/" + pr.host), Data: data,
		Acl: openACL, Flags: zk.FlagEphemeral | zk.FlagSequence}})
	if err != nil {
		return err
	}
	pr.mu.Lock()
	defer pr.mu.Unlock()
	r.path, r.sent = pr.session.localPath(results[0].String), data
	return nil
}

// adopt finds the pool registration of an earlier call that ZooKeeper executed but did not answer. mu is held.
func (pr *presence) adopt(r *registered) {
	if pr.cache.node(r.path) != nil || r.kind != "pool" {
		return
	}
	for kid := range pr.cache.kids(poolsDir) {
		z := pr.cache.node(poolsDir + "/" + kid)
		if z.peer != nil && z.peer.ID == pr.ids[r.key] {
			r.path = poolsDir + "/" + kid
		}
	}
}

// unregister removes the registrations of this process.
func (pr *presence) unregister(ctx context.Context) {
	pr.writing.Lock()
	defer pr.writing.Unlock()
	pr.mu.Lock()
	var ops []any
	for _, r := range pr.registrations() {
		if pr.cache.node(r.path) != nil {
			ops = append(ops, &zk.DeleteRequest{Path: pr.session.serverPath(r.path), Version: -1})
		}
	}
	up := pr.session.connection.up
	pr.mu.Unlock()
	if len(ops) == 0 || !up {
		return
	}
	if err := pr.session.deleteEach(ctx, ops); err != nil {
		pr.log.Warn("registrations in ZooKeeper remain until the session ends", "error", err)
	}
}

// builders lists the IDs of the npctl processes that are registered as builders, and the hosts of other builders.
func (pr *presence) builders() (ids, others []string) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	for kid := range pr.cache.kids(buildersDir) {
		c := &component{}
		switch z := pr.cache.node(buildersDir + "/" + kid); {
		case z == nil || len(z.data) == 0 || unmarshal(z.data, c) != nil:
		case !strings.HasPrefix(string(c.Program), "npctl"):
			others = append(others, string(c.Host))
		case c.ID != "":
			ids = append(ids, c.ID)
		}
	}
	slices.Sort(ids)
	slices.Sort(others)
	return slices.Compact(ids), slices.Compact(others)
}

// registeredPools lists the registered pools of all processes.
func (pr *presence) registeredPools() []resources.RegisteredPool {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	own := map[string]bool{}
	for _, id := range pr.ids {
		own[id] = true
	}
	var peers []resources.RegisteredPool
	for id, c := range pr.cache.components() {
		priority := int64(defaultPriority)
		if c.Priority != nil {
			priority = int64(*c.Priority)
		}
		peers = append(peers, resources.RegisteredPool{ID: id, Own: own[id], Host: string(c.Host), Program: string(c.Program), Provider: c.Provider, Pool: c.Pool,
			Labels: slices.Clone(c.Labels), Priority: priority, Paused: c.Paused})
	}
	return peers
}
