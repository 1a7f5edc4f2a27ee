package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/state"
)

// Where several processes work in one store, each provider is served by one of them at a time: the one that has its lock.
// The others stand by, and one of them takes over when the lock is free, which is when its holder stops or loses its
// session. Nothing that was decided under a lock is done once it is lost.

const (
	standbyEvery  = time.Second // between two tries to take a provider
	unlockTimeout = 10 * time.Second
)

// tenures are the providers that this process serves, where it shares the store.
type tenures struct {
	mu     sync.Mutex                   // guards what follows
	locks  map[string]state.Lock        // of those that this process serves
	others map[string]state.LockedError // of those that it stands by for
}

func newTenures() tenures {
	return tenures{locks: map[string]state.Lock{}, others: map[string]state.LockedError{}}
}

// tenured reports whether this process is the one that serves the provider.
func (d *Daemon) tenured(provider string) bool {
	if d.runner.Shared() == nil {
		return true
	}
	d.tenures.mu.Lock()
	defer d.tenures.mu.Unlock()
	lock := d.tenures.locks[provider]
	return lock != nil && !lost(lock)
}

func lost(lock state.Lock) bool {
	select {
	case <-lock.Lost():
		return true
	default:
		return false
	}
}

// StandsBy says who serves a provider instead of this process, which takes over when that one ends.
func (d *Daemon) StandsBy(provider string) (other state.Holder, standsBy bool) {
	if d.tenured(provider) {
		return state.Holder{}, false
	}
	d.tenures.mu.Lock()
	defer d.tenures.mu.Unlock()
	by, standsBy := d.tenures.others[provider]
	return by.Holder, standsBy
}

func (d *Daemon) standsBy(provider string) bool {
	_, standsBy := d.StandsBy(provider)
	return standsBy
}

// takeProvider waits until this process may serve a provider, and returns a context that ends with that. It is nil when
// the provider, or ctx, has ended before. release is for when the provider is not to be served any more; when the process
// ends the lock goes with its session, after everything that is done under it.
func (d *Daemon) takeProvider(ctx context.Context, name string) (served context.Context, release context.CancelFunc) {
	store := d.runner.Shared()
	if store == nil {
		return context.WithCancel(ctx)
	}
	for {
		lock, err := store.Lock(ctx, reconcile.ProviderLock(name), state.Holder{Operation: "watch"})
		if err == nil {
			return d.serveUnder(ctx, name, lock)
		}
		d.standBy(name, err)
		if !sleep(ctx, standbyEvery) || d.gone(name) {
			return nil, nil
		}
	}
}

func (d *Daemon) standBy(name string, err error) {
	other, locked := errors.AsType[*state.LockedError](err)
	if !locked {
		d.Log.Warn("provider could not be taken over", "provider", name, "error", err)
		return
	}
	d.tenures.mu.Lock()
	before := d.tenures.others[name]
	d.tenures.others[name] = *other
	d.tenures.mu.Unlock()
	if before.Holder.ID != other.Holder.ID {
		d.Log.Info("another process serves the provider; this one stands by", "provider", name, "holder", other.Holder.Who, "since", other.Holder.Since)
	}
}

func (d *Daemon) serveUnder(ctx context.Context, name string, lock state.Lock) (context.Context, context.CancelFunc) {
	served, cancel := context.WithCancel(ctx)
	d.tenures.mu.Lock()
	d.tenures.locks[name] = lock
	delete(d.tenures.others, name)
	d.tenures.mu.Unlock()
	d.Log.Info("this process serves the provider", "provider", name)
	d.nudge()
	released := make(chan struct{})
	go func() {
		select {
		case <-lock.Lost(): // also when the store is closed
			cancel()
			if ctx.Err() == nil {
				d.Log.Warn("the lock of the provider was lost: nothing is done there until it is taken again", "provider", name)
			}
		case <-released:
		}
		d.leave(name, lock)
	}()
	return served, sync.OnceFunc(func() { cancel(); close(released) })
}

// leave ends what is done in a provider, and then gives its lock back.
func (d *Daemon) leave(name string, lock state.Lock) {
	d.parking.turn.Lock() // nothing is being begun
	d.tenures.mu.Lock()
	delete(d.tenures.locks, name)
	d.tenures.mu.Unlock()
	ended := d.runner.Abandon(name)
	d.parking.turn.Unlock()
	d.mu.Lock()
	delete(d.views, name)
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done(): // its writes are refused all the same: it has no claims
	}
	if err := lock.Unlock(ctx); err != nil {
		d.Log.Warn("the lock of the provider could not be given back; it ends with the session", "provider", name, "error", err)
	}
	d.nudge()
}
