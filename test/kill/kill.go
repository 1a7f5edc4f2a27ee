// Package kill kills engines at their changing calls and at the commits of their states.
package kill

import (
	"context"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// Killer kills an engine at its changing calls and at its commits.
type Killer = testutil.Killer

// Store is a state with two points for each commit.
type Store struct {
	*bolt.Store
	Killer *Killer
}

// KeysOf returns the keys of the records of a commit, each after a space.
func KeysOf(ops []state.Op) (keys string) {
	for _, op := range ops {
		key := op.Key
		if op.Record != nil {
			key = op.Record.Key()
		}
		keys += " " + key.String()
	}
	return keys
}

// Commit implements state.Store.
func (s Store) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	what := "commit" + KeysOf(ops)
	if err := s.Killer.Pass("before " + what); err != nil {
		return nil, err
	}
	entries, err := s.Store.Commit(ctx, ops...)
	if err != nil {
		return nil, err
	}
	return entries, s.Killer.Pass("after " + what)
}
