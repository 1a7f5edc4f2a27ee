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

// timed is a store whose commits are timed.
type timed struct {
	Store
	m *Metrics
}

var _ Store = timed{}

// Timed returns the store, with its commits timed.
func (m *Metrics) Timed(s Store) Store { return timed{s, m} }

// Commit implements state.Store.
func (t timed) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	started := time.Now()
	entries, err := t.Store.Commit(ctx, ops...)
	result := "done"
	switch {
	case errors.Is(err, state.ErrConflict):
		result = "conflict"
	case err != nil:
		result = "failed"
	}
	t.m.time("npctl_state_commit_seconds", time.Since(started).Seconds(), result)
	return entries, err
}
