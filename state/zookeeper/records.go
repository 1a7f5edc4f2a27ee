package zookeeper

import (
	"context"
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Commit implements state.Store. A revision is the zxid of the change. Operations that change nothing are not written.
// If the connection is lost before ZooKeeper answers, the error says that the changes may have been made.
func (s *Store) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	if err := s.session.usable(ctx); err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, nil
	}
	changes, err := prepare(ops)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := s.locks.heldLocks(); err != nil {
		return nil, err
	}
	if err := s.commit(ctx, changes); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	entries := make([]state.Entry, len(changes))
	for i, c := range changes {
		entries[i] = s.locks.withClaim(c)
		if c.Unnamed {
			resources.SetID(c.Record, c.result.Record.Key().ID)
		}
	}
	return entries, nil
}

// commit writes to ZooKeeper first. If ZooKeeper rejects the changes, commit does not write the private store either.
func (s *Store) commit(ctx context.Context, changes []*change) error {
	var here, there []*change
	for _, c := range changes {
		if shared(c.Subject.Kind) {
			there = append(there, c)
		} else {
			here = append(here, c)
		}
	}
	flags := s.mirror.changedFlags(pauseFlags(here))
	if s.session.readOnly && len(there)+len(flags) > 0 {
		return state.ErrReadOnly
	}
	if len(here) > 0 && len(there)+len(flags) > 0 {
		defer s.private.lock()()
		if err := s.private.check(ctx, here); err != nil {
			return err
		}
	}
	if len(there)+len(flags) > 0 {
		if err := s.transactions.commitShared(ctx, there, flags); err != nil {
			return err
		}
	}
	if len(here) == 0 {
		return nil
	}
	if err := s.private.noteSightings(ctx, here); err != nil {
		return err
	}
	return s.private.commit(ctx, here)
}

// Import stores nodes, builds and uploads of another store, in any state, and replaces records with the same keys. It
// makes all changes or none.
func (s *Store) Import(ctx context.Context, records ...resources.Record) error {
	if err := s.session.usable(ctx); err != nil {
		return err
	}
	ops := make([]state.Op, len(records))
	for i, r := range records {
		if kind := r.Key().Kind; !shared(kind) || kind == resources.KindRequest {
			return state.Invalidf("a %s cannot be imported from another store", kind)
		}
		ops[i] = state.Op{Record: r, Force: true}
	}
	if len(ops) == 0 {
		return nil
	}
	changes, err := prepare(ops)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	for _, c := range changes {
		c.imported = true
	}
	if err := s.locks.heldLocks(); err != nil {
		return err
	}
	if err := s.commit(ctx, changes); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// Get implements state.Store. It serves shared records from the cache, which trails the commits of other processes by a
// moment.
func (s *Store) Get(ctx context.Context, key resources.Key) (state.Entry, error) {
	if err := s.session.usable(ctx); err != nil {
		return state.Entry{}, err
	}
	if shared(key.Kind) {
		return s.mirror.getShared(key)
	}
	return s.private.get(ctx, key)
}

// List implements state.Store. All changes of one Commit appear together, unless changes arrive faster than the store
// can read them.
func (s *Store) List(ctx context.Context, kinds ...resources.Kind) ([]state.Entry, error) {
	if err := s.session.usable(ctx); err != nil {
		return nil, err
	}
	if err := state.CheckKinds(kinds); err != nil {
		return nil, err
	}
	if len(kinds) == 0 {
		kinds = resources.Kinds()
	}
	entries := s.mirror.listShared(kinds)
	private, err := s.private.list(ctx, privateKinds(kinds))
	if err != nil {
		return nil, err
	}
	if entries = append(entries, private...); len(private) > 0 {
		slices.SortStableFunc(entries, byKind)
	}
	return entries, nil
}

// Watch implements state.Store. A hint also comes when a claim, a registration or the connection has changed.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) {
	if err := s.session.usable(ctx); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(ctx)
	private, err := s.private.watch(own)
	if err != nil {
		cancel()
		return nil, err
	}
	hints := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.session.usable(ctx); err != nil {
		cancel()
		return nil, err
	}
	s.mirror.watch(hints)
	s.workers.Go(func() {
		defer cancel()
		s.watch(own, hints, private)
	})
	return hints, nil
}

// watch forwards the hints of the private store and closes the channel when it returns.
func (s *Store) watch(ctx context.Context, hints chan struct{}, private <-chan struct{}) {
	defer s.mirror.unwatch(hints)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		case _, open := <-private:
			if !open {
				private = nil
				continue
			}
			hint(hints)
		}
	}
}
