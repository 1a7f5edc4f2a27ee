package statetest

import (
	"context"
	"errors"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// calls returns a call of each method that takes a ctx.
func calls(ctx context.Context, key resources.Key) map[string]func(state.Store) error {
	return map[string]func(state.Store) error{
		"Get":    func(s state.Store) error { _, err := s.Get(ctx, key); return err },
		"List":   func(s state.Store) error { _, err := s.List(ctx); return err },
		"Commit": func(s state.Store) error { _, err := s.Commit(ctx, state.Op{Record: Node(1)}); return err },
		"Lock":   func(s state.Store) error { _, err := s.Lock(ctx, "other", holder("apply")); return err },
	}
}

var contextTests = []test{
	{"EndsEveryCall", func(e *env) {
		s := e.store()
		key := e.create(s, record(resources.KindNode, 1))[0].Record.Key()
		ctx, cancel := context.WithCancel(e.ctx())
		cancel()
		for name, call := range calls(ctx, key) {
			start := time.Now()
			if err := call(s); !errors.Is(err, context.Canceled) {
				e.Errorf("%s: %v, want context.Canceled", name, err)
			}
			if took := time.Since(start); took > e.Within {
				e.Errorf("%s took %s after its ctx had ended", name, took)
			}
		}
		if got := e.list(s); len(got) != 1 {
			e.Errorf("a commit whose ctx had ended was done: %d records, want 1", len(got))
		}
		e.lock(s, "other") // fails if the canceled call took the lock
	}},
	{"OfLockDoesNotEndTheLock", func(e *env) {
		s, other := e.store(), e.store()
		ctx, cancel := context.WithCancel(e.ctx())
		l, err := s.Lock(ctx, "apply", holder("apply"))
		e.must(err)
		cancel()
		if _, err := other.Lock(e.ctx(), "apply", holder("apply")); !errors.Is(err, state.ErrLocked) {
			e.Errorf("%v, want ErrLocked: a lock is held until Unlock", err)
		}
		e.create(s, Node(1))
		e.must(l.Unlock(e.ctx()))
	}},
}

var identityTests = []test{
	{"KeepsItsLineage", func(e *env) {
		one, two := e.identity(e.store()), e.identity(e.store())
		if one.Lineage == "" || one.Lineage != two.Lineage {
			e.Errorf("lineages %q and %q of one store", one.Lineage, two.Lineage)
		}
		if other := e.identity(e.New(e.T)(e.T)); other.Lineage == one.Lineage {
			e.Errorf("two stores have the lineage %q", one.Lineage)
		}
		if other := e.identity(e.New(e.T)(e.T)); one.HashKey == "" || one.HashKey != two.HashKey || other.HashKey == one.HashKey {
			e.Errorf("the hash keys of one store have %d and %d bytes and differ, or another store has the same", len(one.HashKey), len(two.HashKey))
		}
		if one.Schema <= 0 {
			e.Errorf("schema %d, want a positive number", one.Schema)
		}
	}},
	{"HasASerialThatGrowsWithEveryCommit", func(e *env) {
		s, other := e.store(), e.store()
		last := e.identity(s).Serial
		for i := range 4 {
			e.create([]state.Store{s, other}[i%2], Node(i))
			now := e.identity(s).Serial
			if now <= last {
				e.Errorf("serial %d after %d", now, last)
			}
			last = now
		}
		_, err := s.Commit(e.ctx(), state.Op{Key: absentKey(resources.KindNode), Revision: 1})
		if now := e.identity(s).Serial; err == nil || now != last {
			e.Errorf("serial %d after a rejected commit (%v), want %d still", now, err, last)
		}
	}},
}

func (e *env) identity(s state.Store) state.Identity {
	e.Helper()
	known, ok := s.(state.Identified)
	if !ok {
		e.Fatalf("%T has no Identity", s)
	}
	id, err := known.Identity(e.ctx())
	e.must(err)
	return id
}
