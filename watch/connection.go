package watch

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

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

// check reports whether the store is connected, and logs changes.
func (c *connection) check() bool {
	if c.store == nil {
		return true
	}
	connected := c.store.Connected()
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
	return connected
}

// isDown reports whether the store was disconnected at the newest check.
func (c *connection) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// recentlyReconnected reports whether the store reconnected less than reconnectGrace ago.
func (c *connection) recentlyReconnected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.reconnectedAt) < reconnectGrace
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

// ProvidersNotListed returns the providers to serve that have not been listed yet, successfully or not. New providers
// appear in it, and providers that this process becomes the leader of.
func (d *Daemon) ProvidersNotListed() (names []string) {
	desired := d.Desired()
	for i := range desired.Providers {
		name := desired.Providers[i].Name
		if _, listed := d.observer.Listing(name); !listed && d.duties.mayManage(name) {
			names = append(names, name)
		}
	}
	return names
}

// NotReady returns why the daemon cannot serve everything now, or an empty string when it can.
func (d *Daemon) NotReady() string {
	switch unlisted := d.ProvidersNotListed(); {
	case d.connection.isDown():
		return "the state is unreachable"
	case len(unlisted) > 0:
		return "not listed yet: " + strings.Join(unlisted, ", ")
	case d.LastPassEnd().IsZero():
		return "no pass has completed yet"
	default:
		return ""
	}
}
