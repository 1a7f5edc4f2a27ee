package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/npctl/npctl/state"
)

// A command that runs steps through the daemon, such as npctl apply, needs the same locks as the daemon's own steps:
// those of providers and images. It borrows the locks that the daemon has and acquires the others from the store.

const (
	delegateTimeout = 2 * time.Second       // how long to wait for a lock that this process is acquiring or releasing
	lendPoll        = 50 * time.Millisecond // between two attempts
)

// delegatedLock is a lock of the daemon that a client uses.
type delegatedLock struct {
	state.Lock
	leadership *leadership
	name       string
	ended      chan struct{} // closed by Unlock
	end        sync.Once
}

var _ state.Lock = (*delegatedLock)(nil)

// Unlock returns the lock to the daemon, which keeps it.
func (l *delegatedLock) Unlock(context.Context) error {
	l.end.Do(func() {
		l.leadership.mu.Lock()
		defer l.leadership.mu.Unlock()
		delete(l.leadership.delegated, l.name)
		close(l.ended)
	})
	return nil
}

// returned returns a channel that is closed when no client uses the lock.
func (l *delegatedLock) returned() <-chan struct{} {
	if l == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return l.ended
}

// delegate lends a lock of this process to a client. It returns nil when this process does not have the lock or has
// already lent it.
func (l *leadership) delegate(name string) state.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.locks[name]
	if lock == nil || isClosed(lock.Lost()) || l.delegated[name] != nil {
		return nil
	}
	lent := &delegatedLock{Lock: lock, leadership: l, name: name, ended: make(chan struct{})}
	l.delegated[name] = lent
	return lent
}

// DelegateLock acquires the lock of a provider or an image for a client while the daemon is suspended. It returns a
// *state.LockedError when another process has the lock. The lock belongs to the client until Unlock, even if it is
// lost: the daemon does nothing under it before. Without a shared store no locks exist, and DelegateLock returns nil.
func (d *Daemon) DelegateLock(ctx context.Context, name string, holder state.Holder) (state.Lock, error) {
	store := d.leadership.store
	if store == nil {
		return nil, nil
	}
	for until := time.Now().Add(delegateTimeout); ; {
		if lock := d.leadership.delegate(name); lock != nil {
			return lock, nil
		}
		lock, err := store.Lock(ctx, name, holder)
		if err == nil || !errors.Is(err, state.ErrLocked) || time.Now().After(until) || !sleep(ctx, lendPoll) {
			return lock, err
		}
	}
}
