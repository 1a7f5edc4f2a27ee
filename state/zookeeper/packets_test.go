//go:build integration

package zookeeper_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
)

// packets returns the number of packets that ZooKeeper has received from a store, without pings.
func (tr *tree) packets(t testing.TB, s *zookeeper.Store) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", tr.Plain)
	testutil.Must(t, err)
	defer conn.Close() //nolint:errcheck // opened for reading
	_, err = io.WriteString(conn, "cons")
	testutil.Must(t, err)
	text, err := io.ReadAll(conn)
	testutil.Must(t, err)
	line := regexp.MustCompile(fmt.Sprintf(`recved=(\d+),.*sid=0x%x,`, uint64(s.Session()))).FindSubmatch(text)
	if line == nil {
		t.Fatalf("session %x is not in %s", s.Session(), text)
	}
	n, err := strconv.Atoi(string(line[1]))
	testutil.Must(t, err)
	return n
}

// counted connects without TLS, because ZooKeeper counts packets per connection only for plain text. A session of two
// minutes sends a ping every 40 s, which is not counted.
func counted(tr *tree) func(*zookeeper.Options) {
	return func(o *zookeeper.Options) { o.Hosts, o.TLS, o.SessionTimeout = []string{tr.Plain}, nil, 2*time.Minute }
}

func TestReadsMakeNoCalls(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t, counted(tr))
	var last state.Entry
	for range 20 {
		last = one(t, s, state.Op{Record: node(resources.StateReady)})
	}
	before := tr.packets(t, s)
	for range 100 {
		entries, err := s.List(t.Context())
		testutil.Must(t, err)
		if len(entries) != 20 {
			t.Fatalf("%d records", len(entries))
		}
		_, err = s.Get(t.Context(), last.Record.Key())
		testutil.Must(t, err)
		s.Changes()
		s.Claimed()
		s.RegisteredPools()
	}
	if after := tr.packets(t, s); after != before {
		t.Errorf("%d packets", after-before)
	}
}

// The cost of each change in packets; each packet is a round trip.
func TestPacketsOfEachChange(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t, counted(tr))
	entry := one(t, s, state.Op{Record: node(resources.StateReady)})
	asked := one(t, s, state.Op{Record: request("debian")})
	var claim state.Lock
	count := func(what string, want int, do func()) {
		t.Helper()
		before := tr.packets(t, s)
		do()
		if got := tr.packets(t, s) - before; got != want {
			t.Errorf("%s: %d packets, want %d", what, got, want)
		}
	}
	count("create", 1, func() { one(t, s, state.Op{Record: node(resources.StateReady)}) })
	count("commit for the first time", 1, func() {
		entry = one(t, s, state.Op{Record: withComment(entry, "1"), Revision: entry.Revision})
	})
	count("commit", 1, func() { entry = one(t, s, state.Op{Record: withComment(entry, "2"), Revision: entry.Revision}) })
	count("commit of nothing new", 0, func() { one(t, s, state.Op{Record: entry.Record, Revision: entry.Revision}) })
	count("claim", 1, func() {
		var err error
		claim, _, err = s.Claim(t.Context(), entry.Record.Key())
		testutil.Must(t, err)
	})
	count("commit under the claim", 1, func() {
		entry = one(t, s, state.Op{Record: withComment(entry, "3"), Revision: entry.Revision})
	})
	count("unlock", 1, func() { testutil.Must(t, claim.Unlock(t.Context())) })
	count("commit with a claim", 1, func() {
		entries, err := s.Commit(t.Context(), state.Op{Record: withComment(entry, "3a"), Revision: entry.Revision, Claim: true})
		testutil.Must(t, err)
		entry = entries[0]
	})
	count("commit with a release", 1, func() {
		entries, err := s.Commit(t.Context(), state.Op{Record: withComment(entry, "3b"), Revision: entry.Revision, Release: true})
		testutil.Must(t, err)
		entry = entries[0]
	})
	count("fulfil with a node, both free", 1, func() {
		r := asked.Record.(*resources.Request)
		r.State, r.Nodes = resources.StateFulfilled, []string{entry.Record.Key().ID}
		n := withComment(entry, "4")
		n.Request = r.ID
		entries, err := s.Commit(t.Context(), state.Op{Record: r, Revision: asked.Revision}, state.Op{Record: n, Revision: entry.Revision})
		testutil.Must(t, err)
		asked, entry = entries[0], entries[1]
	})
	count("refused commit", 0, func() {
		if _, err := s.Commit(t.Context(), state.Op{Record: withComment(entry, "5"), Revision: entry.Revision - 1}); err == nil {
			t.Error("a commit of an older version was done")
		}
	})
	count("delete", 1, func() { one(t, s, state.Op{Key: entry.Record.Key(), Revision: entry.Revision}) })
	count("change by another", 1, func() {
		tr.create(t, "/nodepool/requests/200-0000000077", `{"state": "requested", "node_types": ["a"]}`)
		testutil.Await(t, "the request is known", func() bool {
			_, err := s.Get(t.Context(), key(resources.KindRequest, "200-0000000077"))
			return err == nil
		})
	})
}
