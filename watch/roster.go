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

// returning is how long after the store was away others may need to register again. Their sessions may have ended.
const returning = 10 * time.Second

// registerRetry is the time between two tries to make known what this process serves.
const registerRetry = time.Second

// roster is which pools this process serves, as the others in the same store are to know it.
type roster struct {
	changed chan struct{} // gets a hint when it has

	mu       sync.Mutex // guards what follows
	presence resources.Presence
	severed  bool      // the store cannot be relied upon, which has been told
	back     time.Time // when it could be reached again
}

func newRoster() roster { return roster{changed: make(chan struct{}, 1)} }

// connected reports whether what is known of the store can be relied upon. While it cannot, nothing is decided.
func (d *Daemon) connected() bool {
	store := d.runner.Shared()
	if store == nil {
		return true
	}
	connected := store.Connected()
	d.roster.mu.Lock()
	defer d.roster.mu.Unlock()
	switch {
	case !connected && !d.roster.severed:
		d.Log.Error("the state cannot be reached: nothing is decided until it can")
	case connected && d.roster.severed:
		d.roster.back = time.Now()
		d.Log.Info("the state can be reached again")
	}
	d.roster.severed = !connected
	return connected
}

// returned reports whether the store was away until a moment ago.
func (d *Daemon) returned() bool {
	d.roster.mu.Lock()
	defer d.roster.mu.Unlock()
	return time.Since(d.roster.back) < returning
}

// follow keeps up with what others write into the same store.
func (d *Daemon) follow(ctx context.Context) {
	if err := d.runner.Follow(ctx, d.hear); err != nil && ctx.Err() == nil {
		d.Log.Error("what others write cannot be followed", "error", err)
	}
}

// hear notes the answer to a request that was made through npctl: it may be another process that gives it, and somebody
// may wait for it here.
func (d *Daemon) hear(record resources.Record) {
	r, ok := record.(*resources.Request)
	if ok && d.shadow != nil {
		d.shadow.hear(r)
		return
	}
	if !ok || !strings.HasPrefix(r.Who, plan.OwnRequestor) || !r.Answered() {
		return
	}
	d.Journal.Add(resources.Event{Time: d.Engine.Now(), Subject: r.Key().String(), EventID: r.Event, Code: string(r.State), Text: "it is " + string(r.State) + because(r.Error)})
}

// watchRivals tells of processes that take care of a provider of this one and do not know its lock: what the one makes, the
// other may take for leaked. Each is told of once while it is there.
func (d *Daemon) watchRivals(p Pass) {
	if d.Shadow {
		return // they are whom it looks at
	}
	now := rivals(p.Seen.Peers, d.tenured)
	for r := range now {
		if !d.rivals[r] {
			d.Log.Error("another program serves a provider of this process: end one of them, or give that provider to one only",
				"provider", r.provider, "host", r.host, "program", r.program)
			d.Journal.add(resources.Event{Time: p.Seen.Now, Subject: "provider/" + r.provider, Code: "rival",
				Text: fmt.Sprintf("%s on %s serves it too: end one of them, or give this provider to one only", r.program, r.host)})
		}
	}
	d.rivals = now
}

// rival is a program that serves a provider that this process takes care of.
type rival struct{ provider, host, program string }

func rivals(peers []resources.Peer, tenured func(provider string) bool) map[rival]bool {
	found := map[rival]bool{}
	for i := range peers {
		if p := &peers[i]; !p.IsOurs() && tenured(p.Provider) {
			found[rival{p.Provider, p.Host, p.Program}] = true
		}
	}
	return found
}

// enroll takes down what this process serves, as of a pass.
func (d *Daemon) enroll(p Pass) {
	if d.runner.Shared() == nil || d.Shadow {
		return
	}
	now := resources.Presence{Pools: d.poolsServed(p), Builder: d.builderID(p)}
	d.roster.mu.Lock()
	defer d.roster.mu.Unlock()
	if reflect.DeepEqual(now, d.roster.presence) {
		return
	}
	d.roster.presence = now
	select {
	case d.roster.changed <- struct{}{}:
	default:
	}
}

// poolsServed lists the configured pools of providers that are looked after. One is paused while it has no room for what
// it could serve, or while its provider cannot be reached: others whom it would go before take on requests meanwhile. Those
// that this process stands by for are among them, paused: between two holders, a request that only they can serve waits,
// where without any pool that could serve it the others would fail it.
func (d *Daemon) poolsServed(p Pass) (pools []resources.Peer) {
	frozen := d.frozenNow()
	for i := range p.Desired.Providers {
		provider := &p.Desired.Providers[i]
		if !d.does(TaskNodes) || !d.serves(provider.Name) || frozen[provider.Name] {
			continue
		}
		idle := !d.tenured(provider.Name) || p.Seen.Providers[provider.Name].Err != ""
		for j := range provider.Pools {
			pool := &provider.Pools[j]
			if labels := pool.LabelNames(); len(labels) > 0 {
				waiting := slices.Contains(p.Plan.Waiting, resources.Place{Provider: provider.Name, Pool: pool.Name})
				pools = append(pools, resources.Peer{Provider: provider.Name, Pool: pool.Name, Labels: labels,
					Priority: pool.Priority, Paused: waiting || idle})
			}
		}
	}
	return pools
}

// builderID identifies this process as a builder, if it makes images. It stands by for images as well as it makes them.
func (d *Daemon) builderID(p Pass) string {
	if !d.does(TaskImages) || len(p.Desired.Images) == 0 {
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

// register makes known what this process serves whenever that changes.
func (d *Daemon) register(ctx context.Context) {
	for {
		select {
		case <-d.roster.changed:
		case <-ctx.Done():
			return
		}
		d.roster.mu.Lock()
		presence := d.roster.presence
		d.roster.mu.Unlock()
		for {
			err := d.runner.Shared().Register(ctx, presence)
			if err == nil {
				d.nudge()
				break
			}
			if ctx.Err() != nil {
				return
			}
			d.Log.Warn("what this process serves could not be made known", "error", err)
			if !sleep(ctx, registerRetry) {
				return
			}
		}
	}
}

// requestor is how a request that is made here names who it is for.
func (d *Daemon) requestor(who string) string {
	if d.runner.Shared() == nil {
		return who
	}
	return plan.OwnRequestor + who
}
