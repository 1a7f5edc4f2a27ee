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
	e.closeUnused()
	key := e.cloudKey(name, record)
	open, first := e.acquire(key)
	release = sync.OnceFunc(func() { e.releaseConnection(open) })
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
		e.mu.Lock()
		if e.clouds[key] == open {
			delete(e.clouds, key)
		}
		e.mu.Unlock()
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

func (e *Engine) releaseConnection(open *openCloud) {
	e.mu.Lock()
	defer e.mu.Unlock()
	open.users--
	open.left = e.Now()
}

// activateConnections keeps the connections of the engine's configuration open, even when they are unused.
func (e *Engine) activateConnections() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active = e.keys
}

// closeUnused closes connections that are no longer needed. cloud calls it on each use of a provider, so that none
// stays open for long.
func (e *Engine) closeUnused() {
	for _, open := range e.unusedConnections(e.Now()) {
		if err := open.cloud.Close(); err != nil {
			e.Log.Warn("a provider was not closed properly", "error", err)
		}
	}
}

// unusedConnections removes and returns the connections to close.
func (c *connections) unusedConnections(now time.Time) (retired []*openCloud) {
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
