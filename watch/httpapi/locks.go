package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// stateLock is the lock of the process that executes steps. The daemon holds it and lends it to clients.
const stateLock = "state"

// ownLock is the ID under which the daemon reports its own lock. It cannot be force-released.
const ownLock = "npctl-watch"

// suspendTimeout is how long the daemon waits for its own steps to end before it refuses to suspend.
const suspendTimeout = 30 * time.Second

// unlockTime limits the release of a lock of the store.
const unlockTime = 10 * time.Second

// locks holds the locks of clients. They are in memory only, because they end with the daemon.
type locks struct {
	daemon  *watch.Daemon
	version string // of npctl
	since   time.Time

	fence sync.RWMutex // read-locked while a client writes under a lock, locked while forceRelease removes one

	mu   sync.Mutex // guards held
	held map[string]*heldLock
}

// heldLock is a lock that a client holds.
type heldLock struct {
	wire.Lock
	lost    chan struct{} // closed by forceRelease
	ended   chan struct{} // closed when the lock ends for any reason
	release func()
}

func newLocks(daemon *watch.Daemon, version string) *locks {
	return &locks{daemon: daemon, version: version, since: time.Now().UTC().Truncate(time.Second), held: map[string]*heldLock{}}
}

// acquire gives a lock to a client. For the lock of the state it first suspends the daemon. In a shared store, the
// locks of providers and images are locks of the store.
func (l *locks) acquire(ctx context.Context, name string, holder state.Holder) (*heldLock, error) {
	if name == "" || len(name) > idLength {
		return nil, invalid("", "the name of a lock must have 1 to %d bytes", idLength)
	}
	if holder.ID == "" {
		holder.ID = uuid.NewString()
	}
	one := &heldLock{Lock: wire.Lock{Name: name, Holder: holder}, lost: make(chan struct{}), ended: make(chan struct{}), release: func() {}}
	l.mu.Lock()
	other := l.held[name]
	if other == nil {
		l.held[name] = one
	}
	l.mu.Unlock()
	if other != nil {
		return nil, &state.LockedError{Name: name, Holder: other.Holder}
	}
	get := l.delegate
	if name == stateLock {
		get = l.suspend
	}
	release, err := get(ctx, one)
	if err != nil {
		l.release(one)
		return nil, err
	}
	l.mu.Lock()
	stolen := l.held[name] != one
	one.release = release
	l.mu.Unlock()
	if stolen {
		release()
		return nil, state.ErrLost
	}
	return one, nil
}

// suspend makes the daemon start no steps until release is called.
func (l *locks) suspend(ctx context.Context, _ *heldLock) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, suspendTimeout)
	defer cancel()
	if release, err = l.daemon.Suspend(ctx); err != nil {
		return nil, l.busy(err)
	}
	return release, nil
}

// delegate acquires a lock of a shared store for a client. When the store loses the lock, the client loses it too.
func (l *locks) delegate(ctx context.Context, one *heldLock) (release func(), err error) {
	lock, err := l.daemon.DelegateLock(ctx, one.Name, one.Holder)
	if err != nil || lock == nil {
		return func() {}, err
	}
	go func() {
		select {
		case <-lock.Lost():
			_, _ = l.forceRelease(one.Holder.ID) // not found if the client has released it
		case <-one.ended:
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), unlockTime)
		defer cancel()
		if err := lock.Unlock(ctx); err != nil {
			l.daemon.Log.Warn("a lock could not be released; it ends with the session", "lock", one.Name, "error", err)
		}
	}, nil
}

// busy converts a watch.BusyError into a LockedError that names the daemon and its running steps.
func (l *locks) busy(err error) error {
	var working *watch.BusyError
	if !errors.As(err, &working) {
		return err
	}
	own := l.daemonHolder()
	own.Operation += " (" + working.Error() + ")"
	return &state.LockedError{Name: stateLock, Holder: own}
}

// daemonHolder returns the daemon as the holder of the state lock.
func (l *locks) daemonHolder() state.Holder {
	return state.Holder{ID: ownLock, Operation: "watch", Since: l.since}.WithDefaults(state.Self(state.HostName(), l.version))
}

// release ends a lock if it is still held.
func (l *locks) release(one *heldLock) {
	l.mu.Lock()
	was := l.held[one.Name] == one
	if was {
		delete(l.held, one.Name)
	}
	release := one.release
	l.mu.Unlock()
	if was {
		close(one.ended)
		release()
	}
}

// find returns the lock with the given ID, or nil.
func (l *locks) find(id string) *heldLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.held {
		if one.Holder.ID == id {
			return one
		}
	}
	return nil
}

// forceRelease takes the lock with the given ID from its holder. After it returns, no write under the lock can start or
// still be running.
func (l *locks) forceRelease(id string) (state.Holder, error) {
	if id == ownLock {
		return state.Holder{}, failure(http.StatusConflict, wire.CodeInvalidState, "stop it instead; while it runs, npctl apply borrows the lock from it",
			"npctl watch is running and holds the lock")
	}
	l.fence.Lock()
	defer l.fence.Unlock()
	one := l.find(id)
	if one == nil {
		return state.Holder{}, fmt.Errorf("unlock %s: no lock has this ID: %w", text.Quote(id), state.ErrNotFound)
	}
	close(one.lost)
	l.release(one)
	return one.Holder, nil
}

// whileHeld calls do while the client holds all the given locks. It returns ErrLost if one of them is gone.
func (l *locks) whileHeld(ids []string, do func() error) error {
	l.fence.RLock()
	defer l.fence.RUnlock()
	for _, id := range ids {
		if l.find(id) == nil {
			return state.ErrLost
		}
	}
	return do()
}

// list returns the locks and their holders. The daemon is the holder of the state lock unless a client has it.
func (l *locks) list() []wire.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []wire.Lock{}
	for _, one := range l.held {
		list = append(list, one.Lock)
	}
	if l.held[stateLock] == nil {
		list = append(list, wire.Lock{Name: stateLock, Holder: l.daemonHolder()})
	}
	slices.SortFunc(list, func(a, b wire.Lock) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// suspender returns the client for which the daemon is suspended, or nil if the daemon is not suspended.
func (l *locks) suspender() *state.Holder {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.held[stateLock]; one != nil {
		return &one.Holder
	}
	return nil
}
