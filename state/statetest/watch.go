package statetest

import (
	"context"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var watchTests = []test{
	{"HintsAtOwnChanges", func(e *env) {
		s := e.store()
		hints := e.watch(e.ctx(), s)
		entry := e.create(s, Node(1))[0]
		e.hint(hints, "create")
		replaced, err := s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
		e.must(err)
		e.hint(hints, "replace")
		_, err = s.Commit(e.ctx(), state.Op{Key: entry.Record.Key(), Revision: replaced[0].Revision})
		e.must(err)
		e.hint(hints, "delete")
	}},
	{"HintsAtChangesByOthers", func(e *env) {
		s, other := e.store(), e.store()
		hints := e.watch(e.ctx(), s)
		for range 3 {
			e.create(other, Node(1))
			e.hint(hints, "create by another handle")
		}
	}},
	{"HintsAllWatchers", func(e *env) {
		s := e.store()
		one, two := e.watch(e.ctx(), s), e.watch(e.ctx(), s)
		e.create(s, Node(1))
		e.hint(one, "create")
		e.hint(two, "create")
	}},
	{"HintsAfterTheLastOfManyChanges", func(e *env) {
		s, other := e.store(), e.store()
		hints := e.watch(e.ctx(), s)
		const changes = 20
		for range changes {
			e.create(other, Node(1))
		}
		// A reader that lists the records after each hint must see all changes, even if hints merge.
		for seen := 0; seen < changes; {
			e.hint(hints, "further records")
			seen = len(e.list(s, resources.KindNode))
		}
	}},
	{"DoesNotWaitForASlowReceiver", func(e *env) {
		s := e.store()
		e.watch(e.ctx(), s)
		for range 50 {
			e.create(s, Node(1))
		}
	}},
	{"ClosesAfterItsContext", func(e *env) {
		s := e.store()
		ctx, cancel := context.WithCancel(e.ctx())
		hints := e.watch(ctx, s)
		other := e.watch(e.ctx(), s)
		e.create(s, Node(1))
		cancel()
		e.closes(hints, "its ctx ended")
		e.create(s, Node(2))
		e.hint(other, "create after another watch ended")
	}},
}

func (e *env) watch(ctx context.Context, s state.Store) <-chan struct{} {
	e.Helper()
	hints, err := s.Watch(ctx)
	e.must(err)
	return hints
}

func (e *env) hint(hints <-chan struct{}, why string) {
	e.Helper()
	select {
	case _, ok := <-hints:
		if !ok {
			e.Fatalf("the channel was closed instead of a hint at %s", why)
		}
	case <-time.After(e.Within):
		e.Fatalf("no hint at %s within %s", why, e.Within)
	}
}

// closes expects the channel to close. Hints may arrive before.
func (e *env) closes(ch <-chan struct{}, why string) {
	e.Helper()
	late := time.After(e.Within)
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-late:
			e.Fatalf("the channel was not closed within %s though %s", e.Within, why)
		}
	}
}
