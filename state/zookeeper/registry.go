package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	modelAPI        = 0 // a Nodepool whose own is lower than the registry's would exit
)

// component is a registration as others write it.
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

// decodeComponent returns nil for what is no pool, or cannot be read.
func decodeComponent(p place, data []byte) *component {
	c := &component{}
	if p.parts[2] != "pool" || json.Unmarshal(data, c) != nil || c.ID == "" {
		return nil
	}
	return c
}

type poolKey struct{ provider, pool string }

// registered is a znode of the registry that this process has.
type registered struct {
	key  poolKey
	kind string
	path string
	data []byte
	sent []byte // what the znode holds; nil when that is not certain
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
	// without registryMu: when the session is lost now, the upkeep registers anew
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
	s.want(presence)
	return s.syncRegistry(ctx)
}

// want replaces the list of what is to be registered, and keeps what is there already.
func (s *Store) want(presence resources.Presence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wantPools(presence.Pools)
	s.wantBuilder(presence.Builder)
	if s.process == nil && len(presence.Pools) > 0 {
		s.process = &registered{kind: "launcher", data: s.processData("launcher", "")}
	}
}

// wantBuilder is want for the builder. s.mu is held.
func (s *Store) wantBuilder(id string) {
	switch {
	case id == "" && s.builder != nil:
		s.dismiss(s.builder)
		s.builder = nil
	case id != "":
		if s.builder == nil {
			s.builder = &registered{kind: "builder"}
		}
		s.builder.data = s.processData("builder", id)
	}
}

// dismiss has a registration removed. s.mu is held.
func (s *Store) dismiss(r *registered) {
	if r.path != "" {
		s.unwanted = append(s.unwanted, r.path)
	}
}

// processData is the document of a process, with sorted keys. s.mu is held.
func (s *Store) processData(kind, id string) []byte {
	doc := map[string]any{"hostname": s.opts.Host, "kind": kind, "model_api": modelAPI, "state": "running", "version": s.program()}
	if id != "" {
		doc["id"] = id
	}
	return asJSON(doc)
}

// wantPools is want for pools. s.mu is held.
func (s *Store) wantPools(pools []resources.Peer) {
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
		s.dismiss(r)
	}
}

// poolData is the document of a pool, with sorted keys. s.mu is held.
func (s *Store) poolData(p resources.Peer) []byte {
	return asJSON(map[string]any{"hostname": s.opts.Host, "id": s.poolID(p), "kind": "pool", "model_api": modelAPI, "name": p.Pool,
		"paused": p.Paused, "priority": p.Priority, "provider_name": p.Provider, "state": "running",
		"supported_labels": notNil(p.Labels), "version": s.program()})
}

func (s *Store) program() string { return strings.TrimSpace("npctl " + s.opts.Version) }

// poolID is the id of a pool for as long as this process lives: what a pool of an earlier process has declined is asked of
// this one again. s.mu is held.
func (s *Store) poolID(p resources.Peer) string {
	key := poolKey{p.Provider, p.Pool}
	if p.ID != "" {
		s.ids[key] = p.ID
	}
	if s.ids[key] == "" {
		s.ids[key] = fmt.Sprintf("%s-PoolWorker.%s-%s-%s", s.opts.Host, p.Provider, p.Pool, strings.ReplaceAll(uuid.NewString(), "-", ""))
	}
	return s.ids[key]
}

// launcherID is what a node says of who has made it.
func (s *Store) launcherID(provider, pool string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.ids[poolKey{provider, pool}], s.opts.Host+"-npctl")
}

// syncRegistry makes the registry say what it is to say. registryMu is held.
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
		if err := s.deleteEach(ctx, []any{&zk.DeleteRequest{Path: s.at(path), Version: -1}}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwanted = nil
	return nil
}

// registrations lists what is to be registered. s.mu is held.
func (s *Store) registrations() []*registered {
	all := slices.Clone(s.pools)
	for _, r := range []*registered{s.process, s.builder} {
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// register makes or updates one registration.
func (s *Store) register(ctx context.Context, r *registered) error {
	s.mu.Lock()
	s.adopt(r)
	z := s.cache.nodes[r.path]
	same := z != nil && r.sent != nil && bytes.Equal(r.sent, r.data) // not the cache: it may not know yet what was written last
	s.mu.Unlock()
	data := r.data
	switch {
	case same:
		return nil
	case z != nil:
		r.sent = nil
		_, _, err := s.multi(ctx, "update registration", []any{&zk.SetDataRequest{Path: s.at(r.path), Data: data, Version: -1}})
		if err == nil {
			r.sent = data
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	dir := registryDir + "/" + r.kind
	results, _, err := s.multi(ctx, "register", []any{&zk.CreateRequest{Path: s.at(dir + "/" + s.opts.Host), Data: data,
		Acl: openACL, Flags: zk.FlagEphemeral | zk.FlagSequence}})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.path, r.sent = strings.TrimPrefix(results[0].String, s.opts.Chroot), data
	return nil
}

// adopt finds a registration that was made though nobody had answered. s.mu is held.
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
	return z.kids
}

// unregister removes what this process has registered.
func (s *Store) unregister(ctx context.Context) {
	s.registryMu.Lock()
	defer s.registryMu.Unlock()
	s.mu.Lock()
	var ops []any
	for _, r := range s.registrations() {
		if s.cache.nodes[r.path] != nil {
			ops = append(ops, &zk.DeleteRequest{Path: s.at(r.path), Version: -1})
		}
	}
	up := s.link.up
	s.mu.Unlock()
	if len(ops) == 0 || !up {
		return
	}
	if err := s.deleteEach(ctx, ops); err != nil {
		s.log.Warn("registrations in ZooKeeper go with the session", "error", err)
	}
}

// Peers implements state.Shared.
func (s *Store) Peers() []resources.Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := map[string]bool{}
	for _, id := range s.ids {
		own[id] = true
	}
	var peers []resources.Peer
	for _, id := range slices.Sorted(maps.Keys(s.cache.peers)) {
		c := s.cache.peers[id]
		priority := int64(defaultPriority)
		if c.Priority != nil {
			priority = int64(*c.Priority)
		}
		peers = append(peers, resources.Peer{ID: id, Own: own[id], Host: string(c.Host), Program: string(c.Program), Provider: c.Provider, Pool: c.Pool,
			Labels: slices.Clone(c.Labels), Priority: priority, Paused: c.Paused})
	}
	return peers
}
