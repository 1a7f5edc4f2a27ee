package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// lingering is how long a connection stays open that nobody uses and that is not of the configuration in force. Who looks at a
// provider whose block is gone comes back to it, and so does who has tried a new configuration and then takes it.
const lingering = 5 * time.Minute

// connections are the providers that are open. Engines for newer configurations share them.
type connections struct {
	mu      sync.Mutex // guards what follows, and what openCloud says
	clouds  map[cloudKey]*openCloud
	inForce map[string]cloudKey // by provider: what the configuration in force has
}

// cloudKey tells connections apart: a provider whose block has changed gets another one.
type cloudKey struct{ name, config string }

// openCloud is a connection, or the error that opening it gave.
type openCloud struct {
	done  chan struct{} // closed once it is open or was not to be opened: cloud and err are set then
	ready atomic.Bool   // cloud is there
	cloud drivers.Cloud
	err   error

	users int       // guarded by the connections' mu
	left  time.Time // when the last of them has left; guarded by the same
}

// cloud opens a provider once and keeps it open: as the configuration describes it, or, for one that is configured no
// more, as its record remembers it. Release has to be called when the cloud is used no more; it is never nil.
func (e *Engine) cloud(ctx context.Context, name string, record *resources.ProviderRecord) (cloud drivers.Cloud, release func(), err error) {
	e.closeRetired()
	key := e.cloudKey(name, record)
	open, first := e.enter(key)
	release = sync.OnceFunc(func() { e.leave(open) })
	if first {
		open.cloud, open.err = e.open(ctx, name, record)
		open.ready.Store(open.err == nil)
		close(open.done)
	}
	select {
	case <-open.done:
	case <-ctx.Done(): // somebody else waits for a provider that hangs
		release()
		return nil, release, context.Cause(ctx)
	}
	if open.err != nil { // whoever waited for it gets the error; whoever comes later tries again
		release()
		e.mu.Lock()
		if e.clouds[key] == open {
			delete(e.clouds, key)
		}
		e.mu.Unlock()
	}
	return open.cloud, release, open.err
}

// enter makes the caller a user of a connection, which is to be opened by the first one.
func (c *connections) enter(key cloudKey) (open *openCloud, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open = c.clouds[key]
	if first = open == nil; first {
		open = &openCloud{done: make(chan struct{})}
		c.clouds[key] = open
	}
	open.users++
	return open, first
}

func (e *Engine) leave(open *openCloud) {
	e.mu.Lock()
	defer e.mu.Unlock()
	open.users--
	open.left = e.Now()
}

// takeForce makes the engine's configuration the one whose connections stay open, used or not.
func (e *Engine) takeForce() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inForce = e.keys
}

// closeRetired closes what nobody needs any more. Every look at a provider comes by here, so that nothing stays for long.
func (e *Engine) closeRetired() {
	for _, open := range e.retired(e.Now()) {
		if err := open.cloud.Close(); err != nil {
			e.Log.Warn("a provider was not left properly", "error", err)
		}
	}
}

// retired takes out the connections that are to be closed.
func (c *connections) retired(now time.Time) (retired []*openCloud) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, open := range c.clouds {
		if open.users == 0 && open.ready.Load() && c.inForce[key.name] != key && now.Sub(open.left) >= lingering {
			delete(c.clouds, key)
			retired = append(retired, open)
		}
	}
	return retired
}

// connected reports whether a cloud is one of those that are open.
func (c *connections) connected(cloud drivers.Cloud) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, open := range c.clouds {
		if open.ready.Load() && open.cloud == cloud {
			return true
		}
	}
	return false
}
