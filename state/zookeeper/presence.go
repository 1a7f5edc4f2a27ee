package zookeeper

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
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

// presence registers this process: its pools, its builder, and itself as a launcher. It also reads the registrations of
// all processes.
type presence struct {
	session *session
	mirror  *mirror
	log     *slog.Logger
	host    string
	version string     // of npctl
	writing sync.Mutex // held while registrations are written

	mu       *sync.Mutex // guards cache and the fields below; see Store
	cache    *cache
	pools    []*registered
	process  *registered // registration as a launcher
	builder  *registered
	unwanted []string           // registrations to remove
	ids      map[poolKey]string // of pools, for the life of this process
}

// publish replaces the presence of this process, and waits until the registrations can be read.
func (pr *presence) publish(ctx context.Context, presence resources.Presence) error {
	if pr.session.readOnly {
		return state.ErrReadOnly
	}
	if err := pr.session.usable(ctx); err != nil {
		return err
	}
	if err := pr.wantAndSync(ctx, presence); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	// without the mutex writing: if the session is lost now, the upkeep registers again
	return pr.mirror.settle(ctx, func() bool {
		return !slices.ContainsFunc(pr.pools, func(r *registered) bool {
			z := pr.cache.node(r.path)
			return z == nil || z.peer == nil
		})
	})
}

func (pr *presence) wantAndSync(ctx context.Context, presence resources.Presence) error {
	pr.writing.Lock()
	defer pr.writing.Unlock()
	pr.setWantedRegistrations(presence)
	return pr.syncRegistry(ctx)
}

// setWantedRegistrations replaces the list of wanted registrations and keeps existing ones.
func (pr *presence) setWantedRegistrations(presence resources.Presence) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.wantPools(presence.Pools)
	pr.wantBuilder(presence.Builder)
	if pr.process == nil && len(presence.Pools) > 0 {
		pr.process = &registered{kind: "launcher", data: pr.processData("launcher", "")}
	}
}

// wantBuilder sets the wanted registration of the builder. mu is held.
func (pr *presence) wantBuilder(id string) {
	switch {
	case id == "" && pr.builder != nil:
		pr.unregisterLater(pr.builder)
		pr.builder = nil
	case id != "":
		if pr.builder == nil {
			pr.builder = &registered{kind: "builder"}
		}
		pr.builder.data = pr.processData("builder", id)
	}
}

// unregisterLater schedules the removal of a registration. mu is held.
func (pr *presence) unregisterLater(r *registered) {
	if r.path != "" {
		pr.unwanted = append(pr.unwanted, r.path)
	}
}

// processData returns the document of a process, with sorted keys. mu is held.
func (pr *presence) processData(kind, id string) []byte {
	doc := map[string]any{"hostname": pr.host, "kind": kind, "model_api": modelAPI, "state": "running", "version": pr.program()}
	if id != "" {
		doc["id"] = id
	}
	return asJSON(doc)
}

// wantPools sets the wanted registrations of pools. mu is held.
func (pr *presence) wantPools(pools []resources.RegisteredPool) {
	known := map[poolKey]*registered{}
	for _, r := range pr.pools {
		known[r.key] = r
	}
	pr.pools = nil
	for _, p := range pools {
		key := poolKey{p.Provider, p.Pool}
		r := known[key]
		if r == nil {
			r = &registered{key: key, kind: "pool"}
		}
		delete(known, key)
		r.data = pr.poolData(p)
		pr.pools = append(pr.pools, r)
	}
	for _, r := range known {
		pr.unregisterLater(r)
	}
}

// poolData returns the document of a pool, with sorted keys. mu is held.
func (pr *presence) poolData(p resources.RegisteredPool) []byte {
	return asJSON(map[string]any{"hostname": pr.host, "id": pr.poolID(p), "kind": "pool", "model_api": modelAPI, "name": p.Pool,
		"paused": p.Paused, "priority": p.Priority, "provider_name": p.Provider, "state": "running",
		"supported_labels": notNil(p.Labels), "version": pr.program()})
}

func (pr *presence) program() string { return strings.TrimSpace("npctl " + pr.version) }

// poolID returns the ID of a pool for the life of this process. Because another process has other IDs, requests that a
// pool of an earlier process declined are offered to this one. mu is held.
func (pr *presence) poolID(p resources.RegisteredPool) string {
	key := poolKey{p.Provider, p.Pool}
	if p.ID != "" {
		pr.ids[key] = p.ID
	}
	if pr.ids[key] == "" {
		pr.ids[key] = fmt.Sprintf("%s-PoolWorker.%s-%s-%s", pr.host, p.Provider, p.Pool, strings.ReplaceAll(uuid.NewString(), "-", ""))
	}
	return pr.ids[key]
}

// launcherID returns the launcher ID that a new node records.
func (pr *presence) launcherID(provider, pool string) string {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return cmp.Or(pr.ids[poolKey{provider, pool}], pr.host+"-npctl")
}
