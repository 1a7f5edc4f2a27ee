package bolt

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// maxGroupCommit is the maximum number of commits in one transaction.
const maxGroupCommit = 256

// groupCommit writes concurrent commits in one transaction, because syncing a transaction to disk takes most of the
// time. Each commit succeeds or fails independently, and returns when it is on disk.
type groupCommit struct {
	turn chan struct{} // holds one token; its owner writes all waiting commits

	mu      sync.Mutex // guards waiting
	waiting []*waiting
}

// waiting is a commit that waits to be written.
type waiting struct {
	ctx     context.Context
	changes []*change
	done    chan struct{} // closed when at and err are set
	at      version
	err     error
}

func newGroupCommit() *groupCommit {
	t := &groupCommit{turn: make(chan struct{}, 1)}
	t.turn <- struct{}{}
	return t
}

// writeChanges writes changes, in one transaction with concurrent commits.
func (s *Store) writeChanges(ctx context.Context, changes []*change) (version, error) {
	t := s.group
	w := &waiting{ctx: ctx, changes: changes, done: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	for {
		select {
		case <-w.done:
			return w.at, w.err
		case <-t.turn:
			s.writeWaiting(t.take())
			t.turn <- struct{}{}
		case <-ctx.Done():
			if t.withdraw(w) {
				return version{}, ctx.Err()
			}
			<-w.done // another goroutine is writing it
			return w.at, w.err
		}
	}
}

// take removes and returns the oldest waiting commits, at most maxGroupCommit.
func (t *groupCommit) take() []*waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), maxGroupCommit)
	taken := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	return taken
}

// withdraw removes a waiting commit. It returns false if another goroutine has already taken it.
func (t *groupCommit) withdraw(w *waiting) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(slices.Clone(t.waiting), i, i+1)
	return true
}

// writeWaiting writes commits in one transaction. If one fails, it retries the others without it.
func (s *Store) writeWaiting(all []*waiting) {
	for len(all) > 0 {
		ctx := all[0].ctx
		if len(all) > 1 {
			ctx = context.WithoutCancel(ctx) // one caller must not cancel the others; the wait for the file has its own timeout
		}
		var failed *waiting
		at, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error {
			if err := s.checkHeld(tx); err != nil {
				return err
			}
			for _, w := range all {
				if err := s.apply(tx, h, w.changes); err != nil {
					failed = w
					return err
				}
			}
			return nil
		})
		if failed == nil {
			for _, w := range all {
				w.end(at, err)
			}
			return
		}
		failed.end(version{}, err)
		all = slices.DeleteFunc(all, func(w *waiting) bool { return w == failed })
	}
}

func (w *waiting) end(at version, err error) {
	w.at, w.err = at, err
	close(w.done)
}
