package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/npctl/npctl/state"
)

// Store is a store with an identity, as the stores of npctl have.
type Store interface {
	state.Store
	state.Identified
}

// timedStore measures the duration of commits; timedSharedStore does so for a shared store.
type (
	timedStore struct {
		Store
		m *Metrics
	}
	timedSharedStore struct {
		state.Shared
		state.Identified
		m *Metrics
	}
)

var (
	_ Store        = timedStore{}
	_ Store        = timedSharedStore{}
	_ state.Shared = timedSharedStore{}
)

// Timed returns s with its commits measured.
func (m *Metrics) Timed(s Store) Store {
	if others, ok := s.(state.Shared); ok {
		return timedSharedStore{others, s, m}
	}
	return timedStore{s, m}
}

// Commit implements state.Store.
func (t timedStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	return t.m.commit(ctx, t.Store, ops)
}

// Commit implements state.Store.
func (t timedSharedStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	return t.m.commit(ctx, t.Shared, ops)
}

func (m *Metrics) commit(ctx context.Context, store state.Store, ops []state.Op) ([]state.Entry, error) {
	started := time.Now()
	entries, err := store.Commit(ctx, ops...)
	result := "done"
	switch {
	case errors.Is(err, state.ErrConflict):
		result = "conflict"
	case err != nil:
		result = "failed"
	}
	m.time("npctl_state_commit_seconds", time.Since(started).Seconds(), result)
	return entries, err
}
