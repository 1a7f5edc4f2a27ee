package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/state"
)

var _ state.Lock = (*lock)(nil)

// unlockTime limits the release of a lock.
const unlockTime = 10 * time.Second

// lock is a lock from the daemon. It ends with the connection over which it was acquired.
type lock struct {
	store      *Store
	id         string
	lost       chan struct{}
	loseOnce   sync.Once
	disconnect context.CancelFunc // closes the connection
	done       bool               // released; guarded by the store's mu
}

// Lock implements state.Store. While a client holds the lock of the state, the daemon starts no steps. The daemon gets
// half a minute to finish its running steps before Lock fails. A lock ends when the process of its holder ends.
func (s *Store) Lock(ctx context.Context, name string, holder state.Holder) (state.Lock, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	holder = complete(holder, s.client.agent)
	live, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, hangUp) // until the lock is held
	response, err := s.client.send(live, http.MethodPost, at("store", "locks"), nil, wire.Lock{Name: name, Holder: holder})
	if err != nil {
		hangUp()
		var locked *state.LockedError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &locked):
			return nil, locked
		}
		return nil, err
	}
	lines := bufio.NewScanner(response.Body)
	var first wire.Hint
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &first) != nil || first.Locked == nil || !stop() {
		hangUp()
		_ = response.Body.Close() // only read
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("daemon at %s: invalid response about a lock", s.client.where)
	}
	l := &lock{store: s, id: first.Locked.Holder.ID, lost: make(chan struct{}), disconnect: hangUp}
	s.mu.Lock()
	s.locks[l.id] = l
	s.mu.Unlock()
	s.workers.Go(func() {
		defer response.Body.Close() //nolint:errcheck // only read
		for lines.Scan() {
			var hint wire.Hint
			if json.Unmarshal(lines.Bytes(), &hint) == nil && hint.Lost {
				break
			}
		}
		l.ended()
	})
	return l, nil
}

// complete fills in the empty fields of a holder from this process.
func complete(h state.Holder, agent string) state.Holder {
	return h.WithDefaults(state.Self(state.HostName(), agent))
}

// ID implements state.Lock.
func (l *lock) ID() string { return l.id }

// Lost implements state.Lock.
func (l *lock) Lost() <-chan struct{} { return l.lost }

// ended is called when the connection has closed.
func (l *lock) ended() {
	l.store.mu.Lock()
	done := l.done
	l.store.mu.Unlock()
	if !done {
		l.lose()
	}
}

func (l *lock) lose() { l.loseOnce.Do(func() { close(l.lost) }) }

// Unlock implements state.Lock.
func (l *lock) Unlock(ctx context.Context) error {
	l.store.mu.Lock()
	first := !l.done && l.store.closing.Err() == nil
	l.done = l.done || first
	delete(l.store.locks, l.id)
	l.store.mu.Unlock()
	if !first {
		return nil
	}
	return l.release(ctx)
}

// release releases the lock at the daemon. It also closes the connection, which ends the lock if the call fails.
func (l *lock) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, unlockTime)
	defer cancel()
	err := l.store.client.call(ctx, http.MethodDelete, at("store", "locks"), values("id", l.id), nil, &wire.Lock{})
	l.disconnect()
	if isRestarting(err) {
		return nil
	}
	return err
}

// heldLocks returns the IDs of the locks that were not released. It includes lost locks, so that the daemon rejects
// writes under them.
func (s *Store) heldLocks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.locks))
}

// loseAll closes Lost of the locks that the daemon no longer has, or of all locks if the daemon cannot be queried.
func (s *Store) loseAll() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.locks))
	s.mu.Unlock()
	known := map[string]bool{}
	ctx, cancel := context.WithTimeout(context.Background(), unlockTime)
	defer cancel()
	var list wire.Locks
	if err := s.client.call(ctx, http.MethodGet, at("store", "locks"), nil, nil, &list); err == nil {
		for _, held := range list.Locks {
			known[held.Holder.ID] = true
		}
	}
	for _, l := range all {
		if !known[l.id] {
			l.lose()
		}
	}
}

// giveBack releases every lock when the store is closed.
func (s *Store) giveBack() error {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.locks))
	s.locks = map[string]*lock{}
	s.mu.Unlock()
	var errs []error
	for _, l := range all {
		errs = append(errs, l.release(context.Background()))
		l.lose()
	}
	return errors.Join(errs...)
}

// Holder returns the holder of a lock, or nil.
func (s *Store) Holder(ctx context.Context, name string) (*state.Holder, error) {
	var list wire.Locks
	if err := s.call(ctx, http.MethodGet, at("store", "locks"), nil, nil, &list); err != nil {
		return nil, err
	}
	for _, l := range list.Locks {
		if l.Name == name {
			return &l.Holder, nil
		}
	}
	return nil, nil
}

// ForceUnlock takes a lock from its holder and returns the holder.
func (s *Store) ForceUnlock(ctx context.Context, id string) (state.Holder, error) {
	var taken wire.Lock
	query := values("id", id, "force", "true")
	err := s.call(ctx, http.MethodDelete, at("store", "locks"), query, nil, &taken)
	return taken.Holder, err
}
