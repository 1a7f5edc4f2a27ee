package watch

import (
	"context"
	"errors"
	"log/slog"
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
// under a lock is done after the lock is lost. Other programs do not know the locks: while one of them has registered a
// pool of a provider, no process of npctl has the lock of that provider. See imageLocks for the locks of images, which a
// process has only while it works on them.

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
		lock, err := l.lock(ctx, name)
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

// lock acquires a lock unless another program serves its provider.
func (l *leadership) lock(ctx context.Context, name string) (state.Lock, error) {
	if other, found := occupant(l.store.RegisteredPools(), name); found {
		return nil, &state.LockedError{Name: name, Holder: other}
	}
	return l.store.Lock(ctx, name, state.Holder{Operation: "watch"})
}

// leadUntilLost lets the daemon work under a lock until the lock is lost, another program serves its provider, or needless
// is closed, and then releases it. It reports whether ctx is still active.
func (l *leadership) leadUntilLost(ctx context.Context, name string, lock state.Lock, changed func(), needless <-chan struct{}) bool {
	l.mu.Lock()
	l.locks[name] = lock
	delete(l.others, name)
	l.mu.Unlock()
	changed()
	l.changed()
	if !l.waitLost(ctx, name, lock, needless) {
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

// waitLost waits until the lock is lost, another program serves its provider, or needless is closed, and returns true, or
// until ctx is done, and returns false.
func (l *leadership) waitLost(ctx context.Context, name string, lock state.Lock, needless <-chan struct{}) bool {
	for {
		select {
		case <-lock.Lost():
			return true
		case <-needless:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(standbyEvery):
			if _, found := occupant(l.store.RegisteredPools(), name); found {
				return true
			}
		}
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
		facts := []any{"lock", name, "holder", other.Holder.UserHost}
		if !other.Holder.Since.IsZero() { // another program does not register the time
			facts = append(facts, "since", other.Holder.Since)
		}
		l.log.Info("standing by", facts...)
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
		if name := reconcile.LockOf(&steps[i]); name != state.ImagesLock && state.IsImageLock(name) {
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
		if s.Kind != plan.KindBuild || !has(lock) {
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
