// Package kill kills engines at their changing calls and at the commits of their states.
package kill

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// ErrKilled is the result of every call and commit after the kill.
var ErrKilled = errors.New("killed")

// Killer kills an engine at one of the points at which it changes something outside: before or after the effect of a
// changing call or of a commit. Calls and commits after that have no effect. The zero value kills nothing.
type Killer struct {
	mu     sync.Mutex // guards the fields below
	points int        // number of points passed
	at     int        // the point of the kill; 0: none
	where  string     // what happened at that point
	dead   bool
	died   func() // if set, called by the kill
}

// Revive resets the killer. The next engine is killed at the given point, the first of which is 1; 0 means never.
func (k *Killer) Revive(at int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.points, k.at, k.dead, k.where = 0, at, false, ""
}

// Strike kills the engine now.
func (k *Killer) Strike(where string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead, k.where = true, where
}

// Died reports whether the engine was killed, and where.
func (k *Killer) Died() (where string, dead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.where, k.dead
}

// Points returns the number of points that the engine has passed.
func (k *Killer) Points() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.points
}

// Pass passes one point.
func (k *Killer) Pass(what string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return ErrKilled
	}
	k.points++
	if k.points == k.at {
		if k.dead, k.where = true, what; k.died != nil {
			k.died()
		}
		return ErrKilled
	}
	return nil
}

// Transport makes two points of each call that changes something, of which changes returns a description. A kill during
// another call equals a kill after the change before it.
func (k *Killer) Transport(inner http.RoundTripper, changes func(*http.Request) string) http.RoundTripper {
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		what := changes(r)
		if what == "" {
			if _, dead := k.Died(); dead {
				return nil, ErrKilled
			}
			return inner.RoundTrip(r)
		}
		if err := k.Pass("before " + what); err != nil {
			return nil, err
		}
		answer, err := inner.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if err := k.Pass("after " + what); err != nil {
			_ = answer.Body.Close()
			return nil, err
		}
		return answer, nil
	})
}

// Store is a state with two points for each commit.
type Store struct {
	*bolt.Store
	Killer *Killer
}

// KeysOf returns the keys of the records of a commit, each after a space.
func KeysOf(ops []state.Op) (keys string) {
	for _, op := range ops {
		key := op.Key
		if op.Record != nil {
			key = op.Record.Key()
		}
		keys += " " + key.String()
	}
	return keys
}

// Commit implements state.Store.
func (s Store) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	what := "commit" + KeysOf(ops)
	if err := s.Killer.Pass("before " + what); err != nil {
		return nil, err
	}
	entries, err := s.Store.Commit(ctx, ops...)
	if err != nil {
		return nil, err
	}
	return entries, s.Killer.Pass("after " + what)
}
