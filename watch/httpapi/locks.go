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

	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// stateLock is the lock of whoever does steps. The daemon has it, and lends it.
const stateLock = "state"

// ownLock is the id that the daemon's own lock is told under; nobody can take it away.
const ownLock = "npctl-watch"

// parkTime is how long the daemon waits for its own steps to end before it says no.
const parkTime = 30 * time.Second

// locks are the locks that clients hold. They live no longer than the daemon, which is what they are about.
type locks struct {
	daemon  *watch.Daemon
	version string // of npctl
	since   time.Time

	fence sync.RWMutex // read-held while something is written under a lock, held while one is taken away

	mu   sync.Mutex // guards held
	held map[string]*held
}

// held is a lock that a client has.
type held struct {
	wire.Lock
	lost    chan struct{} // closed when it was taken away
	ended   chan struct{} // closed when it is held no more
	release func()
}

func newLocks(daemon *watch.Daemon, version string) *locks {
	return &locks{daemon: daemon, version: version, since: time.Now().UTC().Truncate(time.Second), held: map[string]*held{}}
}

// take gives a lock to a client. For the lock of the state the daemon is parked first.
func (l *locks) take(ctx context.Context, name string, holder state.Holder) (*held, error) {
	if name == "" || len(name) > idLength {
		return nil, invalid("a lock needs a name of 1 to %d bytes", idLength)
	}
	if holder.ID == "" {
		holder.ID = uuid.NewString()
	}
	one := &held{Lock: wire.Lock{Name: name, Holder: holder}, lost: make(chan struct{}), ended: make(chan struct{}), release: func() {}}
	l.mu.Lock()
	other := l.held[name]
	if other == nil {
		l.held[name] = one
	}
	l.mu.Unlock()
	if other != nil {
		return nil, &state.LockedError{Name: name, Holder: other.Holder}
	}
	if name != stateLock {
		return one, nil
	}
	limit, cancel := context.WithTimeout(ctx, parkTime)
	defer cancel()
	release, err := l.daemon.Park(limit)
	if err != nil {
		l.drop(one)
		return nil, l.busy(err)
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

// busy says that the daemon itself has the lock, and what it does.
func (l *locks) busy(err error) error {
	var working *watch.BusyError
	if !errors.As(err, &working) {
		return err
	}
	own := l.own()
	own.Operation += " (" + working.Error() + ")"
	return &state.LockedError{Name: stateLock, Holder: own}
}

// own is the daemon as the holder of the state.
func (l *locks) own() state.Holder {
	return state.Holder{ID: ownLock, Operation: "watch", Since: l.since}.Or(state.Self(host(), l.version))
}

// drop ends a lock, if it is held still.
func (l *locks) drop(one *held) {
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

// find returns the lock with that id.
func (l *locks) find(id string) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.held {
		if one.Holder.ID == id {
			return one
		}
	}
	return nil
}

// steal takes the lock with that id away from whoever has it. Nothing is written under it any more when it returns.
func (l *locks) steal(id string) (state.Holder, error) {
	if id == ownLock {
		return state.Holder{}, hinted(&failure{status: http.StatusConflict, code: wire.CodeState, detail: "npctl watch is alive and holds the state"},
			"stop it instead; while it runs, npctl apply gets the lock from it")
	}
	l.fence.Lock()
	defer l.fence.Unlock()
	one := l.find(id)
	if one == nil {
		return state.Holder{}, fmt.Errorf("unlock %s: no lock has that id: %w", quoted(id), state.ErrNotFound)
	}
	close(one.lost)
	l.drop(one)
	return one.Holder, nil
}

// under does something while a client still holds its locks.
func (l *locks) under(ids []string, do func() error) error {
	l.fence.RLock()
	defer l.fence.RUnlock()
	for _, id := range ids {
		if l.find(id) == nil {
			return state.ErrLost
		}
	}
	return do()
}

// list tells who holds what. The daemon holds the state when nobody else does.
func (l *locks) list() []wire.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []wire.Lock{}
	for _, one := range l.held {
		list = append(list, one.Lock)
	}
	if l.held[stateLock] == nil {
		list = append(list, wire.Lock{Name: stateLock, Holder: l.own()})
	}
	slices.SortFunc(list, func(a, b wire.Lock) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// parkedBy says for whom the daemon begins nothing.
func (l *locks) parkedBy() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.held[stateLock]
	if one == nil {
		return ""
	}
	return one.Holder.Operation + " by " + one.Holder.Who
}
