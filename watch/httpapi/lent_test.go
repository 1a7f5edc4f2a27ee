package httpapi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch/httpapi"
)

// lockTable is a shared store with locks that other processes may hold.
type lockTable struct {
	meeting
	mu     sync.Mutex // guards the fields below
	others map[string]state.Holder
	taken  map[string]*tableLock
}

type tableLock struct {
	table *lockTable
	name  string
	lost  chan struct{}
}

func (t *lockTable) NodepoolBuilders() []string { return nil }
func (t *lockTable) Builders() []string         { return []string{"one", "two"} }

func (t *lockTable) Lock(_ context.Context, name string, _ state.Holder) (state.Lock, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, locked := t.others[name]; locked {
		return nil, &state.LockedError{Name: name, Holder: other}
	}
	if t.taken[name] != nil {
		return nil, &state.LockedError{Name: name}
	}
	t.taken[name] = &tableLock{t, name, make(chan struct{})}
	return t.taken[name], nil
}

func (l *tableLock) ID() string            { return "contender of " + l.name }
func (l *tableLock) Lost() <-chan struct{} { return l.lost }

func (l *tableLock) Unlock(context.Context) error {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	delete(l.table.taken, l.name)
	return nil
}

// has returns the lock that this process holds in the store.
func (t *lockTable) has(name string) *tableLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken[name]
}

func TestClientUsesLocksOfTheStore(t *testing.T) {
	var table *lockTable
	s := openStoreOf(t, serveStoreAs(t, func(own *bolt.Store) state.Store {
		table = &lockTable{meeting: meeting{own}, taken: map[string]*tableLock{}, others: map[string]state.Holder{"image centos": {ID: "theirs", UserHost: "root@there"}}}
		return table
	}, httpapi.Options{}))

	var locked *state.LockedError
	if _, err := s.Lock(t.Context(), "image centos", state.Holder{}); !errors.As(err, &locked) || locked.Holder.UserHost != "root@there" {
		t.Errorf("the lock of another process: %v", err)
	}

	lock, err := s.Lock(t.Context(), "image alma", state.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	if table.has("image alma") == nil {
		t.Error("a client has a lock that the daemon does not have in the store")
	}
	if err := lock.Unlock(t.Context()); err != nil || table.has("image alma") != nil {
		t.Errorf("given back by the client (%v), and still held in the store", err)
	}

	if lock, err = s.Lock(t.Context(), "image alma", state.Holder{}); err != nil {
		t.Fatal(err)
	}
	close(table.has("image alma").lost)
	select {
	case <-lock.Lost():
	case <-time.After(testutil.Patience):
		t.Fatal("the lock is lost in the store, and the client does not know")
	}
	if _, err := s.Commit(t.Context(), state.Op{Record: &resources.Request{State: resources.StateRequested, StateTime: time.Now(), Created: time.Now(),
		Labels: []string{"metal"}}}); !errors.Is(err, state.ErrLost) {
		t.Errorf("a commit under a lost lock: %v", err)
	}
	if table.has("image alma") != nil {
		t.Error("a lost lock was not given back")
	}
	_ = lock.Unlock(t.Context())

	work, err := s.Activity(t.Context())
	if err != nil || !slices.Equal(work.Builders, []string{"one", "two"}) {
		t.Errorf("builders are %q, %v", strings.Join(work.Builders, " "), err)
	}
}
