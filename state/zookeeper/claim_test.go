//go:build integration

package zookeeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// openBehindProxy opens the store through a proxy that can cut the connection. The session survives the cut.
func (tr *tree) openBehindProxy(t *testing.T) (*zookeeper.Store, *lab.Proxy) {
	t.Helper()
	proxy := lab.StartProxy(t, tr.servers()[0])
	return tr.open(t, through(proxy), session(20*time.Second), silent), proxy
}

// nodeAndRequest creates one record of each kind that other programs claim.
func nodeAndRequest(t *testing.T, s state.Store) []state.Entry {
	t.Helper()
	return []state.Entry{one(t, s, state.Op{Record: node(resources.StateReady)}), one(t, s, state.Op{Record: request("debian")})}
}

// unanswered makes a commit that ZooKeeper has executed when the connection is cut, before the answer arrives.
func unanswered(t *testing.T, r, other state.Store, proxy *lab.Proxy, op state.Op) {
	t.Helper()
	key := op.Record.Key()
	proxy.Mute()
	result := make(chan error, 1)
	go func() {
		_, err := r.Commit(t.Context(), op)
		result <- err
	}()
	testutil.Await(t, "the commit is done", func() bool {
		entry, err := other.Get(t.Context(), key)
		return err == nil && entry.Revision > op.Revision
	})
	proxy.Cut()
	proxy.Resume()
	if err := <-result; err == nil {
		t.Error("a commit that was not answered says that it was done")
	}
}

func TestClaimOfUnknownOutcomeIsNotKept(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	other := tr.open(t)
	s, proxy := tr.openBehindProxy(t)
	for _, entry := range nodeAndRequest(t, s) {
		key := entry.Record.Key()
		testutil.Await(t, "the other knows the record", func() bool { _, err := other.Get(t.Context(), key); return err == nil })
		unanswered(t, s, other, proxy, state.Op{Record: commented(entry), Revision: entry.Revision, Claim: true})
		testutil.Await(t, "it is connected again", s.Connected)
		var claim state.Lock
		testutil.Await(t, "the claim is free", func() (ok bool) {
			var err error
			claim, _, err = other.Claim(t.Context(), key)
			return err == nil
		})
		testutil.Await(t, "the record is not listed as claimed", func() bool {
			_, err := s.Commit(t.Context(), state.Op{Record: commented(entry), Force: true, Release: true})
			return errors.Is(err, state.ErrLocked)
		})
		testutil.Must(t, claim.Unlock(t.Context()))
	}
}

func TestClaimEndsAfterReleaseOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	other := tr.open(t)
	s, proxy := tr.openBehindProxy(t)
	for _, entry := range nodeAndRequest(t, s) {
		entries, err := s.Commit(t.Context(), state.Op{Record: commented(entry), Revision: entry.Revision, Claim: true})
		testutil.Must(t, err)
		entry = entries[0]
		testutil.Await(t, "the other knows the claim", func() bool { return other.Claimed()[entry.Record.Key()] })
		unanswered(t, s, other, proxy, state.Op{Record: commented(entry), Revision: entry.Revision, Release: true})
		testutil.Await(t, "it is connected again", s.Connected)
		testutil.Await(t, "the claim is known to be over", func() bool { return closed(entry.ClaimLock.Lost()) })
		if _, err := s.Commit(t.Context(), state.Op{Record: commented(entry), Force: true}); !errors.Is(err, state.ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
		testutil.Must(t, entry.ClaimLock.Unlock(t.Context()))
		_, _, err = other.Claim(t.Context(), entry.Record.Key())
		testutil.Must(t, err)
	}
}

// commented returns a changed copy of the entry's node or request.
func commented(e state.Entry) resources.Record {
	if _, ok := e.Record.(*resources.Node); ok {
		return withComment(e, "changed at "+time.Now().String())
	}
	r := *e.Record.(*resources.Request)
	r.Error = "changed at " + time.Now().String()
	return &r
}
