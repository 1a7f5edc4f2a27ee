//go:build integration

package zookeeper_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// startZuul starts Zuul's own classes in the tree.
func startZuul(t *testing.T, tr *tree) *lab.Peer {
	t.Helper()
	return lab.StartPeer(t, tr.Env, lab.PeerOptions{Hosts: tr.Hosts + tr.chroot})
}

func hex32() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// lockedRecords creates one record for each kind of lock of Nodepool and returns it with the lock directory.
func lockedRecords(t *testing.T, s *zookeeper.Store) map[string]state.Entry {
	t.Helper()
	building := one(t, s, state.Op{Record: &resources.Build{ID: hex32(), Image: "noble", State: resources.StateBuilding, StateTime: time.Now()}})
	built := one(t, s, state.Op{Record: &resources.Build{ID: hex32(), Image: "jammy", State: resources.StateBuilding, StateTime: time.Now()}})
	ready := built.Record.(*resources.Build)
	ready.State = resources.StateReady
	built = one(t, s, state.Op{Record: ready, Revision: built.Revision})
	uploading := one(t, s, state.Op{Record: &resources.Upload{Image: "jammy", Build: ready.ID, Provider: "one", State: resources.StateUploading, StateTime: time.Now()}})
	asked, made := one(t, s, state.Op{Record: request("debian")}), one(t, s, state.Op{Record: node(resources.StateReady)})
	return map[string]state.Entry{
		"/nodepool/requests-lock/" + asked.Record.Key().ID:                         asked,
		"/nodepool/nodes/" + made.Record.Key().ID + "/lock":                        made,
		"/nodepool/images/noble/builds/lock":                                       building,
		"/nodepool/images/jammy/builds/" + ready.ID + "/lock":                      built,
		"/nodepool/images/jammy/builds/" + ready.ID + "/providers/one/images/lock": uploading,
	}
}

func TestLocksExcludeZuulAndViceVersa(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s, zuul, ctx := tr.open(t), startZuul(t, tr), t.Context()
	for dir, entry := range lockedRecords(t, s) {
		key := entry.Record.Key()
		claim, _, err := s.Claim(ctx, key)
		testutil.Must(t, err)
		if got, err := zuul.TryLock(ctx, dir); err != nil || got {
			t.Errorf("%s: Zuul has the lock (%t, %v) though npctl has claimed %s", dir, got, err, key)
		}
		testutil.Must(t, claim.Unlock(ctx))
		if got, err := zuul.TryLock(ctx, dir); err != nil || !got {
			t.Errorf("%s: Zuul has no lock (%t, %v) though npctl has given %s back", dir, got, err, key)
		}
		if _, _, err := s.Claim(ctx, key); !errors.Is(err, state.ErrLocked) {
			t.Errorf("%s: %v, want ErrLocked while Zuul has the lock", key, err)
		}
		_, err = s.Commit(ctx, state.Op{Key: key, Revision: entry.Revision})
		if !errors.Is(err, state.ErrLocked) || !errors.Is(err, state.ErrConflict) {
			t.Errorf("%s: commit: %v, want ErrLocked and ErrConflict", key, err)
		}
		testutil.Must(t, s.Sync(ctx))
		if want := map[resources.Key]bool{key: true}; !cmp.Equal(s.Claimed(), want) {
			t.Errorf("claimed are %v, want %v", s.Claimed(), want)
		}
		testutil.Must(t, zuul.Unlock(ctx, dir))
		testutil.Must(t, s.Sync(ctx))
		if claim, _, err = s.Claim(ctx, key); err != nil {
			t.Errorf("%s: %v after Zuul's unlock", key, err)
			continue
		}
		testutil.Must(t, claim.Unlock(ctx))
	}
}

// taker claims a node and returns a function that releases the claim.
type taker func(ctx context.Context, s *zookeeper.Store, key resources.Key) (release func() error, err error)

func takeByClaim(ctx context.Context, s *zookeeper.Store, key resources.Key) (func() error, error) {
	claim, _, err := s.Claim(ctx, key)
	return func() error { return claim.Unlock(ctx) }, err
}

func takeByCommit(ctx context.Context, s *zookeeper.Store, key resources.Key) (func() error, error) {
	entry, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	entries, err := s.Commit(ctx, state.Op{Record: commented(entry), Revision: entry.Revision, Claim: true})
	return func() error {
		_, err := s.Commit(ctx, state.Op{Record: commented(entries[0]), Revision: entries[0].Revision, Release: true})
		return err
	}, err
}

// Zuul waits for a node's lock and gets it as soon as it is free.
func TestZuulWaitsForOurLock(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]taker{"by themselves": takeByClaim, "by commits": takeByCommit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zuulWaits(t, take)
		})
	}
}

func zuulWaits(t *testing.T, take taker) {
	tr := newTree(t)
	s, zuul, ctx := tr.open(t), startZuul(t, tr), t.Context()
	key := one(t, s, state.Op{Record: node(resources.StateReady)}).Record.Key()
	dir := "/nodepool/nodes/" + key.ID + "/lock"
	release, err := take(ctx, s, key)
	testutil.Must(t, err)
	got := make(chan error, 1)
	go func() { got <- zuul.Lock(ctx, dir, time.Minute) }()
	testutil.Await(t, "Zuul is in the queue", func() bool { return len(tr.children(t, dir)) == 2 })
	if _, _, err := s.Claim(ctx, key); !errors.Is(err, state.ErrLocked) {
		t.Errorf("a second claim: %v, want ErrLocked", err)
	}
	testutil.Must(t, release())
	testutil.Must(t, <-got)
	if _, _, err := s.Claim(ctx, key); !errors.Is(err, state.ErrLocked) {
		t.Errorf("%v, want ErrLocked: Zuul has the node", err)
	}
}

// Zuul and npctl take and release one lock as fast as they can, npctl by claims and by commits; they never hold it
// together.
func TestLocksAreExclusive(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	zuul, ctx := startZuul(t, tr), t.Context()
	one1, two := tr.open(t), tr.open(t)
	key := one(t, one1, state.Op{Record: node(resources.StateReady)}).Record.Key()
	dir := "/nodepool/nodes/" + key.ID + "/lock"
	testutil.Must(t, two.Sync(ctx))
	var inside, times atomic.Int32
	hold := func(who string) {
		if n := inside.Add(1); n != 1 {
			t.Errorf("%d have the lock, %s among them", n, who)
		}
		times.Add(1)
		inside.Add(-1)
	}
	var wg sync.WaitGroup
	for _, s := range []*zookeeper.Store{one1, two} {
		wg.Go(func() {
			for i := range 150 {
				take := []taker{takeByClaim, takeByCommit}[i%2]
				release, err := take(ctx, s, key)
				if errors.Is(err, state.ErrLocked) {
					continue
				}
				if err != nil && !errors.Is(err, state.ErrConflict) {
					t.Errorf("claim: %v", err)
					return
				}
				if err != nil {
					continue
				}
				hold("npctl")
				if err := release(); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 150 {
			got, err := zuul.TryLock(ctx, dir)
			if err != nil {
				t.Errorf("TryLock: %v", err)
				return
			}
			if !got {
				continue
			}
			hold("Zuul")
			if err := zuul.Unlock(ctx, dir); err != nil {
				t.Errorf("Unlock: %v", err)
			}
		}
	})
	wg.Wait()
	if times.Load() == 0 {
		t.Error("no process ever had the lock")
	}
}

// Zuul's write under its lock and npctl's commits without a claim never overwrite one another.
func TestCommitsWithoutAClaimRespectZuulsLock(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s, zuul, ctx := tr.open(t), startZuul(t, tr), t.Context()
	entry := one(t, s, state.Op{Record: node(resources.StateReady)})
	at := "/nodepool/nodes/" + entry.Record.Key().ID
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var commits atomic.Int32
	wg.Go(func() {
		for n := 0; !closed(stop); n++ {
			now, err := s.Get(ctx, entry.Record.Key())
			if err != nil {
				t.Errorf("Get: %v", err)
				return
			}
			changed := now.Record.(*resources.Node)
			changed.Attempt++
			switch _, err := s.Commit(ctx, state.Op{Record: changed, Revision: now.Revision}); {
			case err == nil:
				commits.Add(1)
			case !errors.Is(err, state.ErrConflict):
				t.Errorf("Commit: %v", err)
				return
			}
		}
	})
	for range 60 {
		if got, err := zuul.TryLock(ctx, at+"/lock"); err != nil || !got {
			testutil.Must(t, err)
			continue
		}
		before, err := zuul.Read(ctx, at)
		testutil.Must(t, err)
		after, err := zuul.Read(ctx, at)
		testutil.Must(t, err)
		if before.Version != after.Version {
			t.Errorf("version %d became %d while Zuul had the lock", before.Version, after.Version)
		}
		testutil.Must(t, zuul.Unlock(ctx, at+"/lock"))
	}
	close(stop)
	wg.Wait()
	if commits.Load() == 0 {
		t.Error("nothing was committed")
	}
	last, err := s.Get(ctx, entry.Record.Key())
	if got := last.Record.(*resources.Node).Attempt; err != nil || got != int64(commits.Load()) {
		t.Errorf("%d commits have raised it to %d, %v", commits.Load(), got, err)
	}
}

// The whole cycle: a real Zuul creates a request, npctl serves it as a launcher, and Zuul uses and returns the nodes.
func TestRequestByZuul(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s, zuul, ctx := tr.open(t), startZuul(t, tr), t.Context()
	testutil.Must(t, s.Register(ctx, resources.Presence{Pools: []resources.RegisteredPool{{Provider: "cloud", Pool: "main", Labels: []string{"small", "large"}, Priority: 100}}}))
	pools, err := zuul.AwaitPools(ctx, 1)
	testutil.Must(t, err)
	if diff := cmp.Diff([]string{"large", "small"}, pools[0].Labels); diff != "" {
		t.Errorf("Zuul sees the labels (-want +got):\n%s", diff)
	}
	sent, err := zuul.Request(ctx, lab.Request{Labels: []string{"small", "large"}})
	testutil.Must(t, err)
	key := key(resources.KindRequest, sent.ID)
	testutil.Await(t, "the request is known", func() bool { _, err := s.Get(ctx, key); return err == nil })

	claim, entry, err := s.Claim(ctx, key)
	testutil.Must(t, err)
	asked := entry.Record.(*resources.Request)
	asked.State, asked.Placement = resources.StatePending, resources.Placement{Provider: "cloud", Pool: "main"}
	ops := []state.Op{{Record: asked, Revision: entry.Revision}}
	for _, label := range asked.Labels {
		n := node(resources.StateInit)
		n.Labels, n.Request = []string{label}, asked.ID
		ops = append(ops, state.Op{Record: n})
	}
	entries, err := s.Commit(ctx, ops...)
	testutil.Must(t, err)
	if revised, err := zuul.Revise(ctx, sent.ID, 7); err != nil || revised {
		t.Errorf("Zuul has revised a request that npctl has claimed: %t, %v", revised, err)
	}
	asked = entries[0].Record.(*resources.Request)
	revision := entries[0].Revision
	for _, made := range entries[1:] {
		asked.Nodes = append(asked.Nodes, launch(t, s, made))
	}
	asked.State, asked.StateTime = resources.StateFulfilled, time.Now()
	one(t, s, state.Op{Record: asked, Revision: revision})
	testutil.Must(t, claim.Unlock(ctx))

	outcome, err := zuul.Wait(ctx, sent.ID, time.Minute)
	testutil.Must(t, err)
	if outcome.State != "fulfilled" || !cmp.Equal(outcome.Nodes, asked.Nodes) || string(outcome.RequestorData) != string(sent.RequestorData) {
		t.Errorf("Zuul has %+v, sent %s, and npctl gave %v", outcome, sent.RequestorData, asked.Nodes)
	}
	held, err := zuul.Accept(ctx, sent.ID)
	testutil.Must(t, err)
	if len(held) != 2 || held[0]["label"] != "small" || held[1]["label"] != "large" {
		t.Errorf("Zuul holds %v", held)
	}
	testutil.Await(t, "the request is gone", func() bool { _, err := s.Get(ctx, key); return errors.Is(err, state.ErrNotFound) })
	testutil.Must(t, zuul.Use(ctx, sent.ID))
	for _, id := range asked.Nodes {
		testutil.Await(t, "the node is in use and claimed", func() bool { return stateOf(t, s, id) == resources.StateInUse && s.Claimed()[nodeKey(id)] })
	}
	testutil.Must(t, zuul.Return(ctx, sent.ID))
	for _, id := range asked.Nodes {
		testutil.Await(t, "the node is used and free", func() bool { return stateOf(t, s, id) == resources.StateUsed && !s.Claimed()[nodeKey(id)] })
		used, err := s.Get(ctx, nodeKey(id))
		testutil.Must(t, err)
		one(t, s, state.Op{Key: nodeKey(id), Revision: used.Revision})
	}
	if left := tr.children(t, "/nodepool/nodes"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// launch creates a ready node with the commits of an executor and releases it.
func launch(t *testing.T, s *zookeeper.Store, made state.Entry) (id string) {
	t.Helper()
	claim, entry, err := s.Claim(t.Context(), made.Record.Key())
	testutil.Must(t, err)
	n := entry.Record.(*resources.Node)
	n.State = resources.StateBuilding
	entry = one(t, s, state.Op{Record: n, Revision: entry.Revision})
	n = entry.Record.(*resources.Node)
	n.State, n.ExternalID, n.Addresses.Interface = resources.StateReady, "b68f", "192.0.2.17"
	n.HostKeys = []string{"ssh-ed25519 AAAA"}
	one(t, s, state.Op{Record: n, Revision: entry.Revision})
	testutil.Must(t, claim.Unlock(t.Context()))
	return n.ID
}

func nodeKey(id string) resources.Key { return key(resources.KindNode, id) }

func stateOf(t *testing.T, s *zookeeper.Store, id string) resources.State {
	t.Helper()
	entry, err := s.Get(t.Context(), nodeKey(id))
	testutil.Must(t, err)
	return entry.Record.(*resources.Node).State
}
