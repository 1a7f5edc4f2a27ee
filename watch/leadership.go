package watch

import (
	"context"
	"errors"
	"slices"
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

// Task is a part of the work of a daemon.
type Task string

// The tasks of a daemon.
const (
	TaskNodes  Task = "nodes"  // nodes and requests of the providers that the daemon serves
	TaskImages Task = "images" // builds and uploads
)

// leadership holds the locks of tasks.
type leadership struct {
	mu        sync.Mutex                // guards the fields below
	locks     map[string]state.Lock     // locks of this process, by name
	others    map[string]state.Holder   // holders of the locks that this process waits for, by name
	delegated map[string]*delegatedLock // locks that a client of this process uses, by name
}

func newTenures() leadership {
	return leadership{locks: map[string]state.Lock{}, others: map[string]state.Holder{}, delegated: map[string]*delegatedLock{}}
}

// hasTask reports whether the daemon performs a task. Without Options.Tasks it performs all of them, but in a shared
// store a daemon with Options.Providers leaves images to other processes.
func (d *Daemon) hasTask(task Task) bool {
	if len(d.Tasks) > 0 {
		return slices.Contains(d.Tasks, task)
	}
	return task == TaskNodes || len(d.Providers) == 0 || d.runner.Shared() == nil
}

// leads reports whether this process manages the nodes of the provider.
func (d *Daemon) leads(provider string) bool {
	return d.hasTask(TaskNodes) && d.isAssigned(provider) && d.holdsLock(reconcile.ProviderLock(provider))
}

// served returns the providers that this process leads in a shared store, and nil without one or in a shadow.
func (d *Daemon) served() map[string]bool {
	if d.runner.Shared() == nil || d.Shadow {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	served := map[string]bool{}
	for name := range d.pollers {
		if d.leads(name) {
			served[name] = true
		}
	}
	return served
}

// holdsLock reports whether this process has the lock. Without a shared store it needs none, and a shadow acts as if it
// had all locks.
func (d *Daemon) holdsLock(name string) bool {
	if d.runner.Shared() == nil || d.Shadow {
		return true
	}
	d.leadership.mu.Lock()
	defer d.leadership.mu.Unlock()
	lock := d.leadership.locks[name]
	return lock != nil && !isClosed(lock.Lost())
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

// needsListing reports whether this process manages nodes or images of the provider now.
func (d *Daemon) needsListing(provider string) bool {
	return d.leads(provider) || d.isAssigned(provider) && d.isBuilder()
}

// leaderUnknown reports whether this process does not know yet whether it can acquire a lock.
func (d *Daemon) leaderUnknown(name string) bool {
	if d.holdsLock(name) {
		return false
	}
	d.leadership.mu.Lock()
	defer d.leadership.mu.Unlock()
	_, standsBy := d.leadership.others[name]
	return !standsBy
}

// Leader returns the process that manages a provider's nodes while this process is a standby for the provider.
func (d *Daemon) Leader(provider string) (other state.Holder, standsBy bool) {
	name := reconcile.ProviderLock(provider)
	if d.holdsLock(name) {
		return state.Holder{}, false
	}
	d.leadership.mu.Lock()
	defer d.leadership.mu.Unlock()
	other, standsBy = d.leadership.others[name]
	return other, standsBy
}

// mayRun reports whether a step belongs to a task of this process.
func (d *Daemon) mayRun(s *plan.Step) bool {
	switch name := reconcile.LockOf(s); name {
	case "":
		return d.hasTask(TaskNodes) || s.Type == "file" // in the images directory, which belongs to this process only
	case reconcile.ProviderLock(s.Provider):
		return d.leads(s.Provider)
	default:
		return d.hasTask(TaskImages) && d.holdsLock(name) && d.images.plannedUnder(name)
	}
}

// maintainProviderLock holds the lock of a provider whenever it is available, until the provider is gone.
func (d *Daemon) maintainProviderLock(ctx context.Context, provider string, gone <-chan struct{}) {
	if d.runner.Shared() == nil || !d.hasTask(TaskNodes) || d.Shadow {
		return
	}
	d.maintainLock(ctx, reconcile.ProviderLock(provider), func() { d.triggers.trigger(provider) }, gone)
}

// maintainLock acquires a lock, and acquires it again after each loss. It calls changed when the lock is acquired or
// lost; the steps under the lock end when it is lost. When the process ends, the lock ends with its session, after
// everything that runs under it. When needless is closed, maintainLock releases the lock and returns.
func (d *Daemon) maintainLock(ctx context.Context, name string, changed func(), needless <-chan struct{}) {
	for {
		lock, err := d.runner.Shared().Lock(ctx, name, state.Holder{Operation: "watch"})
		if err != nil {
			d.becomeStandby(name, err)
			if !sleep(ctx, standbyEvery) || isClosed(needless) {
				return
			}
			continue
		}
		d.Log.Info("lock acquired", "lock", name)
		if !d.leadUntilLost(ctx, name, lock, changed, needless) || isClosed(needless) {
			return
		}
	}
}

// leadUntilLost lets the daemon work under a lock until the lock is lost or needless is closed, and then releases it.
// It reports whether ctx is still active.
func (d *Daemon) leadUntilLost(ctx context.Context, name string, lock state.Lock, changed func(), needless <-chan struct{}) bool {
	d.leadership.mu.Lock()
	d.leadership.locks[name] = lock
	delete(d.leadership.others, name)
	d.leadership.mu.Unlock()
	changed()
	d.triggerPass()
	if !waitLost(ctx, lock, needless) {
		go func() { // steps continue for a while after ctx is done
			<-lock.Lost()
			d.resign(name, lock)
		}()
		return false
	}
	if isClosed(lock.Lost()) {
		d.Log.Warn("lock lost; its work stops until the lock is acquired again", "lock", name)
	}
	d.resign(name, lock)
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

func (d *Daemon) becomeStandby(name string, err error) {
	other, locked := errors.AsType[*state.LockedError](err)
	if !locked {
		d.Log.Warn("a lock could not be acquired", "lock", name, "error", err)
		return
	}
	d.leadership.mu.Lock()
	before := d.leadership.others[name]
	d.leadership.others[name] = other.Holder
	d.leadership.mu.Unlock()
	if before.ID != other.Holder.ID {
		d.Log.Info("standing by", "lock", name, "holder", other.Holder.UserHost, "since", other.Holder.Since)
		d.triggerPass()
	}
}

// resign ends the steps under a lock and then releases it. A lost lock must be released too: until then the store
// refuses every write.
func (d *Daemon) resign(name string, lock state.Lock) {
	d.suspension.startMu.Lock() // no step starts now
	d.leadership.mu.Lock()
	delete(d.leadership.locks, name)
	returned := d.leadership.delegated[name].returned()
	d.leadership.mu.Unlock()
	ended := d.runner.Abandon(func(s *plan.Step) bool { return reconcile.LockOf(s) == name })
	d.suspension.startMu.Unlock()
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
		d.Log.Warn("a lock could not be released; it ends with the session", "lock", name, "error", err)
	}
	d.triggerPass()
}
