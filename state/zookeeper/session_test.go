//go:build integration

package zookeeper_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// quick is the timeout of a session that is to end soon. Before that, the session must survive on a busy machine.
const quick = 3 * time.Second

// remote is a store that has a claim and a lock, on a connection that the test can cut or silence.
type remote struct {
	*zookeeper.Store
	proxy *lab.Proxy
	node  state.Entry
	claim state.Lock
	lock  state.Lock
}

func openRemote(t *testing.T, tr *tree, timeout time.Duration) *remote {
	t.Helper()
	r := &remote{proxy: lab.StartProxy(t, tr.servers()[0])}
	r.Store = tr.open(t, through(r.proxy), session(timeout), silent)
	key := one(t, r, state.Op{Record: node(resources.StateInit)}).Record.Key()
	var err error
	r.claim, r.node, err = r.Claim(t.Context(), key)
	testutil.Must(t, err)
	r.lock, err = r.Lock(t.Context(), "apply", state.Holder{Operation: "watch"})
	testutil.Must(t, err)
	testutil.Must(t, r.Register(t.Context(), resources.Presence{Pools: []resources.RegisteredPool{{Provider: "cloud", Pool: "main", Labels: []string{"debian"}}}}))
	return r
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestClaimsAndLocksSurviveACutConnection(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	other := tr.open(t)
	r := openRemote(t, tr, 20*time.Second)
	session := r.Session()
	for range 3 {
		before := r.proxy.Connections()
		r.proxy.Cut()
		testutil.Await(t, "there is another connection", func() bool { return r.proxy.Connections() > before && r.Connected() })
		changed := r.node.Record.(*resources.Node)
		changed.Comment += "x"
		r.node = one(t, r, state.Op{Record: changed, Revision: r.node.Revision})
	}
	if closed(r.claim.Lost()) || closed(r.lock.Lost()) || r.Session() != session {
		t.Error("the session did not last")
	}
	if _, _, err := other.Claim(t.Context(), r.node.Record.Key()); !errors.Is(err, state.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	if err := r.claim.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenSurvivesCutConnections(t *testing.T) {
	t.Parallel()
	for n := 0; n < 20; n += 2 { // each is cut at another moment
		tr := newTree(t)
		proxy := lab.StartProxy(t, tr.servers()[0])
		opened := make(chan error, 1)
		go func() {
			opened <- tryOpen(t.Context(), t, tr, func(o *zookeeper.Options) { o.Hosts = []string{proxy.Address()} })
		}()
		testutil.Await(t, "there is a connection", func() bool { return proxy.Connections() > 0 })
		time.Sleep(time.Duration(n) * time.Millisecond)
		proxy.Cut()
		if err := <-opened; err != nil {
			t.Errorf("cut %d ms after it was made: %v", n, err)
		}
	}
}

func TestObserverReceivesCallsAndReconnections(t *testing.T) {
	t.Parallel()
	r := openRemote(t, newTree(t), 20*time.Second)
	var reconnections, answered atomic.Int64
	r.Observe(&state.Observer{Reconnected: func() { reconnections.Add(1) }, Called: func(took time.Duration, ok bool) {
		if ok && took > 0 {
			answered.Add(1)
		}
	}})
	one(t, r, state.Op{Record: node(resources.StateInit)})
	if answered.Load() == 0 || reconnections.Load() != 0 {
		t.Errorf("%d calls, %d reconnections; want calls only", answered.Load(), reconnections.Load())
	}
	r.proxy.Block()
	testutil.Await(t, "the connection is seen to be gone", func() bool { return !r.Connected() })
	r.proxy.Unblock()
	testutil.Await(t, "it is connected again", r.Connected)
	if reconnections.Load() == 0 {
		t.Error("the reconnection is not counted")
	}
}

func TestReconnectionFindsMissedChanges(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	other := tr.open(t)
	r := openRemote(t, tr, 20*time.Second)
	kept := one(t, other, state.Op{Record: node(resources.StateReady)})
	gone := one(t, other, state.Op{Record: node(resources.StateReady)})
	testutil.Must(t, r.Sync(t.Context()))
	r.Changes()
	r.proxy.Block()
	testutil.Await(t, "the connection is seen to be gone", func() bool { return !r.Connected() })
	if _, err := r.List(t.Context()); err != nil {
		t.Errorf("List without a connection: %v; it serves what was known last", err)
	}
	changed := kept.Record.(*resources.Node)
	changed.Comment = "changed"
	kept = one(t, other, state.Op{Record: changed, Revision: kept.Revision})
	made := one(t, other, state.Op{Record: node(resources.StateReady)})
	one(t, other, state.Op{Key: gone.Record.Key(), Revision: gone.Revision})
	claim, _, err := other.Claim(t.Context(), made.Record.Key())
	testutil.Must(t, err)
	defer func() { testutil.Must(t, claim.Unlock(t.Context())) }()
	r.proxy.Unblock()
	testutil.Await(t, "it is connected again", r.Connected)
	entries, lost := r.Changes()
	slices.SortFunc(entries, func(a, b state.Entry) int { return int(a.Revision) - int(b.Revision) })
	if diff := cmp.Diff([]state.Entry{kept, made}, entries); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]resources.Key{gone.Record.Key()}, lost); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
	if claimed := r.Claimed(); !claimed[made.Record.Key()] {
		t.Errorf("claimed are %v, want the new node", claimed)
	}
	if closed(r.claim.Lost()) {
		t.Error("the claim was lost though the session lasted")
	}
}

// If the data of ZooKeeper was lost, a process may find the head of the state before another process has created the rest.
func TestReconnectionCompletesTheState(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	proxy := lab.StartProxy(t, tr.servers()[0])
	s := tr.open(t, through(proxy), silent)
	proxy.Block()
	testutil.Await(t, "the connection is seen to be gone", func() bool { return !s.Connected() })
	for _, path := range []string{"/nodepool/nodes", "/npctl/serial"} {
		testutil.Must(t, tr.raw.Delete(tr.chroot+path, -1))
	}
	proxy.Unblock()
	testutil.Await(t, "it is connected again", s.Connected)
	one(t, s, state.Op{Record: node(resources.StateReady)})
}

func TestLocksAreLostAfterTheSessionTimeout(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	other := tr.open(t)
	r := openRemote(t, tr, quick)
	testutil.Await(t, "the pool is registered", func() bool { return len(other.RegisteredPools()) == 1 })
	id := other.RegisteredPools()[0].ID
	key := r.node.Record.Key()
	r.proxy.Pause()
	testutil.Await(t, "the silence is noticed", func() bool { return !r.Connected() })
	// The holder must know that its claim is lost before another process can have it.
	claimed := make(chan bool, 1)
	testutil.Await(t, "another can claim it", func() bool {
		_, _, err := other.Claim(t.Context(), key)
		if err == nil {
			claimed <- closed(r.claim.Lost())
		}
		return err == nil
	})
	if !<-claimed {
		t.Error("another claim was made before this one was lost")
	}
	if !closed(r.lock.Lost()) {
		t.Error("the lock is not lost")
	}
	testutil.Must(t, other.Sync(t.Context()))
	if peers := other.RegisteredPools(); len(peers) != 0 {
		t.Errorf("%v is registered still", peers)
	}
	now := one(t, other, state.Op{Record: withComment(r.node, "another's"), Revision: r.node.Revision})
	r.proxy.Resume()
	testutil.Await(t, "it is connected again", r.Connected)
	if _, err := r.Commit(t.Context(), state.Op{Record: withComment(r.node, "mine"), Force: true}); !errors.Is(err, state.ErrLost) {
		t.Errorf("commit under a lost lock: %v, want ErrLost", err)
	}
	testutil.Must(t, r.lock.Unlock(t.Context()))
	if _, err := r.Commit(t.Context(), state.Op{Record: withComment(r.node, "mine"), Force: true}); !errors.Is(err, state.ErrLost) {
		t.Errorf("commit under a lost claim: %v, want ErrLost", err)
	}
	testutil.Must(t, r.claim.Unlock(t.Context()))
	if _, err := r.Commit(t.Context(), state.Op{Record: withComment(r.node, "mine"), Force: true}); !errors.Is(err, state.ErrLocked) {
		t.Errorf("commit of what another has claimed: %v, want ErrLocked", err)
	}
	if got, err := r.Get(t.Context(), key); err != nil || !cmp.Equal(got, now) {
		t.Errorf("got %+v, %v; want %+v", got, err, now)
	}
	testutil.Await(t, "the pool is registered again", func() bool { return len(other.RegisteredPools()) == 1 })
	if again := other.RegisteredPools()[0].ID; again != id {
		t.Errorf("the pool has the id %s, had %s", again, id)
	}
	l, err := r.Lock(t.Context(), "apply", state.Holder{Operation: "watch"})
	testutil.Must(t, err)
	testutil.Must(t, l.Unlock(t.Context()))
}

func withComment(e state.Entry, text string) *resources.Node {
	n := *e.Record.(*resources.Node)
	n.Comment = text
	return &n
}

// A commit that is sent but unanswered when the session ends arrives late, or never. ZooKeeper must not execute it
// then.
func TestCommitAfterTheSessionIsNotWritten(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	other := tr.open(t)
	r := openRemote(t, tr, quick)
	key := r.node.Record.Key()
	r.proxy.Pause()
	result := make(chan error, 1)
	go func() {
		_, err := r.Commit(t.Context(), state.Op{Record: withComment(r.node, "late"), Revision: r.node.Revision})
		result <- err
	}()
	testutil.Await(t, "another can claim it", func() bool {
		_, _, err := other.Claim(t.Context(), key)
		return err == nil
	})
	r.proxy.Resume()
	if err := <-result; err == nil {
		t.Error("a commit in a session that has ended says that it was done")
	}
	testutil.Await(t, "it is connected again", r.Connected)
	testutil.Must(t, other.Sync(t.Context()))
	if got, err := other.Get(t.Context(), key); err != nil || got.Revision != r.node.Revision {
		t.Errorf("the record is %+v, %v; want it untouched", got, err)
	}
}

func TestKilledProcessLosesItsLocks(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	keys := map[resources.Key]bool{}
	for range 5 {
		keys[one(t, s, state.Op{Record: node(resources.StateReady)}).Record.Key()] = true
	}
	kill := startHolder(t, tr)
	testutil.Await(t, "all nodes are claimed", func() bool { return cmp.Equal(s.Claimed(), keys) && len(s.RegisteredPools()) == 1 })
	killed := time.Now()
	kill()
	testutil.Await(t, "no node is claimed", func() bool { return len(s.Claimed()) == 0 && len(s.RegisteredPools()) == 0 })
	t.Logf("it took %s with a session of %s", time.Since(killed), quick)
	for key := range keys {
		c, _, err := s.Claim(t.Context(), key)
		testutil.Must(t, err)
		testutil.Must(t, c.Unlock(t.Context()))
	}
}

func TestCloseRemovesEphemeralZnodes(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	r := openRemote(t, tr, 20*time.Second)
	testutil.Must(t, r.Close())
	for _, dir := range []string{"/nodepool/components/pool", "/nodepool/components/launcher", "/npctl/locks/apply",
		"/nodepool/nodes/" + r.node.Record.Key().ID + "/lock"} {
		if names := tr.children(t, dir); len(names) > 0 {
			t.Errorf("%s holds %v", dir, names)
		}
	}
}
