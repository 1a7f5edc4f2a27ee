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

// Where several processes work in one store, each task is one process's at a time: the one that has its lock. Tasks are the
// nodes of one provider, and all images. The others stand by, and one of them takes over when the lock is free, which is
// when its holder stops or loses its session. Nothing that was decided under a lock is done once it is lost.

const (
	standbyEvery  = 250 * time.Millisecond // between two tries to take a lock
	unlockTimeout = 10 * time.Second
)

// Task is a part of what there is to do.
type Task string

// The tasks of a daemon.
const (
	TaskNodes  Task = "nodes"  // nodes and requests, of the providers that it serves
	TaskImages Task = "images" // builds and uploads
)

// tenures are the locks of tasks.
type tenures struct {
	mu     sync.Mutex              // guards what follows
	locks  map[string]state.Lock   // that this process has, by name
	others map[string]state.Holder // of those that it waits for
}

func newTenures() tenures {
	return tenures{locks: map[string]state.Lock{}, others: map[string]state.Holder{}}
}

// does reports whether the daemon was told to do a task. Where the store is shared, one that was told to serve some
// providers only leaves images to the others, unless it was told otherwise too.
func (d *Daemon) does(task Task) bool {
	if len(d.Tasks) > 0 {
		return slices.Contains(d.Tasks, task)
	}
	return task == TaskNodes || len(d.Providers) == 0 || d.runner.Shared() == nil
}

// tenured reports whether this process is the one that takes care of the provider's nodes.
func (d *Daemon) tenured(provider string) bool {
	return d.does(TaskNodes) && d.serves(provider) && d.holds(reconcile.ProviderLock(provider))
}

// served are the providers that this process takes care of, where others work in the same store.
func (d *Daemon) served() map[string]bool {
	if d.runner.Shared() == nil || d.Shadow {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	served := map[string]bool{}
	for name := range d.lookers {
		if d.tenured(name) {
			served[name] = true
		}
	}
	return served
}

// imagesTenured is tenured for images.
func (d *Daemon) imagesTenured() bool { return d.does(TaskImages) && d.holds(reconcile.ImagesLock) }

// holds reports whether this process has the lock. Where nobody else works in the store it needs none, and a shadow acts as if
// it had them all.
func (d *Daemon) holds(name string) bool {
	if d.runner.Shared() == nil || d.Shadow {
		return true
	}
	d.tenures.mu.Lock()
	defer d.tenures.mu.Unlock()
	lock := d.tenures.locks[name]
	return lock != nil && !over(lock.Lost())
}

// over reports whether a channel was closed that nothing is ever sent to.
func over(closed <-chan struct{}) bool {
	select {
	case <-closed:
		return true
	default:
		return false
	}
}

// needed reports whether anything in the provider is to be taken care of by this process now.
func (d *Daemon) needed(provider string) bool {
	return d.tenured(provider) || d.serves(provider) && d.imagesTenured()
}

// undecided reports whether it is still to be found out whether a lock can be had.
func (d *Daemon) undecided(name string) bool {
	if d.holds(name) {
		return false
	}
	d.tenures.mu.Lock()
	defer d.tenures.mu.Unlock()
	_, standsBy := d.tenures.others[name]
	return !standsBy
}

// StandsBy says who takes care of a provider's nodes instead of this process, which takes over when that one ends.
func (d *Daemon) StandsBy(provider string) (other state.Holder, standsBy bool) {
	name := reconcile.ProviderLock(provider)
	if d.holds(name) {
		return state.Holder{}, false
	}
	d.tenures.mu.Lock()
	defer d.tenures.mu.Unlock()
	other, standsBy = d.tenures.others[name]
	return other, standsBy
}

// mayDo reports whether a step is of a task that is this process's.
func (d *Daemon) mayDo(s *plan.Step) bool {
	switch reconcile.LockOf(s) {
	case reconcile.ImagesLock:
		return d.imagesTenured()
	case "":
		return d.does(TaskNodes)
	default:
		return d.tenured(s.Provider)
	}
}

// keepProvider has the lock of a provider whenever it can be had, until the provider is gone.
func (d *Daemon) keepProvider(ctx context.Context, provider string, gone <-chan struct{}) {
	if d.runner.Shared() == nil || !d.does(TaskNodes) || d.Shadow {
		return
	}
	d.keep(ctx, reconcile.ProviderLock(provider), func() { d.nudges.nudge(provider) }, gone)
}

// keepImages has the lock of images whenever it can be had.
func (d *Daemon) keepImages(ctx context.Context) {
	if d.runner.Shared() == nil || !d.does(TaskImages) || d.Shadow {
		return
	}
	d.keep(ctx, reconcile.ImagesLock, d.nudgeAll, nil)
}

// keep takes a lock again and again. changed is called when it was taken or lost; the steps that are under it end when it
// is lost. When the process ends, the lock goes with its session, after everything that is done under it. Once needless is
// closed it is given back.
func (d *Daemon) keep(ctx context.Context, name string, changed func(), needless <-chan struct{}) {
	for {
		lock, err := d.runner.Shared().Lock(ctx, name, state.Holder{Operation: "watch"})
		if err != nil {
			d.standBy(name, err)
			if !sleep(ctx, standbyEvery) || over(needless) {
				return
			}
			continue
		}
		d.tenures.mu.Lock()
		d.tenures.locks[name] = lock
		delete(d.tenures.others, name)
		d.tenures.mu.Unlock()
		d.Log.Info("taken over", "lock", name)
		changed()
		d.nudge()
		if !hold(ctx, lock, needless) {
			go func() { // steps go on for a while after ctx has ended
				<-lock.Lost()
				d.leave(name, lock)
			}()
			return
		}
		if over(lock.Lost()) {
			d.Log.Warn("a lock was lost: nothing is done under it until it is taken again", "lock", name)
		}
		d.leave(name, lock)
		changed()
		if over(needless) {
			return
		}
	}
}

// hold waits until the lock is lost or needless, and reports whether ctx still lives then.
func hold(ctx context.Context, lock state.Lock, needless <-chan struct{}) bool {
	select {
	case <-lock.Lost():
		return true
	case <-needless:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *Daemon) standBy(name string, err error) {
	other, locked := errors.AsType[*state.LockedError](err)
	if !locked {
		d.Log.Warn("a lock could not be taken", "lock", name, "error", err)
		return
	}
	d.tenures.mu.Lock()
	before := d.tenures.others[name]
	d.tenures.others[name] = other.Holder
	d.tenures.mu.Unlock()
	if before.ID != other.Holder.ID {
		d.Log.Info("standing by", "lock", name, "holder", other.Holder.Who, "since", other.Holder.Since)
		d.nudge()
	}
}

// leave ends what is done under a lock, and then gives it back: while one is lost that was not given back, nothing can be
// written.
func (d *Daemon) leave(name string, lock state.Lock) {
	d.parking.turn.Lock() // nothing is being begun
	d.tenures.mu.Lock()
	delete(d.tenures.locks, name)
	d.tenures.mu.Unlock()
	ended := d.runner.Abandon(func(s *plan.Step) bool { return reconcile.LockOf(s) == name })
	d.parking.turn.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done(): // what it has claimed is lost with the lock, so that its writes are refused all the same
	}
	if err := lock.Unlock(ctx); err != nil {
		d.Log.Warn("a lock could not be given back; it ends with the session", "lock", name, "error", err)
	}
	d.nudge()
}
