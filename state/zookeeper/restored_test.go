//go:build integration

package zookeeper_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestStoreUsesRestoredData replaces the data of a ZooKeeper by an older copy, and then by none, while two processes use it.
// Both continue with the data that they find, in new sessions, as the same installation.
func TestStoreUsesRestoredData(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, 1)
	var tr *tree
	t.Cleanup(func() { tr.raw.Close() })
	tr = newTreeIn(t, l.Env)
	first := tr.open(t, silent)
	identity, err := first.Identity(t.Context())
	testutil.Must(t, err)
	old := one(t, first, state.Op{Record: node(resources.StateReady)}).Record.Key()
	testutil.Must(t, first.Close())

	data, backup := filepath.Join(l.Dir, "server-1", "data", "version-2"), filepath.Join(t.TempDir(), "version-2")
	testutil.Must(t, l.Kill())
	testutil.Must(t, os.CopyFS(backup, os.DirFS(data)))
	testutil.Must(t, l.Up())
	var both [2]*zookeeper.Store // with sessions that the copy does not have
	for i := range both {
		tr.private = filepath.Join(t.TempDir(), "private.db")
		both[i] = tr.open(t, session(time.Minute), silent) // longer than a restart takes
	}
	// replace starts the server with other data, and waits until both processes use it.
	replace := func(prepare func()) {
		t.Helper()
		sessions := []int64{both[0].Session(), both[1].Session()}
		tr.raw.Close() // this client of the test would ask for its session forever
		testutil.Must(t, l.Kill())
		testutil.Must(t, os.RemoveAll(data))
		prepare()
		testutil.Must(t, l.Up())
		raw, err := zookeeper.Dial(tr.servers(), tr.tls())
		testutil.Must(t, err)
		tr.raw = raw
		testutil.Await(t, "the chroot exists", func() bool {
			_, err := tr.raw.Create(tr.chroot, nil, 0, zk.WorldACL(zk.PermAll))
			return err == nil || errors.Is(err, zk.ErrNodeExists)
		})
		for i, s := range both {
			testutil.Await(t, "a process uses the data", func() bool { return s.Connected() && s.Session() != sessions[i] })
			if now, err := s.Identity(t.Context()); err != nil || now.Lineage != identity.Lineage {
				t.Errorf("the identity is %+v, %v; want lineage %s", now, err, identity.Lineage)
			}
			lost := &resources.Sighting{Provider: "cloud", Type: "server", External: "of a lost record", Record: key(resources.KindNode, "0000000090"), First: time.Now()}
			if seen := one(t, s, state.Op{Record: lost, Force: true}).Record.(*resources.Sighting); i == 0 && !seen.NewerThanState {
				t.Error("an object in a cloud with a newer ID does not show that the state is older")
			}
		}
	}
	newer := one(t, both[0], state.Op{Record: node(resources.StateReady)})
	claim, _, err := both[0].Claim(t.Context(), newer.Record.Key())
	testutil.Must(t, err)

	for range 100 { // the sessions of this test must not make up for the transactions that are lost
		one(t, both[1], state.Op{Record: node(resources.StateReady)})
	}
	replace(func() { testutil.Must(t, os.CopyFS(data, os.DirFS(backup))) })
	if !closed(claim.Lost()) {
		t.Error("the claim of the lost session still counts")
	}
	for _, s := range both {
		if _, err := s.Get(t.Context(), old); err != nil {
			t.Errorf("the record in the copy: %v", err)
		}
		if _, err := s.Get(t.Context(), newer.Record.Key()); err == nil {
			t.Error("the record that was lost still exists")
		}
		one(t, s, state.Op{Record: node(resources.StateReady)})
	}

	before := both[0].Session()
	testutil.Must(t, l.Kill())
	testutil.Await(t, "the end of the server is noticed", func() bool { return !both[0].Connected() })
	testutil.Must(t, l.Up())
	testutil.Await(t, "it is connected after a restart", both[0].Connected)
	if now := both[0].Session(); now != before {
		t.Errorf("after a restart with the same data the session is %x, want %x", now, before)
	}

	replace(func() {})
	for _, s := range both {
		testutil.Must(t, s.Sync(t.Context()))
		if left, err := s.List(t.Context(), resources.KindNode); err != nil || len(left) != 0 && s == both[0] {
			t.Errorf("after the loss of all data the nodes are %v, %v", left, err)
		}
		one(t, s, state.Op{Record: node(resources.StateReady)})
	}
}
