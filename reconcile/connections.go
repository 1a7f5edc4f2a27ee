package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// idleConnectionTimeout is how long an unused connection stays open that is not part of the active configuration. After
// the removal of its block, a provider is still listed repeatedly, and a configuration that was only tried may become
// active.
const idleConnectionTimeout = 5 * time.Minute

// connections holds the open providers. Engines for newer configurations share it.
type connections struct {
	mu     sync.Mutex // guards the fields below, and users and left of openCloud
	clouds map[cloudKey]*openCloud
	active map[string]cloudKey // by provider: the connections of the active configuration
}

// cloudKey identifies a connection. A change of the provider block results in another key.
type cloudKey struct{ name, config string }

// openCloud is a connection, or the error of opening it.
type openCloud struct {
	done  chan struct{} // closed when opening has ended; cloud and err are set by then
	ready atomic.Bool   // cloud is set
	cloud drivers.Cloud
	err   error

	users int       // guarded by connections.mu
	left  time.Time // when the last user released it; guarded by connections.mu
}

// cloud opens a provider once and keeps it open. It uses the configuration or, for a provider that is no longer
// configured, its record. The caller must call release after it has used the cloud; release is never nil.
func (e *Engine) cloud(ctx context.Context, name string, record *resources.ProviderRecord) (cloud drivers.Cloud, release func(), err error) {
	for _, open := range e.connections.unused(e.Now()) { // checked on each use of a provider, so that none stays open for long
		if err := open.cloud.Close(); err != nil {
			e.Log.Warn("a provider was not closed properly", "error", err)
		}
	}
	key := e.cloudKey(name, record)
	open, first := e.connections.acquire(key)
	release = sync.OnceFunc(func() { e.connections.release(open, e.Now()) })
	if first {
		open.cloud, open.err = e.open(ctx, name, record)
		open.ready.Store(open.err == nil)
		close(open.done)
	}
	select {
	case <-open.done:
	case <-ctx.Done(): // another caller may still wait for a provider that hangs
		release()
		return nil, release, context.Cause(ctx)
	}
	if open.err != nil { // all callers that waited get the error; a later call tries again
		release()
		e.connections.forget(key, open)
	}
	return open.cloud, release, open.err
}

// acquire adds the caller to the users of a connection. The first user has to open it.
func (c *connections) acquire(key cloudKey) (open *openCloud, first bool) {
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

func (c *connections) release(open *openCloud, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open.users--
	open.left = now
}

// forget removes a connection that could not be opened.
func (c *connections) forget(key cloudKey, failed *openCloud) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clouds[key] == failed {
		delete(c.clouds, key)
	}
}

// activate keeps the connections of a configuration open, even when they are unused.
func (c *connections) activate(keys map[string]cloudKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = keys
}

// unused removes and returns the connections to close.
func (c *connections) unused(now time.Time) (retired []*openCloud) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, open := range c.clouds {
		if open.users == 0 && open.ready.Load() && c.active[key.name] != key && now.Sub(open.left) >= idleConnectionTimeout {
			delete(c.clouds, key)
			retired = append(retired, open)
		}
	}
	return retired
}

// opened returns an open connection, or nil.
func (c *connections) opened(key cloudKey) drivers.Cloud {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open := c.clouds[key]; open != nil && open.ready.Load() {
		return open.cloud
	}
	return nil
}

// connected reports whether a cloud is one of the open connections.
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

// close closes all connections.
func (c *connections) close() (first error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, open := range c.clouds {
		if open.ready.Load() {
			if err := open.cloud.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	clear(c.clouds)
	return first
}
