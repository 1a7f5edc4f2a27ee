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
	g := &groupCommit{turn: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// writeChanges writes changes, in one transaction with concurrent commits.
func (s *Store) writeChanges(ctx context.Context, changes []*change) (version, error) {
	g := s.group
	w := &waiting{ctx: ctx, changes: changes, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	for {
		select {
		case <-w.done:
			return w.at, w.err
		case <-g.turn:
			g.mu.Lock()
			n := min(len(g.waiting), maxGroupCommit)
			next := g.waiting[:n:n]
			g.waiting = g.waiting[n:]
			g.mu.Unlock()
			s.writeTogether(next)
			g.turn <- struct{}{}
		case <-ctx.Done():
			g.mu.Lock()
			i := slices.Index(g.waiting, w)
			if i >= 0 {
				g.waiting = slices.Delete(g.waiting, i, i+1)
			}
			g.mu.Unlock()
			if i >= 0 {
				return version{}, ctx.Err()
			}
			<-w.done // another goroutine is writing it
			return w.at, w.err
		}
	}
}

// writeTogether writes commits in one transaction. If one fails, it retries the others without it.
func (s *Store) writeTogether(all []*waiting) {
	for len(all) > 0 {
		ctx := all[0].ctx
		if len(all) > 1 {
			ctx = context.WithoutCancel(ctx) // one caller must not cancel the others; the wait for the file has its own timeout
		}
		ended := all // unless one of them fails
		at, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error {
			if err := s.checkHeld(tx); err != nil {
				return err
			}
			for i, w := range all {
				s.nextHead(h)
				for _, c := range w.changes {
					if err := c.apply(tx, h); err != nil {
						ended = all[i : i+1]
						return err
					}
				}
			}
			return h.save(tx)
		})
		for _, w := range ended {
			w.at, w.err = at, err
			close(w.done)
		}
		all = slices.DeleteFunc(slices.Clone(all), func(w *waiting) bool { return slices.Contains(ended, w) })
	}
}
