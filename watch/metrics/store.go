package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/npctl/npctl/state"
)

// Store is a store that knows its identity, as npctl's do.
type Store interface {
	state.Store
	state.Identified
}

// timed is a store whose commits are timed, and shared one that others work in too.
type (
	timed struct {
		Store
		m *Metrics
	}
	shared struct {
		state.Shared
		state.Identified
		m *Metrics
	}
)

var (
	_ Store        = timed{}
	_ Store        = shared{}
	_ state.Shared = shared{}
)

// Timed returns the store, with its commits timed.
func (m *Metrics) Timed(s Store) Store {
	if others, ok := s.(state.Shared); ok {
		return shared{others, s, m}
	}
	return timed{s, m}
}

// Commit implements state.Store.
func (t timed) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	return t.m.commit(ctx, t.Store, ops)
}

// Commit implements state.Store.
func (t shared) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
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
