package reconcile_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// claimedStore is a shared store. It logs the writes to each node, including its claims.
type claimedStore struct {
	state.Store
	state.Identified

	mu     sync.Mutex // guards the fields below
	writes map[string][]string
}

var _ state.Shared = (*claimedStore)(nil)

func (s *claimedStore) log(key resources.Key, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key.Kind == resources.KindNode {
		s.writes[key.ID] = append(s.writes[key.ID], what)
	}
}

func (s *claimedStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	entries, err := s.Store.Commit(ctx, ops...)
	if err != nil {
		return nil, err
	}
	for i, op := range ops {
		switch {
		case op.Record == nil:
			s.log(op.Key, "delete")
		case op.Claim:
			entries[i].ClaimLock = &loggedClaim{s, op.Record.Key()}
			s.log(op.Record.Key(), "claim and "+string(resources.StateOf(op.Record)))
		case op.Release:
			s.log(op.Record.Key(), string(resources.StateOf(op.Record))+" and release")
		default:
			s.log(op.Record.Key(), string(resources.StateOf(op.Record)))
		}
	}
	return entries, nil
}

func (*claimedStore) Sync(context.Context) error { return nil }

func (s *claimedStore) Claim(ctx context.Context, key resources.Key) (state.Lock, state.Entry, error) {
	entry, err := s.Get(ctx, key)
	s.log(key, "claim")
	return &loggedClaim{s, key}, entry, err
}

func (*claimedStore) Changes() ([]state.Entry, []resources.Key)          { return nil, nil }
func (*claimedStore) Claimed() map[resources.Key]bool                    { return nil }
func (*claimedStore) Register(context.Context, resources.Presence) error { return nil }
func (*claimedStore) RegisteredPools() []resources.RegisteredPool        { return nil }
func (*claimedStore) NodepoolBuilders() []string                         { return nil }
func (*claimedStore) Builders() []string                                 { return nil }
func (*claimedStore) RequestedBuilds() []string                          { return nil }
func (*claimedStore) RequestBuild(context.Context, string, bool) error   { return nil }
func (*claimedStore) FrozenProviders() []string                          { return nil }
func (*claimedStore) FreezeProvider(context.Context, string, bool) error { return nil }
func (*claimedStore) Connected() bool                                    { return true }

type loggedClaim struct {
	store *claimedStore
	key   resources.Key
}

func (*loggedClaim) ID() string            { return "1" }
func (*loggedClaim) Lost() <-chan struct{} { return nil }
func (c *loggedClaim) Unlock(context.Context) error {
	c.store.log(c.key, "unlock")
	return nil
}

// Each write is a round trip that a launch or a deletion waits for. Claims are therefore acquired and released together
// with other writes.
func TestWritesOfANodeInASharedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		for _, run := range []struct {
			opt  plan.Options
			want []string
		}{
			{plan.Options{}, []string{"init", "claim and building", "building", "ready and release"}},
			{plan.Options{Destroy: true}, []string{"claim and deleting", "delete"}},
		} {
			l.shared = &claimedStore{writes: map[string][]string{}}
			l.mustRun(t, run.opt)
			if len(l.shared.writes) != 3 {
				t.Errorf("there were writes of %d nodes, want 3", len(l.shared.writes))
			}
			for _, id := range slices.Sorted(maps.Keys(l.shared.writes)) {
				got := slices.DeleteFunc(l.shared.writes[id], func(what string) bool { return what == "unlock" && run.opt.Destroy }) // of a removed record
				if diff := cmp.Diff(run.want, got); diff != "" {
					t.Errorf("node %s (-want +got):\n%s", id, diff)
				}
			}
		}
	})
}
