//go:build integration

package zookeeper_test

import (
	"context"
	"testing"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/statetest"
	"github.com/npctl/npctl/state/zookeeper"
)

func TestContract(t *testing.T) {
	t.Parallel()
	statetest.Run(t, statetest.Harness{
		New: func(t *testing.T) func(*testing.T) state.Store {
			tr := newTree(t)
			return func(t *testing.T) state.Store { return upToDate{tr.open(t), tr} }
		},
		Steal: func(t *testing.T, s state.Store, _ string, lock state.Lock) {
			if _, err := s.(upToDate).ForceUnlock(t.Context(), lock.ID()); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestSharedContract(t *testing.T) {
	t.Parallel()
	statetest.Shared(t, statetest.Harness{
		New: func(t *testing.T) func(*testing.T) state.Store {
			tr := newTree(t)
			return func(t *testing.T) state.Store { return upToDate{tr.open(t), tr} }
		},
		Steal: func(t *testing.T, s state.Store, key string, claim state.Lock) {
			if !s.(upToDate).tree.deleteContender(t, claim.ID()) {
				t.Fatalf("no contender is the claim of %s", key)
			}
		},
	})
}

// upToDate calls Sync before each read: the suite expects to see commits of other processes at once, and this store
// shows them a moment later.
type upToDate struct {
	*zookeeper.Store
	tree *tree
}

func (s upToDate) Get(ctx context.Context, key resources.Key) (state.Entry, error) {
	if err := s.Sync(ctx); err != nil {
		return state.Entry{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s upToDate) List(ctx context.Context, kinds ...resources.Kind) ([]state.Entry, error) {
	if err := s.Sync(ctx); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, kinds...)
}
