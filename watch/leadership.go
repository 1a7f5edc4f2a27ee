package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/state"
)

// In a shared store each task belongs to one process at a time: the process that has the lock of the task. The tasks
// are the nodes of one provider, the work for one image, and leaked images. The other processes are standbys, and one
// of them takes over when the lock becomes free because its holder stops or loses its session. Nothing that was decided
// under a lock is done after the lock is lost. See images.go for the locks of images, which a process has only while it
// works on them.

const (
	standbyEvery  = 250 * time.Millisecond // between two attempts to acquire a lock
	unlockTimeout = 10 * time.Second
)

// leadership acquires and releases the locks of tasks.
type leadership struct {
	store   state.Shared // nil: the process needs no locks
	log     *slog.Logger
	gate    *suspension
	abandon func(of func(*plan.Step) bool) (ended <-chan struct{}) // ends running steps
	changed func()                                                 // called after a lock was acquired, lost or released

	mu        sync.Mutex                // guards the fields below
	locks     map[string]state.Lock     // locks of this process, by name
	others    map[string]state.Holder   // holders of the locks that this process waits for, by name
	delegated map[string]*delegatedLock // locks that a client of this process uses, by name
}

func newLeadership(store state.Shared, log *slog.Logger, gate *suspension, abandon func(of func(*plan.Step) bool) <-chan struct{}, changed func()) *leadership {
	return &leadership{store: store, log: log, gate: gate, abandon: abandon, changed: changed,
		locks: map[string]state.Lock{}, others: map[string]state.Holder{}, delegated: map[string]*delegatedLock{}}
}

// holds reports whether this process has the lock. It is true for all locks when the process needs none.
func (l *leadership) holds(name string) bool {
	if l.store == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := l.locks[name]
	return lock != nil && !isClosed(lock.Lost())
}

// isUndecided reports whether this process does not know yet whether it can acquire a lock.
func (l *leadership) isUndecided(name string) bool {
	_, standsBy := l.leader(name)
	return !standsBy && !l.holds(name)
}

// leader returns the holder of a lock while this process is a standby for it.
func (l *leadership) leader(name string) (other state.Holder, standsBy bool) {
	if l.holds(name) {
		return state.Holder{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	other, standsBy = l.others[name]
	return other, standsBy
}

// isClosed reports whether a channel on which nothing is sent is closed.
func isClosed(closed <-chan struct{}) bool {
	select {
	case <-closed:
		return true
	default:
		return false
	}
}

// maintain acquires a lock, and acquires it again after each loss. It calls changed when the lock is acquired or lost;
// the steps under the lock end when it is lost. When the process ends, the lock ends with its session, after everything
// that runs under it. When needless is closed, maintain releases the lock and returns. It returns at once when the
// process needs no locks.
func (l *leadership) maintain(ctx context.Context, name string, changed func(), needless <-chan struct{}) {
	if l.store == nil {
		return
	}
	for {
		lock, err := l.store.Lock(ctx, name, state.Holder{Operation: "watch"})
		if err != nil {
			l.becomeStandby(name, err)
			if !sleep(ctx, standbyEvery) || isClosed(needless) {
				return
			}
			continue
		}
		l.log.Info("lock acquired", "lock", name)
		if !l.leadUntilLost(ctx, name, lock, changed, needless) || isClosed(needless) {
			return
		}
	}
}

// leadUntilLost lets the daemon work under a lock until the lock is lost or needless is closed, and then releases it.
// It reports whether ctx is still active.
func (l *leadership) leadUntilLost(ctx context.Context, name string, lock state.Lock, changed func(), needless <-chan struct{}) bool {
	l.mu.Lock()
	l.locks[name] = lock
	delete(l.others, name)
	l.mu.Unlock()
	changed()
	l.changed()
	if !waitLost(ctx, lock, needless) {
		go func() { // steps continue for a while after ctx is done
			<-lock.Lost()
			l.resign(name, lock)
		}()
		return false
	}
	if isClosed(lock.Lost()) {
		l.log.Warn("lock lost; its work stops until the lock is acquired again", "lock", name)
	}
	l.resign(name, lock)
	changed()
	return true
}

// waitLost waits until the lock is lost or needless is closed, and returns true, or until ctx is done, and returns
// false.
func waitLost(ctx context.Context, lock state.Lock, needless <-chan struct{}) bool {
	select {
	case <-lock.Lost():
		return true
	case <-needless:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *leadership) becomeStandby(name string, err error) {
	other, locked := errors.AsType[*state.LockedError](err)
	if !locked {
		l.log.Warn("a lock could not be acquired", "lock", name, "error", err)
		return
	}
	l.mu.Lock()
	before := l.others[name]
	l.others[name] = other.Holder
	l.mu.Unlock()
	if before.ID != other.Holder.ID {
		l.log.Info("standing by", "lock", name, "holder", other.Holder.UserHost, "since", other.Holder.Since)
		l.changed()
	}
}

// resign ends the steps under a lock and then releases it. A lost lock must be released too: until then the store
// refuses every write.
func (l *leadership) resign(name string, lock state.Lock) {
	var returned, ended <-chan struct{}
	l.gate.whileNoneStarts(func() {
		l.mu.Lock()
		delete(l.locks, name)
		returned = l.delegated[name].returned()
		l.mu.Unlock()
		ended = l.abandon(func(s *plan.Step) bool { return reconcile.LockOf(s) == name })
	})
	select {
	case <-returned:
	case <-lock.Lost(): // then the work of its client ends, like the steps
	}
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	for _, end := range []<-chan struct{}{ended, returned} {
		select {
		case <-end:
		case <-ctx.Done(): // its claims are lost with the lock, so the store refuses its writes anyway
		}
	}
	if err := lock.Unlock(ctx); err != nil {
		l.log.Warn("a lock could not be released; it ends with the session", "lock", name, "error", err)
	}
	l.changed()
}
