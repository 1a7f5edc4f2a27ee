package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/npctl/npctl/resources"
)

const (
	defaultPriority = 100
	modelAPI        = 0 // a Nodepool with a lower model API than the registry exits
)

// component is a registration as all programs write it.
type component struct {
	Host     text    `json:"hostname"`
	Program  text    `json:"version"`
	Kind     text    `json:"kind"`
	ID       string  `json:"id"`
	Pool     string  `json:"name"`
	Provider string  `json:"provider_name"`
	Labels   texts   `json:"supported_labels"`
	Priority *number `json:"priority"`
	Paused   bool    `json:"paused"`
}

// decodeComponent returns nil for a registration that is no pool or cannot be decoded.
func decodeComponent(p znodeRef, data []byte) *component {
	c := &component{}
	if p.parts[2] != "pool" || unmarshal(data, c) != nil || c.ID == "" {
		return nil
	}
	return c
}

type poolKey struct{ provider, pool string }

// registered is a znode of this process in the registry.
type registered struct {
	key  poolKey
	kind string
	path string
	data []byte
	sent []byte // content of the znode; nil if uncertain
}

// Register implements state.Shared.
func (s *Store) Register(ctx context.Context, presence resources.Presence) error {
	if s.opts.ReadOnly {
		return errReadOnly
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.wantAndSync(ctx, presence); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	// without registryMu: if the session is lost now, the upkeep registers again
	return s.settle(ctx, func() bool {
		return !slices.ContainsFunc(s.pools, func(r *registered) bool {
			z := s.cache.nodes[r.path]
			return z == nil || z.peer == nil
		})
	})
}

func (s *Store) wantAndSync(ctx context.Context, presence resources.Presence) error {
	s.registryMu.Lock()
	defer s.registryMu.Unlock()
	s.setWantedRegistrations(presence)
	return s.syncRegistry(ctx)
}

// setWantedRegistrations replaces the list of wanted registrations and keeps existing ones.
func (s *Store) setWantedRegistrations(presence resources.Presence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wantPools(presence.Pools)
	s.wantBuilder(presence.Builder)
	if s.process == nil && len(presence.Pools) > 0 {
		s.process = &registered{kind: "launcher", data: s.processData("launcher", "")}
	}
}

// wantBuilder sets the wanted registration of the builder. s.mu is held.
func (s *Store) wantBuilder(id string) {
	switch {
	case id == "" && s.builder != nil:
		s.unregisterLater(s.builder)
		s.builder = nil
	case id != "":
		if s.builder == nil {
			s.builder = &registered{kind: "builder"}
		}
		s.builder.data = s.processData("builder", id)
	}
}

// unregisterLater schedules the removal of a registration. s.mu is held.
func (s *Store) unregisterLater(r *registered) {
	if r.path != "" {
		s.unwanted = append(s.unwanted, r.path)
	}
}

// processData returns the document of a process, with sorted keys. s.mu is held.
func (s *Store) processData(kind, id string) []byte {
	doc := map[string]any{"hostname": s.opts.Host, "kind": kind, "model_api": modelAPI, "state": "running", "version": s.program()}
	if id != "" {
		doc["id"] = id
	}
	return asJSON(doc)
}

// wantPools sets the wanted registrations of pools. s.mu is held.
func (s *Store) wantPools(pools []resources.RegisteredPool) {
	known := map[poolKey]*registered{}
	for _, r := range s.pools {
		known[r.key] = r
	}
	s.pools = nil
	for _, p := range pools {
		key := poolKey{p.Provider, p.Pool}
		r := known[key]
		if r == nil {
			r = &registered{key: key, kind: "pool"}
		}
		delete(known, key)
		r.data = s.poolData(p)
		s.pools = append(s.pools, r)
	}
	for _, r := range known {
		s.unregisterLater(r)
	}
}

// poolData returns the document of a pool, with sorted keys. s.mu is held.
func (s *Store) poolData(p resources.RegisteredPool) []byte {
	return asJSON(map[string]any{"hostname": s.opts.Host, "id": s.poolID(p), "kind": "pool", "model_api": modelAPI, "name": p.Pool,
		"paused": p.Paused, "priority": p.Priority, "provider_name": p.Provider, "state": "running",
		"supported_labels": notNil(p.Labels), "version": s.program()})
}

func (s *Store) program() string { return strings.TrimSpace("npctl " + s.opts.Version) }

// poolID returns the ID of a pool for the life of this process. Because another process has other IDs, requests that a
// pool of an earlier process declined are offered to this one. s.mu is held.
func (s *Store) poolID(p resources.RegisteredPool) string {
	key := poolKey{p.Provider, p.Pool}
	if p.ID != "" {
		s.ids[key] = p.ID
	}
	if s.ids[key] == "" {
		s.ids[key] = fmt.Sprintf("%s-PoolWorker.%s-%s-%s", s.opts.Host, p.Provider, p.Pool, strings.ReplaceAll(uuid.NewString(), "-", ""))
	}
	return s.ids[key]
}

// launcherID returns the launcher ID that a new node records.
func (s *Store) launcherID(provider, pool string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.ids[poolKey{provider, pool}], s.opts.Host+"-npctl")
}

// syncRegistry creates, updates and removes registrations as wanted. registryMu is held.
func (s *Store) syncRegistry(ctx context.Context) error {
	if err := s.waitSynced(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	wanted := s.registrations()
	unwanted := s.unwanted
	s.mu.Unlock()
	for _, r := range wanted {
		if err := s.register(ctx, r); err != nil {
			return err
		}
	}
	for _, path := range unwanted {
		if err := s.deleteEach(ctx, []any{&zk.DeleteRequest{Path: s.serverPath(path), Version: -1}}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwanted = nil
	return nil
}

// registrations lists the wanted registrations. s.mu is held.
func (s *Store) registrations() []*registered {
	all := slices.Clone(s.pools)
	for _, r := range []*registered{s.process, s.builder} {
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// register creates or updates one registration.
func (s *Store) register(ctx context.Context, r *registered) error {
	s.mu.Lock()
	s.adopt(r)
	z := s.cache.nodes[r.path]
	same := z != nil && r.sent != nil && bytes.Equal(r.sent, r.data) // not the cache, which may be older than the last write
	s.mu.Unlock()
	data := r.data
	switch {
	case same:
		return nil
	case z != nil:
		r.sent = nil
		_, _, err := s.multi(ctx, "update registration", []any{&zk.SetDataRequest{Path: s.serverPath(r.path), Data: data, Version: -1}})
		if err == nil {
			r.sent = data
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	dir := registryDir + "/" + r.kind
	results, _, err := s.multi(ctx, "register", []any{&zk.CreateRequest{Path: s.serverPath(dir + "/" + s.opts.Host), Data: data,
		Acl: openACL, Flags: zk.FlagEphemeral | zk.FlagSequence}})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.path, r.sent = strings.TrimPrefix(results[0].String, s.opts.Chroot), data
	return nil
}

// adopt finds the pool registration of an earlier call that ZooKeeper executed but did not answer. s.mu is held.
func (s *Store) adopt(r *registered) {
	if s.cache.nodes[r.path] != nil || r.kind != "pool" {
		return
	}
	for kid := range kidsOf(s.cache.nodes[poolsDir]) {
		z := s.cache.nodes[poolsDir+"/"+kid]
		if z.peer != nil && z.peer.ID == s.ids[r.key] {
			r.path = poolsDir + "/" + kid
		}
	}
}

func kidsOf(z *znode) map[string]bool {
	if z == nil {
		return nil
	}
	return z.children
}

// unregister removes the registrations of this process.
func (s *Store) unregister(ctx context.Context) {
	s.registryMu.Lock()
	defer s.registryMu.Unlock()
	s.mu.Lock()
	var ops []any
	for _, r := range s.registrations() {
		if s.cache.nodes[r.path] != nil {
			ops = append(ops, &zk.DeleteRequest{Path: s.serverPath(r.path), Version: -1})
		}
	}
	up := s.connection.up
	s.mu.Unlock()
	if len(ops) == 0 || !up {
		return
	}
	if err := s.deleteEach(ctx, ops); err != nil {
		s.log.Warn("registrations in ZooKeeper remain until the session ends", "error", err)
	}
}

// Builders implements state.Shared.
func (s *Store) Builders() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for kid := range kidsOf(s.cache.nodes[buildersDir]) {
		c := &component{}
		z := s.cache.nodes[buildersDir+"/"+kid]
		if z != nil && unmarshal(z.data, c) == nil && c.ID != "" && strings.HasPrefix(string(c.Program), "npctl") {
			ids = append(ids, c.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// RegisteredPools implements state.Shared.
func (s *Store) RegisteredPools() []resources.RegisteredPool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := map[string]bool{}
	for _, id := range s.ids {
		own[id] = true
	}
	var peers []resources.RegisteredPool
	for _, id := range slices.Sorted(maps.Keys(s.cache.peers)) {
		c := s.cache.peers[id]
		priority := int64(defaultPriority)
		if c.Priority != nil {
			priority = int64(*c.Priority)
		}
		peers = append(peers, resources.RegisteredPool{ID: id, Own: own[id], Host: string(c.Host), Program: string(c.Program), Provider: c.Provider, Pool: c.Pool,
			Labels: slices.Clone(c.Labels), Priority: priority, Paused: c.Paused})
	}
	return peers
}
