//go:build integration

package zookeeper_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
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

// TestStoreMovesToOtherServersWithItsLocks takes over other servers of the ensemble, then a renewed certificate.
func TestStoreMovesToOtherServersWithItsLocks(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, 3)
	tr := newTreeIn(t, l.Env)
	files, hosts := tr.tls(), tr.servers()
	dir := t.TempDir()
	copied := zookeeper.TLS{CA: files.CA, Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	put := func(cert, key string) {
		t.Helper()
		for to, from := range map[string]string{copied.Cert: cert, copied.Key: key} {
			text, err := os.ReadFile(from)
			testutil.Must(t, err)
			testutil.WriteFile(t, to, string(text))
		}
	}
	put(files.Cert, files.Key)
	s := tr.open(t, session(30*time.Second), silent, func(o *zookeeper.Options) { o.Hosts, o.TLS = hosts[:1], &copied })
	before := s.Session()
	lock, err := s.Lock(t.Context(), "provider cloud", state.Holder{})
	testutil.Must(t, err)
	entry := one(t, s, state.Op{Record: node(resources.StateReady)})
	claim, entry, err := s.Claim(t.Context(), entry.Record.Key())
	testutil.Must(t, err)

	other := newTreeIn(t, lab.StartStranger(t).Env)
	for what, to := range map[string]zookeeper.Options{
		"another ensemble":      {Hosts: other.servers(), TLS: &zookeeper.TLS{CA: other.CA, Cert: other.Cert, Key: other.Key}},
		"an unknown authority":  {Hosts: hosts[1:], TLS: &zookeeper.TLS{CA: other.CA, Cert: other.Cert, Key: other.Key}},
		"a missing certificate": {Hosts: hosts[1:], TLS: &zookeeper.TLS{CA: files.CA, Cert: filepath.Join(dir, "none.pem"), Key: files.Key}},
	} {
		if _, err := s.Reconnect(t.Context(), to); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
	use, err := s.Reconnect(t.Context(), zookeeper.Options{Hosts: hosts[1:], TLS: &copied})
	testutil.Must(t, err)
	if s.Server() != hosts[0] {
		t.Errorf("connected to %s before the change is in force", s.Server())
	}
	use()
	testutil.Must(t, l.Kill(1))
	testutil.Await(t, "it is connected to another server", func() bool { return s.Connected() && slices.Contains(hosts[1:], s.Server()) })
	entry = one(t, s, state.Op{Record: withComment(entry, "after"), Revision: entry.Revision})

	put(filepath.Join(l.Dir, "tls", "other", "stranger.pem"), filepath.Join(l.Dir, "tls", "other", "stranger.key")) // a certificate that the servers do not accept
	testutil.Must(t, l.Restart(1+slices.Index(hosts, s.Server())))
	testutil.Await(t, "the connection is lost", func() bool { return !s.Connected() })
	put(files.Cert, files.Key)
	testutil.Await(t, "it is connected with the files as they are now", s.Connected)
	one(t, s, state.Op{Record: withComment(entry, "renewed"), Revision: entry.Revision})
	if closed(claim.Lost()) || closed(lock.Lost()) || s.Session() != before {
		t.Error("the session or its locks were lost")
	}
	testutil.Must(t, claim.Unlock(t.Context()))
}
