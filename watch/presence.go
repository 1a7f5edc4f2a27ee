package watch

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// reconnectGrace is how long after a reconnection of the store other processes may need to register again, because
// their sessions may have ended.
const reconnectGrace = 10 * time.Second

// registerRetry is the time between two attempts to register.
const registerRetry = time.Second

// presence holds the pools and builder ID that this process publishes to the other processes of a shared store.
type presence struct {
	changed chan struct{} // receives a hint when current has changed

	mu            sync.Mutex // guards the fields below
	current       resources.Presence
	disconnected  bool      // the store is disconnected, which was logged
	reconnectedAt time.Time // when the store was last reconnected
}

func newPresence() presence { return presence{changed: make(chan struct{}, 1)} }

// connected reports whether the store is connected, so that its records are current. The daemon decides nothing while
// it is not.
func (d *Daemon) connected() bool {
	store := d.runner.Shared()
	if store == nil {
		return true
	}
	connected := store.Connected()
	d.presence.mu.Lock()
	defer d.presence.mu.Unlock()
	switch {
	case !connected && !d.presence.disconnected:
		d.Log.Error("the state is unreachable; passes stop until it is reachable again")
	case connected && d.presence.disconnected:
		d.presence.reconnectedAt = time.Now()
		d.Log.Info("the state is reachable again")
	}
	d.presence.disconnected = !connected
	return connected
}

// recentlyReconnected reports whether the store reconnected less than reconnectGrace ago.
func (d *Daemon) recentlyReconnected() bool {
	d.presence.mu.Lock()
	defer d.presence.mu.Unlock()
	return time.Since(d.presence.reconnectedAt) < reconnectGrace
}

// follow applies the changes that other processes write to a shared store.
func (d *Daemon) follow(ctx context.Context) {
	if err := d.runner.Follow(ctx, d.onAnswer); err != nil && ctx.Err() == nil {
		d.Log.Error("changes of other processes cannot be followed", "error", err)
	}
}

// onAnswer records the answer to a request that was created through npctl: another process may have answered it while a
// client waits here.
func (d *Daemon) onAnswer(record resources.Record) {
	r, ok := record.(*resources.Request)
	if ok && d.shadow != nil {
		d.shadow.onAnswer(r)
		return
	}
	if !ok || !strings.HasPrefix(r.Requestor, plan.OwnRequestor) || !r.IsDone() {
		return
	}
	d.Journal.Add(resources.Event{Time: d.Engine.Now(), Subject: r.Key().String(), EventID: r.EventID, Code: string(r.State), Text: "the request is " + string(r.State) + because(r.Error)})
}

// warnCompetitors logs programs that serve a provider of this process and do not know its lock: each may treat
// instances of the other as leaks. It logs a program once while it is registered.
func (d *Daemon) warnCompetitors(p Pass) {
	if d.Shadow {
		return // a shadow compares itself with them
	}
	now := competitors(p.Observed.RegisteredPools, d.duties.leads)
	for r := range now {
		if !d.loggedCompetitors[r] {
			d.Log.Error("another program serves a provider of this process; stop one of them, or assign the provider to only one",
				"provider", r.provider, "host", r.host, "program", r.program)
			d.Journal.add(resources.Event{Time: p.Observed.Now, Subject: "provider/" + r.provider, Code: "provider-conflict",
				Text: fmt.Sprintf("%s on %s serves this provider too; stop one of them, or assign the provider to only one", r.program, r.host)})
		}
	}
	d.loggedCompetitors = now
}

// competitor is another program that serves a provider that this process leads.
type competitor struct{ provider, host, program string }

func competitors(peers []resources.RegisteredPool, tenured func(provider string) bool) map[competitor]bool {
	found := map[competitor]bool{}
	for i := range peers {
		if p := &peers[i]; !p.IsNpctl() && tenured(p.Provider) {
			found[competitor{p.Provider, p.Host, p.Program}] = true
		}
	}
	return found
}

// publishPresence updates the presence from a pass and signals a change to register.
func (d *Daemon) publishPresence(p Pass) {
	if d.runner.Shared() == nil || d.Shadow {
		return
	}
	now := resources.Presence{Pools: d.poolsServed(p), Builder: d.builderID(p)}
	d.presence.mu.Lock()
	defer d.presence.mu.Unlock()
	if reflect.DeepEqual(now, d.presence.current) {
		return
	}
	d.presence.current = now
	select {
	case d.presence.changed <- struct{}{}:
	default:
	}
}

// poolsServed returns the configured pools of the providers that this process serves. A pool is paused while it has no
// capacity for a request that it could serve, or while its provider is unreachable, so that pools of other processes
// that come after it accept requests. A standby registers its pools too, as paused: while the lock changes its holder,
// a request that only these pools can serve waits, whereas other processes would fail it if no registered pool could
// serve it.
func (d *Daemon) poolsServed(p Pass) (pools []resources.RegisteredPool) {
	frozen := d.frozenNow()
	for i := range p.Desired.Providers {
		provider := &p.Desired.Providers[i]
		if !d.duties.hasTask(TaskNodes) || !d.duties.hasProvider(provider.Name) || frozen[provider.Name] {
			continue
		}
		idle := !d.duties.leads(provider.Name) || p.Observed.Providers[provider.Name].Err != ""
		for j := range provider.Pools {
			pool := &provider.Pools[j]
			if labels := pool.LabelNames(); len(labels) > 0 {
				waiting := slices.Contains(p.Plan.Waiting, resources.Placement{Provider: provider.Name, Pool: pool.Name})
				pools = append(pools, resources.RegisteredPool{Provider: provider.Name, Pool: pool.Name, Labels: labels,
					Priority: pool.Priority, Paused: waiting || idle})
			}
		}
	}
	return pools
}

// builderID returns the ID by which this process registers as a builder, or an empty string when it does not build
// images. A standby for images registers too.
func (d *Daemon) builderID(p Pass) string {
	if !d.duties.hasTask(TaskImages) || len(p.Desired.Images) == 0 {
		return ""
	}
	id, err := d.engine().BuilderID()
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != d.builderErr {
		d.Log.Error("this process is not registered as a builder", "error", problem)
	}
	d.builderErr = problem
	return id
}

// register publishes the presence whenever it changes, until ctx is done.
func (d *Daemon) register(ctx context.Context) {
	for {
		select {
		case <-d.presence.changed:
		case <-ctx.Done():
			return
		}
		d.presence.mu.Lock()
		presence := d.presence.current
		d.presence.mu.Unlock()
		for {
			err := d.runner.Shared().Register(ctx, presence)
			if err == nil {
				d.triggerPass()
				break
			}
			if ctx.Err() != nil {
				return
			}
			d.Log.Warn("this process could not be registered", "error", err)
			if !sleep(ctx, registerRetry) {
				return
			}
		}
	}
}
