package zookeeper

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	someNode    = nodesDir + "/0000000001"
	someRequest = requestsDir + "/200-0000000001"
	nodeText    = `{"state": "ready", "type": ["a"], "provider": "cloud", "pool": "main"}`
)

// offlineStore returns a store without ZooKeeper that knows the directories which all programs share.
func offlineStore(t *testing.T) *Store {
	t.Helper()
	s, err := newStore(Options{Host: "launch1", Chroot: "/zuul", Log: slog.New(slog.DiscardHandler), Now: time.Now})
	testutil.Must(t, err)
	t.Cleanup(s.stop)
	for _, dir := range []string{requestsDir, requestLocks, nodesDir, imagesDir, namedDir, frozenDir} {
		s.arrive(dir, "")
	}
	return s
}

// arrive applies the event of a new znode, and its content if it has one.
func (s *Store) arrive(at, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange(zk.EventNodeCreated, at)
	if text != "" {
		s.mirror.takeText(at, text, 7)
		delete(s.mirror.cache.dirty, at)
	}
}

func (s *Store) depart(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange(zk.EventNodeDeleted, at)
}

// ownContender puts a contender of this process into a lock directory.
func (s *Store) ownContender(dir string) *contender {
	s.mu.Lock()
	c, _ := s.locks.newContender(dir, nil)
	s.mu.Unlock()
	at := dir + "/" + c.prefix + "__lock__0000000001"
	s.arrive(at, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks.noteMade(c, zk.MultiResponse{String: "/zuul" + at})
	return c
}

func (s *Store) ownClaim(key resources.Key, dir string) *claim {
	c := &claim{contender: s.ownContender(dir), locks: s.locks, key: key}
	s.locks.claims[key] = c
	return c
}

// build returns the multi that a commit sends, or the lock directories in which it queues first.
func (s *Store) build(t *testing.T, ops ...state.Op) (*write, []string, error) {
	t.Helper()
	changes, err := prepare(ops)
	testutil.Must(t, err)
	dirs, err := s.transactions.examine(t.Context(), changes)
	if err != nil || len(dirs) > 0 {
		return nil, dirs, err
	}
	w, err := s.transactions.newWrite(changes, s.mirror.changedFlags(pauseFlags(changes)), nil)
	return w, nil, err
}

// text describes operations, without the chroot and with OWN for the prefixes of new contenders.
func (w *write) text() (lines []string) {
	for _, op := range w.ops {
		line := ""
		switch op := op.(type) {
		case *zk.CreateRequest:
			line = "create " + op.Path + map[int32]string{0: "", zk.FlagSequence: " numbered", zk.FlagEphemeral | zk.FlagSequence: " ephemeral"}[op.Flags]
		case *zk.DeleteRequest:
			line = fmt.Sprintf("delete %s %d", op.Path, op.Version)
		case *zk.SetDataRequest:
			line = fmt.Sprintf("set %s %d", op.Path, op.Version)
		case *zk.CheckVersionRequest:
			line = fmt.Sprintf("check %s %d", op.Path, op.Version)
		}
		for prefix := range w.locks.ownContenders {
			line = strings.ReplaceAll(line, prefix, "OWN")
		}
		lines = append(lines, strings.ReplaceAll(line, "/zuul/nodepool", ""))
	}
	return lines
}

func (s *Store) record(t *testing.T, kind resources.Kind, id string) (resources.Record, state.Revision) {
	t.Helper()
	entry, err := s.mirror.getShared(resources.Key{Kind: kind, ID: id})
	testutil.Must(t, err)
	return entry.Record, entry.Revision
}

func (s *Store) usedNode(t *testing.T) state.Op {
	t.Helper()
	record, revision := s.record(t, resources.KindNode, "0000000001")
	record.(*resources.Node).State = resources.StateInUse
	return state.Op{Record: record, Revision: revision}
}

func TestCommitIsOneMulti(t *testing.T) {
	t.Parallel()
	const serial = "set /zuul/npctl/serial -1"
	node := &resources.Node{State: resources.StateInit, Provider: "cloud", Pool: "main", Labels: []string{"a"}}
	key := resources.Key{Kind: resources.KindNode, ID: "0000000001"}
	for name, test := range map[string]struct {
		prepare func(s *Store)
		op      func(s *Store) state.Op
		want    []string
	}{
		"a new node": {op: func(*Store) state.Op { return state.Op{Record: node} }, want: []string{"create /nodes/ numbered", serial}},
		"a new request": {op: func(*Store) state.Op {
			return state.Op{Record: &resources.Request{State: resources.StateRequested, Priority: 100, Labels: []string{"a"}}}
		}, want: []string{"create /requests/100- numbered", serial}},
		"an unclaimed node": {op: func(s *Store) state.Op { return s.usedNode(t) }, want: []string{"create /nodes/0000000001/lock", "set /nodes/0000000001 0", serial}},
		"a node that was locked before": {prepare: func(s *Store) { s.arrive(someNode+"/lock", "") }, op: func(s *Store) state.Op { return s.usedNode(t) },
			want: []string{"delete /nodes/0000000001/lock -1", "create /nodes/0000000001/lock", "set /nodes/0000000001 0", serial}},
		"a claimed node": {prepare: func(s *Store) { s.ownClaim(key, someNode+"/lock") }, op: func(s *Store) state.Op { return s.usedNode(t) },
			want: []string{"check /nodes/0000000001/lock/OWN__lock__0000000001 -1", "set /nodes/0000000001 0", serial}},
		"with a claim": {op: func(s *Store) state.Op { op := s.usedNode(t); op.Claim = true; return op },
			want: []string{"create /nodes/0000000001/lock", "set /nodes/0000000001 0", "create /nodes/0000000001/lock/OWN__lock__ ephemeral", serial}},
		"with a release": {prepare: func(s *Store) { s.ownClaim(key, someNode+"/lock") },
			op: func(s *Store) state.Op { op := s.usedNode(t); op.Release = true; return op },
			want: []string{"check /nodes/0000000001/lock/OWN__lock__0000000001 -1", "set /nodes/0000000001 0",
				"delete /nodes/0000000001/lock/OWN__lock__0000000001 -1", serial}},
		"under a named lock": {prepare: func(s *Store) {
			s.locks.named[&lock{contender: s.ownContender(namedDir + "/apply"), name: "apply"}] = struct{}{}
		},
			op: func(*Store) state.Op { return state.Op{Record: node} }, want: []string{"check /zuul/npctl/locks/apply/OWN__lock__0000000001 -1", "create /nodes/ numbered", serial}},
		"deletion of a request": {prepare: func(s *Store) { s.arrive(requestLocks+"/200-0000000001", "") },
			op: func(s *Store) state.Op {
				_, revision := s.record(t, resources.KindRequest, "200-0000000001")
				return state.Op{Key: resources.Key{Kind: resources.KindRequest, ID: "200-0000000001"}, Revision: revision}
			}, want: []string{"delete /requests-lock/200-0000000001 -1", "delete /requests/200-0000000001 0", serial}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := offlineStore(t)
			s.arrive(someNode, nodeText)
			s.arrive(someRequest, zuulsRequest)
			if test.prepare != nil {
				test.prepare(s)
			}
			w, dirs, err := s.build(t, test.op(s))
			if err != nil || len(dirs) > 0 {
				t.Fatalf("%v, queues in %q", err, dirs)
			}
			if diff := cmp.Diff(test.want, w.text()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewBuildQueuesForTheLockOfItsImage(t *testing.T) {
	t.Parallel()
	s := offlineStore(t)
	_, dirs, err := s.build(t, state.Op{Record: &resources.Build{ID: buildHex, Image: "noble", Kind: resources.DiskImage, State: resources.StateBuilding}})
	if want := []string{imagesDir + "/noble/builds/lock"}; err != nil || !cmp.Equal(want, dirs) {
		t.Errorf("queues in %q, %v; want %q", dirs, err, want)
	}
}

func TestCommitIsRejectedBeforeTheCall(t *testing.T) {
	t.Parallel()
	key := resources.Key{Kind: resources.KindNode, ID: "0000000001"}
	for name, test := range map[string]struct {
		prepare func(s *Store, op *state.Op)
		want    []error
	}{
		"another process has the lock": {func(s *Store, _ *state.Op) { s.arrive(someNode+"/lock/"+somePrefix+"__lock__0000000000", "") },
			[]error{state.ErrLocked, state.ErrConflict}},
		"another revision": {func(_ *Store, op *state.Op) { op.Revision = 3 }, []error{state.ErrConflict}},
		"the claim is lost": {func(s *Store, _ *state.Op) {
			s.depart(s.ownClaim(key, someNode+"/lock").path)
		}, []error{state.ErrLost}},
	} {
		s := offlineStore(t)
		s.arrive(someNode, nodeText)
		op := s.usedNode(t)
		test.prepare(s, &op)
		_, _, err := s.build(t, op)
		for _, want := range test.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
}

func TestRejectionOfAnOperation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why      purpose
		err      error
		want     error
		released bool
	}{
		{why: forLock, err: zk.ErrNoNode, want: state.ErrLost}, {why: forLock, err: zk.ErrNoNode, want: errRetry, released: true},
		{why: forClaim, err: zk.ErrNoNode, want: state.ErrLost}, {why: forUnlock, err: zk.ErrNoNode, want: state.ErrLost},
		{why: forRecord, err: zk.ErrBadVersion, want: state.ErrConflict}, {why: forRecord, err: zk.ErrNoNode, want: state.ErrConflict},
		{why: forFence, err: zk.ErrNotEmpty, want: state.ErrLocked}, {why: forFence, err: zk.ErrNoNode, want: errRetry},
		{why: forDir, err: zk.ErrNodeExists, want: errRetry},
	} {
		w := &write{session: &session{}, why: []purpose{test.why}, what: []string{"/x"}, of: []*change{{}}, locked: map[int]*contender{0: {lost: make(chan struct{}), released: test.released}}}
		if err := w.refused(0, test.err); !errors.Is(err, test.want) {
			t.Errorf("purpose %d, %v: %v, want %v", test.why, test.err, err, test.want)
		}
	}
}

// The store counts the events of the znodes that it writes: the first is that of its own change.
func TestOwnWriteIsReadAgainOnlyAfterAForeignChange(t *testing.T) {
	t.Parallel()
	for events, dirty := range map[int]bool{1: false, 2: true} {
		s := offlineStore(t)
		s.arrive(someNode, nodeText)
		w, _, err := s.build(t, s.usedNode(t))
		testutil.Must(t, err)
		s.mu.Lock()
		for range events {
			s.onChange(zk.EventNodeDataChanged, someNode)
		}
		if s.mirror.isUnread(someNode) {
			t.Error("the feed reads a znode during the own write")
		}
		results := make([]zk.MultiResponse, len(w.ops))
		results[1].Stat, results[2].Stat = &zk.Stat{Version: 1}, &zk.Stat{Mzxid: 9}
		w.done(results, nil)
		s.mu.Unlock()
		s.mirror.endOwnWrite(w.own)
		record, revision := s.record(t, resources.KindNode, "0000000001")
		if record.(*resources.Node).State != resources.StateInUse || revision != 9 {
			t.Errorf("%+v at revision %d, want the committed record at 9", record, revision)
		}
		if got := s.mirror.isUnread(someNode); got != dirty {
			t.Errorf("after %d events the znode is unread: %t, want %t", events, got, dirty)
		}
	}
}
