package bolt

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/bbolt"
)

// togetherAtMost is how many commits are written in one transaction at the most.
const togetherAtMost = 256

// together writes commits that come at the same time in one transaction, since what takes the time is to get a
// transaction onto the disk. Each commit succeeds or fails as it would by itself, and returns when it is on the disk.
type together struct {
	turn chan struct{} // holds one token: whoever has it writes for everybody who waits

	mu      sync.Mutex // guards waiting
	waiting []*waiting
}

// waiting is a commit that is not written yet.
type waiting struct {
	ctx     context.Context
	changes []*change
	done    chan struct{} // closed when at and err are set
	at      version
	err     error
}

func newTogether() *together {
	t := &together{turn: make(chan struct{}, 1)}
	t.turn <- struct{}{}
	return t
}

// writeChanges writes changes, together with what others write at the moment.
func (s *Store) writeChanges(ctx context.Context, changes []*change) (version, error) {
	t := s.together
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
			<-w.done // somebody is writing it
			return w.at, w.err
		}
	}
}

// take takes over those that wait, as many as are written at once.
func (t *together) take() []*waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), togetherAtMost)
	taken := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	return taken
}

// withdraw reports whether nobody had taken the commit over yet; nobody will, then.
func (t *together) withdraw(w *waiting) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(slices.Clone(t.waiting), i, i+1)
	return true
}

// writeWaiting writes commits in one transaction. One that cannot be done is left out, and the others are tried again
// without it.
func (s *Store) writeWaiting(all []*waiting) {
	for len(all) > 0 {
		ctx := all[0].ctx
		if len(all) > 1 {
			ctx = context.WithoutCancel(ctx) // it is not for one of them to call off the others; waiting for the file ends by itself
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
