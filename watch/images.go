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

// In a shared store each image has a lock. A process acquires it when its plan has steps for the image; for a build it
// does so only when it has capacity, so that idle processes take the remaining builds. Steps start in a later pass,
// which plans them again under the lock and so takes the changes of the previous holder into account. The process
// releases the lock when nothing is planned for the image and no step for it runs.

const (
	imagesEvery = 250 * time.Millisecond // between two attempts to acquire or release image locks
	imagesIdle  = time.Second            // the same while no lock is wanted or held
)

// imageLocks acquires the image locks that this process wants and releases those that it no longer needs.
type imageLocks struct {
	leadership *leadership
	running    func() []plan.Step
	workOf     func(plan.Step) (kind string, size int) // see reconcile.Engine.WorkOf

	mu         sync.Mutex           // guards the fields below
	pass       int                  // number of the newest pass, which may still run
	wanted     []plan.Step          // image steps of the newest pass
	configured bool                 // the configuration of the newest pass has images
	held       map[string]imageLock // by lock name
}

type imageLock struct {
	since    int           // number of the newest pass when the lock was acquired
	unneeded chan struct{} // closed to release the lock
}

func (l *imageLocks) startPass(configured bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass++
	l.configured = configured
}

func (l *imageLocks) hasConfigured() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.configured
}

// setWanted stores the image steps of the newest plan.
func (l *imageLocks) setWanted(steps []plan.Step) {
	var wanted []plan.Step
	for i := range steps {
		if name := reconcile.LockOf(&steps[i]); name != reconcile.ImagesLock && reconcile.IsImageLock(name) {
			wanted = append(wanted, steps[i])
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = wanted
}

// pause returns the time until the next attempt.
func (l *imageLocks) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wanted) == 0 && len(l.held) == 0 {
		return imagesIdle
	}
	return imagesEvery
}

// wants returns the image steps of the newest plan.
func (l *imageLocks) wants() []plan.Step {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.wanted)
}

// plannedUnder reports whether the current pass began after the image lock was acquired. It is true for other locks.
func (l *imageLocks) plannedUnder(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock, held := l.held[name]
	return !held || lock.since < l.pass
}

func (l *imageLocks) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, held := l.held[name]
	return held
}

// acquired records an acquired lock. When needless is closed, the caller releases the lock and then calls released.
func (l *imageLocks) acquired(name string) (needless <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock := imageLock{since: l.pass, unneeded: make(chan struct{})}
	l.held[name] = lock
	return lock.unneeded
}

func (l *imageLocks) released(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
}

// releaseUnneeded releases the locks for which no step runs and a complete pass has planned none.
func (l *imageLocks) releaseUnneeded(running []plan.Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := map[string]bool{}
	for _, steps := range [][]plan.Step{running, l.wanted} {
		for i := range steps {
			busy[reconcile.LockOf(&steps[i])] = true
		}
	}
	for name, lock := range l.held {
		if !busy[name] && l.pass > lock.since+1 && !isClosed(lock.unneeded) {
			close(lock.unneeded)
		}
	}
}

// hasCapacity reports whether this process should acquire the lock of an image: it has capacity for the wanted build, or an
// upload or conversion of the image can start. An image uses capacity when this process has its lock and a build of it
// runs or is wanted.
func hasCapacity(running, wanted []plan.Step, name string, has func(lock string) bool, workOf func(plan.Step) (kind string, size int)) bool {
	building := map[string]map[string]bool{} // kind of work to lock names
	for _, s := range slices.Concat(running, wanted) {
		lock := reconcile.LockOf(&s)
		if s.Action != plan.ActionBuild || !has(lock) {
			continue
		}
		kind, _ := workOf(s)
		if building[kind] == nil {
			building[kind] = map[string]bool{}
		}
		building[kind][lock] = true
	}
	free := true
	for _, s := range wanted {
		if reconcile.LockOf(&s) != name || len(s.Needs) > 0 {
			continue
		}
		switch s.Action {
		case plan.ActionUpload, plan.ActionConvert:
			return true
		case plan.ActionBuild:
			kind, size := workOf(s)
			free = free && len(building[kind]) < size
		}
	}
	return free
}

// maintain holds locks of images while the plan has steps for them, until ctx is done.
func (l *imageLocks) maintain(ctx context.Context) {
	var keepers sync.WaitGroup
	defer keepers.Wait()
	for sleep(ctx, l.pause()) {
		l.releaseUnneeded(l.running())
		l.acquire(ctx, &keepers)
	}
}

// acquire attempts once to acquire each image lock that is wanted and not held.
func (l *imageLocks) acquire(ctx context.Context, keepers *sync.WaitGroup) {
	wanted, tried := l.wants(), map[string]bool{}
	for i := range wanted {
		name := reconcile.LockOf(&wanted[i])
		if tried[name] || l.has(name) || !hasCapacity(l.running(), wanted, name, l.has, l.workOf) {
			continue
		}
		tried[name] = true
		lock, err := l.leadership.store.Lock(ctx, name, state.Holder{Operation: "watch"})
		if err != nil {
			if !errors.Is(err, state.ErrLocked) && ctx.Err() == nil {
				l.leadership.log.Warn("a lock could not be acquired", "lock", name, "error", err)
			}
			continue
		}
		needless := l.acquired(name)
		l.leadership.log.Debug("lock acquired", "lock", name)
		keepers.Go(func() {
			l.leadership.leadUntilLost(ctx, name, lock, func() {}, needless)
			l.released(name)
		})
	}
}
