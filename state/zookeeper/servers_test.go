//go:build integration

package zookeeper_test

import (
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

func TestStoreResumesAfterServerRestart(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, 1)
	tr := newTreeIn(t, l.Env)
	s := tr.open(t, session(30*time.Second), silent)
	entry := one(t, s, state.Op{Record: node(resources.StateReady)})
	claim, entry, err := s.Claim(t.Context(), entry.Record.Key())
	testutil.Must(t, err)
	testutil.Must(t, s.Register(t.Context(), resources.Presence{Pools: []resources.RegisteredPool{{Provider: "cloud", Pool: "main"}}}))
	testutil.Must(t, l.Kill())
	testutil.Await(t, "the end of the server is noticed", func() bool { return !s.Connected() })
	testutil.Must(t, l.Up())
	testutil.Await(t, "it is connected again", s.Connected)
	// The commit, the session and its locks still exist: the server has kept them.
	entry = one(t, s, state.Op{Record: withComment(entry, "after"), Revision: entry.Revision})
	if closed(claim.Lost()) {
		t.Error("the claim was lost though the session lasted")
	}
	if peers := s.RegisteredPools(); len(peers) != 1 {
		t.Errorf("%v is registered, want one pool", peers)
	}
	testutil.Must(t, claim.Unlock(t.Context()))
	one(t, s, state.Op{Key: entry.Record.Key(), Revision: entry.Revision})
}

func TestStoreSurvivesTheDeathOfAServer(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, 3)
	tr := newTreeIn(t, l.Env)
	s := tr.open(t, session(30*time.Second), silent)
	entry := one(t, s, state.Op{Record: node(resources.StateReady)})
	claim, entry, err := s.Claim(t.Context(), entry.Record.Key())
	testutil.Must(t, err)
	testutil.Must(t, l.Kill(1+slices.Index(tr.servers(), s.Server())))
	testutil.Await(t, "a record can be written without that server", func() bool {
		entries, err := s.Commit(t.Context(), state.Op{Record: withComment(entry, "without"), Force: true})
		if err == nil {
			entry = entries[0]
		}
		return err == nil
	})
	if closed(claim.Lost()) {
		t.Error("the claim was lost though there was a majority all the time")
	}
	testutil.Must(t, s.Sync(t.Context()))
	if got, err := s.Get(t.Context(), entry.Record.Key()); err != nil || got.Record.(*resources.Node).Comment != "without" {
		t.Errorf("got %+v, %v", got, err)
	}
	testutil.Must(t, claim.Unlock(t.Context()))
}
