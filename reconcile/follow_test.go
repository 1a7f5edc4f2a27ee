package reconcile

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// sharedStore is a store that other processes use too. They act at the moment that a test chooses.
type sharedStore struct {
	*bolt.Store
	changed   []state.Entry
	gone      []resources.Key
	connected bool
	wished    []string

	locks                   map[string]*testLock // all locks ever acquired, by name
	others                  map[string]bool      // locks of other processes
	afterCommit, afterClaim func()               // called once, before Commit or Claim returns
	claimErr                func() error         // result of each claim
	calls                   []string             // calls that change locks
}

var _ state.Shared = (*sharedStore)(nil)

func newShared(t *testing.T) *sharedStore {
	t.Helper()
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &sharedStore{Store: store, connected: true}
}

func once(do *func()) {
	if now := *do; now != nil {
		*do = nil
		now()
	}
}

func (s *sharedStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	claims := slices.ContainsFunc(ops, func(op state.Op) bool { return op.Claim })
	if claims && s.claimErr != nil {
		return nil, s.claimErr()
	}
	if claims {
		once(&s.afterClaim)
	}
	entries, err := s.Store.Commit(ctx, ops...)
	for i := range entries {
		switch {
		case ops[i].Claim:
			entries[i].ClaimLock = s.lock()
			s.calls = append(s.calls, "commit with a claim")
		case ops[i].Release:
			s.calls = append(s.calls, "commit with a release")
		}
	}
	once(&s.afterCommit)
	return entries, err
}

func (s *sharedStore) Claim(ctx context.Context, key resources.Key) (state.Lock, state.Entry, error) {
	entry, err := s.Get(ctx, key)
	if err != nil {
		return nil, entry, err
	}
	if s.claimErr != nil {
		return nil, entry, s.claimErr()
	}
	once(&s.afterClaim)
	s.calls = append(s.calls, "claim")
	return s.lock(), entry, nil
}

func (s *sharedStore) lock() *testLock {
	return &testLock{lost: make(chan struct{}), unlocked: func() { s.calls = append(s.calls, "unlock") }}
}

func (s *sharedStore) Lock(_ context.Context, name string, _ state.Holder) (state.Lock, error) {
	if s.others[name] {
		return nil, &state.LockedError{Name: name, Holder: state.Holder{Operation: "watch", UserHost: "zuul@there"}}
	}
	if s.locks == nil {
		s.locks = map[string]*testLock{}
	}
	s.locks[name] = &testLock{lost: make(chan struct{})}
	return s.locks[name], nil
}

func (s *sharedStore) Changes() ([]state.Entry, []resources.Key) {
	changed, gone := s.changed, s.gone
	s.changed, s.gone = nil, nil
	return changed, gone
}
func (s *sharedStore) Claimed() map[resources.Key]bool                    { return nil }
func (s *sharedStore) Register(context.Context, resources.Presence) error { return nil }
func (s *sharedStore) RegisteredPools() []resources.RegisteredPool        { return nil }
func (s *sharedStore) NodepoolBuilders() []string                         { return nil }
func (s *sharedStore) Builders() []string                                 { return nil }
func (s *sharedStore) Sync(context.Context) error                         { return nil }
func (s *sharedStore) RequestedBuilds() []string                          { return s.wished }

func (s *sharedStore) RequestBuild(_ context.Context, image string, wish bool) error {
	s.wished = slices.DeleteFunc(s.wished, func(name string) bool { return name == image && !wish })
	return nil
}

func (s *sharedStore) FrozenProviders() []string { return nil }

func (s *sharedStore) FreezeProvider(context.Context, string, bool) error { return nil }

func (s *sharedStore) Connected() bool { return s.connected }

type testLock struct {
	lost     chan struct{}
	released bool
	unlocked func()
}

func (l *testLock) ID() string            { return "1" }
func (l *testLock) Lost() <-chan struct{} { return l.lost }
func (l *testLock) Unlock(context.Context) error {
	l.released = true
	if l.unlocked != nil {
		l.unlocked()
	}
	return nil
}

// ended returns a function that acts as another process: it removes a record, and this process applies the removal.
func (s *sharedStore) ended(t *testing.T, l *recordCache, key resources.Key) func() {
	return func() {
		entry, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Store.Commit(t.Context(), state.Op{Key: key, Revision: entry.Revision}); err != nil {
			t.Fatal(err)
		}
		s.gone = []resources.Key{key}
		l.catchUp(t.Context())
	}
}

func request(t *testing.T, s *sharedStore) resources.Key {
	t.Helper()
	entries, err := s.Store.Commit(t.Context(), state.Op{Record: &resources.Request{State: resources.StateRequested, Labels: []string{"small"}}})
	if err != nil {
		t.Fatal(err)
	}
	return entries[0].Record.Key()
}

func TestARequestThatEndsWhileItIsAnsweredIsForgotten(t *testing.T) {
	s := newShared(t)
	key := request(t, s)
	l, err := newRecordCache(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := get[resources.Request](l, key)
	r.State = resources.StateFulfilled
	s.afterCommit = s.ended(t, l, key)
	if err := l.put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, known := get[resources.Request](l, key); known {
		t.Error("the request is known still, though it is gone")
	}
}

func TestWriteOfAnotherProcessAfterOursIsApplied(t *testing.T) {
	s := newShared(t)
	key := request(t, s)
	l, err := newRecordCache(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := get[resources.Request](l, key)
	r.State = resources.StatePending
	s.afterCommit = func() {
		now, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		now.Record.(*resources.Request).RelativePriority = 7
		if s.changed, err = s.Store.Commit(t.Context(), state.Op{Record: now.Record, Revision: now.Revision}); err != nil {
			t.Fatal(err)
		}
		l.catchUp(t.Context())
	}
	if err := l.put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if now, _ := get[resources.Request](l, key); now.RelativePriority != 7 {
		t.Errorf("known is %+v, which is older than what others wrote", now)
	}
}

func TestAClaimOfARequestThatEndsMeanwhileIsGivenBack(t *testing.T) {
	s := newShared(t)
	key := request(t, s)
	l, err := newRecordCache(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.afterClaim = s.ended(t, l, key)
	if _, err := l.claims.acquire(t.Context(), "", key); !errors.Is(err, errChanged) {
		t.Errorf("the claim returned %v", err)
	}
	if held := l.claims.keys(); len(held) > 0 {
		t.Errorf("claimed are still %v", held)
	}
}

func TestARequestIsClaimedAndGivenBackByTheCommitsThatAnswerIt(t *testing.T) {
	s := newShared(t)
	key := request(t, s)
	r, err := NewRunner(t.Context(), New(Options{Store: s}))
	if err != nil {
		t.Fatal(err)
	}
	x := &execution{Engine: r.engine, sharedRun: r.sharedRun}
	step := plan.Step{ID: "serve", Kind: plan.KindServe, Record: key, Request: key.ID, Nodes: []string{""}}
	if err := x.serve(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if !r.cache.claims.has(key) {
		t.Error("a request that waits for its nodes is not claimed")
	}
	node := &resources.Node{State: resources.StateReady, Labels: []string{"small"}, Request: key.ID}
	if err := r.cache.put(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	step.Nodes = []string{node.ID}
	if err := x.serve(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if now, _ := get[resources.Request](r.cache, key); now.State != resources.StateFulfilled || r.cache.claims.has(key) {
		t.Errorf("the request is %s, and claimed: %t", now.State, r.cache.claims.has(key))
	}
	if want := []string{"commit with a claim", "commit with a release"}; !slices.Equal(s.calls, want) {
		t.Errorf("the calls were %q, want %q", s.calls, want)
	}
}

func TestClaimedRequestIsSkipped(t *testing.T) {
	s := newShared(t)
	key := request(t, s)
	r, err := NewRunner(t.Context(), New(Options{Store: s}))
	if err != nil {
		t.Fatal(err)
	}
	s.claimErr = func() error { return fmt.Errorf("%w, %w", state.ErrLocked, state.ErrConflict) }
	x := &execution{Engine: r.engine, sharedRun: r.sharedRun}
	step := plan.Step{ID: "serve", Kind: plan.KindServe, Record: key, Request: key.ID, Nodes: []string{""}}
	if err := x.serve(t.Context(), step); !errors.Is(err, errChanged) || r.cache.claims.has(key) {
		t.Errorf("the step ended with %v, and the request is claimed: %t", err, r.cache.claims.has(key))
	}
}

func TestNothingIsDoneInACloudUnlessTheStoreCanBeReliedUpon(t *testing.T) {
	s := newShared(t)
	entries, err := s.Store.Commit(t.Context(), state.Op{Record: &resources.Node{State: resources.StateInit}})
	if err != nil {
		t.Fatal(err)
	}
	c := newClaims(s)
	ctx := c.begin(t.Context(), "step")
	if _, err := c.acquire(ctx, "step", entries[0].Record.Key()); err != nil {
		t.Fatal(err)
	}
	if err := c.awaitConnected(ctx, "step"); err != nil {
		t.Errorf("while all is well: %v", err)
	}
	s.connected = false
	away, cancel := context.WithTimeoutCause(ctx, 3*connectedPoll, errors.New("it took too long"))
	defer cancel()
	if err := c.awaitConnected(away, "step"); err == nil || err.Error() != "it took too long" {
		t.Errorf("while the store is away: %v", err)
	}
	s.connected = true
	close(c.held[entries[0].Record.Key()].lock.(*testLock).lost)
	if err := c.awaitConnected(ctx, "step"); !errors.Is(err, state.ErrLost) {
		t.Errorf("after the claim was lost: %v", err)
	}
}

func TestLockedRecordIsSkippedForAWhile(t *testing.T) {
	s := newShared(t)
	entries, err := s.Store.Commit(t.Context(), state.Op{Record: &resources.Build{ID: "b1", Image: "tiny", Kind: resources.DiskImage, State: resources.StateBuilding}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r, err := NewRunner(t.Context(), New(Options{Store: s, Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	step := plan.Step{ID: "delete build b1", Kind: plan.KindDeleteBuild, Record: entries[0].Record.Key()}
	tries := 0
	begin := func() {
		t.Helper()
		s.claimErr = func() error { tries++; return &state.LockedError{} }
		seen := plan.Observed{Installation: "here"}
		NewObserver(r, "", noneFrozen).Refresh(&seen)
		r.Start(t.Context(), plan.Plan{Steps: []plan.Step{step}}, seen)
		r.steps.Wait()
	}
	if started := r.Start(t.Context(), plan.Plan{Steps: []plan.Step{step}}, plan.Observed{}); len(started) > 0 {
		t.Errorf("started %v without an installation", started)
	}
	begin()
	begin()
	if tries != 1 {
		t.Errorf("the build was asked for %d times at once, want once", tries)
	}
	now = now.Add(lockedElsewherePause)
	begin()
	if tries != 2 {
		t.Errorf("the build was asked for %d times, want once more after the pause", tries)
	}
}

func TestADepartureIsKnownForAsLongAsAnOlderListingIsUsed(t *testing.T) {
	now := time.Now()
	r, err := NewRunner(t.Context(), New(Options{Store: newShared(t), Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	gone := func(listed time.Time) bool {
		seen := plan.Observed{Providers: map[string]plan.ProviderView{"cloud": {ListedAt: listed}}}
		NewObserver(r, "", noneFrozen).Refresh(&seen)
		return seen.Providers["cloud"].DeletedInstances["server"]
	}
	listed := now
	now = now.Add(time.Second)
	r.note(plan.Step{Kind: plan.KindDeleteNode, Provider: "cloud", External: "server"}, now, nil)
	if ahead := now.Add(time.Second); gone(ahead) { // such as for a new configuration, which may be refused
		t.Error("a listing that began later shows by itself that it is gone")
	}
	if !gone(listed) {
		t.Error("the departure was forgotten while the older listing is in use")
	}
	r.ListProvider(t.Context(), "cloud")
	if !gone(listed) {
		t.Error("the departure was forgotten before the newest listing is in use")
	}
	r.listingStarted["cloud"] = now.Add(time.Second)
	r.ListProvider(t.Context(), "cloud")
	if len(r.deletedInstances["cloud"]) != 0 {
		t.Error("the departure is still kept though no listing in use is older")
	}
}
