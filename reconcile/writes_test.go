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

// claimedStore is a shared store. It logs the writes to each node, build and upload, including their claims.
type claimedStore struct {
	state.Store
	state.Identified

	mu     sync.Mutex // guards the field below
	writes map[resources.Key][]string
}

var _ state.Shared = (*claimedStore)(nil)

func (s *claimedStore) log(key resources.Key, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes[key] = append(s.writes[key], what)
}

// of returns the keys of the records of a kind that were written.
func (s *claimedStore) of(kind resources.Kind) []resources.Key {
	return slices.DeleteFunc(slices.Collect(maps.Keys(s.writes)), func(key resources.Key) bool { return key.Kind != kind })
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
			entries[i].ClaimLock = &loggedClaim{s, entries[i].Record.Key()}
			s.log(entries[i].Record.Key(), "claim and "+string(resources.StateOf(op.Record)))
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
			l.shared = &claimedStore{writes: map[resources.Key][]string{}}
			l.mustRun(t, run.opt)
			nodes := l.shared.of(resources.KindNode)
			if len(nodes) != 3 {
				t.Errorf("there were writes of %d nodes, want 3", len(nodes))
			}
			for _, node := range nodes {
				got := slices.DeleteFunc(l.shared.writes[node], func(what string) bool { return what == "unlock" && run.opt.Destroy }) // of a removed record
				if diff := cmp.Diff(run.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", node, diff)
				}
			}
		}
	})
}

// The cleanup of another builder deletes a build or an upload that is in progress and not locked.
func TestNewBuildsAndUploadsAreClaimedByTheirCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, oneCloud(), emulator.Options{})
		l.shared = &claimedStore{writes: map[resources.Key][]string{}}
		l.mustRun(t, plan.Options{})
		for kind, want := range map[resources.Kind]string{resources.KindBuild: "claim and building", resources.KindUpload: "claim and uploading"} {
			made := l.shared.of(kind)
			if len(made) == 0 {
				t.Errorf("no %s was written", kind)
			}
			for _, key := range made {
				if got := l.shared.writes[key]; got[0] != want {
					t.Errorf("the writes of %s are %v, want first: %s", key, got, want)
				}
			}
		}
	})
}
