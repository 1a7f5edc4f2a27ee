package testutil

import (
	"errors"
	"net/http"
	"sync"
)

// ErrKilled is the result of every call and commit after the kill.
var ErrKilled = errors.New("killed")

// Killer kills a client at one of the points at which it changes something outside: before or after the effect of a
// changing call or of a commit. Calls and commits after that have no effect. The zero value kills nothing.
type Killer struct {
	// Survives means that the client lives on: only the result of one call or commit is lost.
	Survives bool
	// OnDeath is called by the kill, unless it is nil. It must not call methods of the Killer.
	OnDeath func()

	mu     sync.Mutex // guards the fields below
	points int        // number of points passed
	at     int        // the point of the kill; 0: none
	where  string     // what happened at that point
	dead   bool
}

// Revive resets the killer. The next client is killed at the given point, the first of which is 1; 0 means never.
func (k *Killer) Revive(at int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.points, k.at, k.dead, k.where = 0, at, false, ""
}

// Strike kills the client now.
func (k *Killer) Strike(where string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead, k.where = true, where
}

// Died reports whether the client was killed, and where.
func (k *Killer) Died() (where string, dead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.where, k.dead
}

// Points returns the number of points that the client has passed.
func (k *Killer) Points() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.points
}

// Pass passes one point.
func (k *Killer) Pass(what string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead && !k.Survives {
		return ErrKilled
	}
	k.points++
	if k.points != k.at {
		return nil
	}
	if k.dead, k.where = true, what; k.OnDeath != nil {
		k.OnDeath()
	}
	return ErrKilled
}

// Around makes two points of a call that changes something.
func Around[T any](k *Killer, what string, call func() (T, error)) (T, error) {
	var none T
	if err := k.Pass("before " + what); err != nil {
		return none, err
	}
	result, err := call()
	if err != nil {
		return none, err
	}
	return result, k.Pass("after " + what)
}

// Transport makes two points of each call that changes something, of which changes returns a description. A kill during
// another call equals a kill after the change before it.
func (k *Killer) Transport(inner http.RoundTripper, changes func(*http.Request) string) http.RoundTripper {
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		what := changes(r)
		if what == "" {
			if _, dead := k.Died(); dead && !k.Survives {
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
