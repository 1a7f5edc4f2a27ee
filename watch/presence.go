package watch

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// registerRetry is the time between two attempts to register.
const registerRetry = time.Second

// presence publishes the pools and builder ID of this process to the other processes of a shared store.
type presence struct {
	store      state.Shared
	log        *slog.Logger
	registered func()        // called after each registration
	changed    chan struct{} // receives a hint when current has changed

	mu      sync.Mutex // guards current
	current resources.Presence
}

// publish sets the presence and signals a change to register.
func (p *presence) publish(now resources.Presence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reflect.DeepEqual(now, p.current) {
		return
	}
	p.current = now
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// register registers the presence whenever it changes, until ctx is done.
func (p *presence) register(ctx context.Context) {
	for {
		select {
		case <-p.changed:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		current := p.current
		p.mu.Unlock()
		for {
			err := p.store.Register(ctx, current)
			if err == nil {
				p.registered()
				break
			}
			if ctx.Err() != nil {
				return
			}
			p.log.Warn("this process could not be registered", "error", err)
			if !sleep(ctx, registerRetry) {
				return
			}
		}
	}
}

// pools returns the configured pools of the providers that this process serves. A pool is paused while it has no
// capacity for a request that it could serve, or while its provider is unreachable, so that pools of other processes
// that come after it accept requests. A standby registers its pools too, as paused: while the lock changes its holder,
// a request that only these pools can serve waits, whereas other processes would fail it if no registered pool could
// serve it.
func (d *Daemon) pools(desired resources.Desired, seen plan.Observed, blocked []resources.Placement) (pools []resources.RegisteredPool) {
	frozen := frozenProviders(d.runner)
	for i := range desired.Providers {
		provider := &desired.Providers[i]
		if !d.duties.hasTask(TaskNodes) || !d.duties.hasProvider(provider.Name) || frozen[provider.Name] {
			continue
		}
		idle := !d.duties.leads(provider.Name) || seen.Providers[provider.Name].Err != ""
		for j := range provider.Pools {
			pool := &provider.Pools[j]
			if labels := pool.LabelNames(); len(labels) > 0 {
				waiting := slices.Contains(blocked, resources.Placement{Provider: provider.Name, Pool: pool.Name})
				pools = append(pools, resources.RegisteredPool{Provider: provider.Name, Pool: pool.Name, Labels: labels,
					Priority: pool.Priority, Paused: waiting || idle})
			}
		}
	}
	return pools
}

// builderID returns the ID by which this process registers as a builder, or an empty string when it does not build
// images. A standby for images registers too.
func (d *Daemon) builderID(engine *reconcile.Engine) string {
	if !d.duties.hasTask(TaskImages) || len(engine.Desired.Images) == 0 {
		return ""
	}
	id, err := engine.BuilderID()
	if d.builderErr.update(err) && err != nil {
		d.Log.Error("this process is not registered as a builder", "error", err)
	}
	return id
}

// occupant returns a process of another program, such as Nodepool, that has registered a pool of the lock's provider. Such
// a program does not know the lock, and each of the two would treat instances of the other as leaks.
func occupant(registered []resources.RegisteredPool, lock string) (other state.Holder, found bool) {
	p := resources.OtherLauncher(registered, func(provider string) bool { return state.ProviderLock(provider) == lock })
	if p == nil {
		return state.Holder{}, false
	}
	at := "another launcher on " + p.Host
	return state.Holder{ID: at + " " + p.Program, UserHost: at, Host: p.Host, Version: p.Program}, true
}

// reconnectGrace is how long after a reconnection of the store other processes may need to register again, because
// their sessions may have ended.
const reconnectGrace = 10 * time.Second

// connection watches whether a shared store is connected, so that its records are current. The daemon decides nothing
// while it is not.
type connection struct {
	store state.Shared // nil: always connected
	log   *slog.Logger

	mu            sync.Mutex // guards the fields below
	down          bool       // the store is disconnected, which was logged
	reconnectedAt time.Time  // when the store was last reconnected
}

// check reports whether the store is connected, and whether it reconnected less than reconnectGrace ago. It logs changes.
func (c *connection) check() (connected, reconnected bool) {
	if c.store == nil {
		return true, false
	}
	connected = c.store.Connected()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !connected && !c.down:
		c.log.Error("the state is unreachable; passes stop until it is reachable again")
	case connected && c.down:
		c.reconnectedAt = time.Now()
		c.log.Info("the state is reachable again")
	}
	c.down = !connected
	return connected, time.Since(c.reconnectedAt) < reconnectGrace
}

// isDown reports whether the store was disconnected at the newest check.
func (c *connection) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
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
