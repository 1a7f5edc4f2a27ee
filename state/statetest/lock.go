package statetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var lockTests = []test{
	{"IsExclusive", func(e *env) {
		one, two := e.store(), e.store()
		l := e.lock(one, "apply")
		if l.ID() == "" {
			e.Error("the lock has no id")
		}
		for name, s := range map[string]state.Store{"the same handle": one, "another handle": two} {
			start := time.Now()
			other, err := s.Lock(e.ctx(), "apply", holder("plan"))
			if other != nil || !errors.Is(err, state.ErrLocked) {
				e.Errorf("%s: %v, %v; want ErrLocked", name, other, err)
			}
			if took := time.Since(start); took > e.Within {
				e.Errorf("%s: Lock waited for %s", name, took)
			}
		}
		e.must(l.Unlock(e.ctx()))
		e.must(e.lock(two, "apply").Unlock(e.ctx()))
	}},
	{"ReportsItsHolder", func(e *env) {
		one, two := e.store(), e.store()
		h := holder("destroy")
		l, err := one.Lock(e.ctx(), "apply", h)
		e.must(err)
		h.ID = l.ID()
		_, err = two.Lock(e.ctx(), "apply", holder("plan"))
		locked, ok := errors.AsType[*state.LockedError](err)
		if !ok {
			e.Fatalf("%v, want a LockedError", err)
		}
		if diff := cmp.Diff(&state.LockedError{Name: "apply", Holder: h}, locked); diff != "" {
			e.Errorf("(-want +got):\n%s", diff)
		}
		for _, part := range []string{"apply", h.UserHost, h.Operation, h.ID} {
			if !strings.Contains(err.Error(), part) {
				e.Errorf("the error does not name %q: %v", part, err)
			}
		}
	}},
	{"HasAName", func(e *env) {
		one, two := e.store(), e.store()
		a, b := e.lock(one, "a"), e.lock(two, "b")
		if a.ID() == b.ID() {
			e.Errorf("two locks have the id %s", a.ID())
		}
		e.must(a.Unlock(e.ctx()))
		if _, err := one.Lock(e.ctx(), "b", holder("apply")); !errors.Is(err, state.ErrLocked) {
			e.Errorf("b after a was unlocked: %v, want ErrLocked", err)
		}
	}},
	{"IsTakenByOneOfMany", func(e *env) {
		const handles = 6
		var won atomic.Int64
		var wg sync.WaitGroup
		for range handles {
			s := e.store()
			wg.Go(func() {
				switch _, err := s.Lock(e.ctx(), "apply", holder("apply")); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, state.ErrLocked):
					e.Errorf("Lock: %v", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			e.Errorf("%d of %d have the lock", won.Load(), handles)
		}
	}},
	{"SecondUnlockDoesNothing", func(e *env) {
		one, two := e.store(), e.store()
		l := e.lock(one, "apply")
		e.must(l.Unlock(e.ctx()))
		e.must(l.Unlock(e.ctx()))
		e.lock(two, "apply")
		e.must(l.Unlock(e.ctx()))
		if _, err := one.Lock(e.ctx(), "apply", holder("apply")); !errors.Is(err, state.ErrLocked) {
			e.Errorf("a second Unlock took another's lock: %v", err)
		}
	}},
	{"UnlockIsNoLoss", func(e *env) {
		l := e.lock(e.store(), "apply")
		e.must(l.Unlock(e.ctx()))
		select {
		case <-l.Lost():
			e.Error("Lost was closed although Unlock was called")
		default:
		}
	}},
	{"DoesNotBlockItsHolder", func(e *env) {
		s := e.store()
		l := e.lock(s, "apply")
		entry := e.create(s, Node(1))[0]
		e.must(l.Unlock(e.ctx()))
		_, err := s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
		e.must(err)
	}},
	{"UnlockDisturbsNoCommit", func(e *env) {
		s := e.store()
		entry := e.create(s, Node(1))[0]
		for range 30 {
			l := e.lock(s, "apply")
			unlocked := make(chan error, 1)
			go func() { unlocked <- l.Unlock(e.ctx()) }()
			entries, err := s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
			e.must(err)
			e.must(<-unlocked)
			entry = entries[0]
		}
	}},
}

var lostTests = []test{
	{"ClosesWhenTheLockIsRemoved", func(e *env) {
		one, two := e.store(), e.store()
		l := e.lock(one, "apply")
		e.Steal(e.T, two, "apply", l)
		e.closes(l.Lost(), "the lock was removed")
	}},
	{"AllowsAnotherHolder", func(e *env) {
		one, two := e.store(), e.store()
		l := e.lock(one, "apply")
		e.Steal(e.T, two, "apply", l)
		e.lock(two, "apply")
		e.closes(l.Lost(), "another has the lock")
		e.must(l.Unlock(e.ctx()))
		if _, err := one.Lock(e.ctx(), "apply", holder("apply")); !errors.Is(err, state.ErrLocked) {
			e.Errorf("Unlock of a lost lock took it from its new holder: %v", err)
		}
	}},
	{"IsDetectedByUnlock", func(e *env) {
		one, two := e.store(), e.store()
		l := e.lock(one, "apply")
		e.Steal(e.T, two, "apply", l)
		e.lock(two, "apply")
		e.must(l.Unlock(e.ctx())) // immediately, most likely before Lost is closed
		if _, err := one.Lock(e.ctx(), "apply", holder("apply")); !errors.Is(err, state.ErrLocked) {
			e.Errorf("Unlock took the lock from its new holder: %v", err)
		}
	}},
	{"PreventsWrites", func(e *env) {
		one, two := e.store(), e.store()
		entry := e.create(one, Node(1))[0]
		l := e.lock(one, "apply")
		e.Steal(e.T, two, "apply", l)
		// The test does not wait for Lost: Commit itself must detect the loss.
		for range 2 {
			for name, op := range map[string]state.Op{
				"create":  {Record: Node(2)},
				"replace": {Record: touched(entry.Record), Revision: entry.Revision},
				"force":   {Record: touched(entry.Record), Force: true},
				"delete":  {Key: entry.Record.Key(), Revision: entry.Revision},
			} {
				if _, err := one.Commit(e.ctx(), op); !errors.Is(err, state.ErrLost) {
					e.Errorf("%s: %v, want ErrLost", name, err)
				}
			}
		}
		e.closes(l.Lost(), "a commit detected the loss of the lock")
		if diff := cmp.Diff([]state.Entry{entry}, e.list(two)); diff != "" {
			e.Errorf("something was written after the lock was lost (-want +got):\n%s", diff)
		}
	}},
	{"EndsWithUnlock", func(e *env) {
		one, two := e.store(), e.store()
		l := e.lock(one, "apply")
		e.Steal(e.T, two, "apply", l)
		e.closes(l.Lost(), "the lock was removed")
		e.must(l.Unlock(e.ctx()))
		e.lock(one, "apply")
		e.create(one, Node(1))
	}},
	{"AffectsOnlyTheFormerHolder", func(e *env) {
		one, two := e.store(), e.store()
		l := e.lock(one, "apply")
		e.Steal(e.T, two, "apply", l)
		e.create(two, Node(1))
	}},
}

var closeTests = []test{
	{"EndsLocks", func(e *env) {
		one, two := e.store(), e.store()
		a, b := e.lock(one, "a"), e.lock(one, "b")
		e.must(one.Close())
		e.closes(a.Lost(), "the store was closed")
		e.closes(b.Lost(), "the store was closed")
		e.lock(two, "a")
		e.lock(two, "b")
		e.must(a.Unlock(e.ctx()))
		if _, err := two.Lock(e.ctx(), "a", holder("apply")); !errors.Is(err, state.ErrLocked) {
			e.Errorf("Unlock after Close took another's lock: %v", err)
		}
	}},
	{"EndsWatches", func(e *env) {
		s := e.store()
		hints := e.watch(e.ctx(), s)
		e.must(s.Close())
		e.closes(hints, "the store was closed")
	}},
	{"MakesEveryCallFail", func(e *env) {
		s := e.store()
		key := e.create(s, record(resources.KindNode, 1))[0].Record.Key()
		e.must(s.Close())
		e.must(s.Close())
		for name, call := range calls(e.ctx(), key) {
			if err := call(s); err == nil {
				e.Errorf("%s after Close: no error", name)
			}
		}
		if got := e.list(e.store()); len(got) != 1 {
			e.Errorf("%d records after calls on a closed store, want 1", len(got))
		}
	}},
}
