//go:build integration

package zookeeper_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
)

// storm makes the given number of changes as another client, a hundred per call: creations, replacements, deletions and
// locks.
func (tr *tree) storm(t testing.TB, changes int) {
	t.Helper()
	acl := zk.WorldACL(zk.PermAll)
	for n := 0; n < changes; {
		var ops []any
		for range 20 { // each makes five changes and leaves one record
			at := fmt.Sprintf("%s/nodepool/nodes/%010d", tr.chroot, n)
			gone := fmt.Sprintf("%s/nodepool/requests/200-%010d", tr.chroot, n)
			ops = append(ops,
				&zk.CreateRequest{Path: at, Data: []byte(nodeDocument("building", n)), Acl: acl},
				&zk.CreateRequest{Path: gone, Data: []byte(`{"state": "requested", "node_types": ["a"]}`), Acl: acl},
				&zk.SetDataRequest{Path: at, Data: []byte(nodeDocument("ready", n)), Version: -1},
				&zk.DeleteRequest{Path: gone, Version: -1},
				&zk.CreateRequest{Path: at + "/lock", Acl: acl})
			n += 5
		}
		_, err := tr.raw.Multi(ops...)
		testutil.Must(t, err)
	}
}

// nodeDocument returns a node as a Nodepool launcher writes it.
func nodeDocument(in string, n int) string {
	return fmt.Sprintf(`{"state": "%s", "state_time": 1795204853.38, "cloud": "cloud-a", "provider": "cloud-a-r1", "pool": "main", "type": ["noble"],
 "allocated_to": null, "az": "az1", "region": "r1", "public_ipv4": "192.0.2.17", "private_ipv4": "10.0.0.17", "public_ipv6": null,
 "host_id": "f3a9", "interface_ip": "192.0.2.17", "connection_port": 22, "ssh_port": 22, "image_id": "noble", "launcher": "launch1",
 "created_time": 1795204849.9, "external_id": "b68f4c7d-%d", "hostname": null, "comment": null, "user_data": null, "hold_job": null,
 "host_keys": ["ssh-ed25519 %s"], "username": "zuul", "connection_type": "ssh", "shell_type": null, "hold_expiration": null,
 "resources": {"cores": 4, "instances": 1, "ram": 8192}, "slot": null, "attributes": {"executor-zone": "zone-1"}, "python_path": "auto",
 "tenant_name": "acme", "driver_data": null, "requestor": "0f6d2c1b"}`, in, n, strings.Repeat("A", 70))
}

func TestChangesConvergeDuringAStorm(t *testing.T) {
	t.Parallel()
	const changes = 10_000
	tr := newTree(t)
	s := tr.open(t)
	known := map[resources.Key]state.Entry{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tr.storm(t, changes)
	}()
	hints, err := s.Watch(t.Context())
	testutil.Must(t, err)
	for going := true; going; {
		select {
		case <-hints:
		case <-ended:
			going = false
		}
		follow(s, known)
	}
	start := time.Now()
	testutil.Must(t, s.Sync(t.Context()))
	follow(s, known)
	t.Logf("%s after the last change everything was known", time.Since(start))
	want, err := s.List(t.Context())
	testutil.Must(t, err)
	if len(want) != changes/5 {
		t.Errorf("%d records, want %d", len(want), changes/5)
	}
	got := slices.SortedFunc(maps.Values(known), func(a, b state.Entry) int {
		return strings.Compare(a.Record.Key().String(), b.Record.Key().String())
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-List +Changes):\n%.5000s", diff)
	}
	for _, entry := range want {
		if n := entry.Record.(*resources.Node); n.State != resources.StateReady {
			t.Errorf("%s is %s, want ready", n.ID, n.State)
		}
	}
}

func follow(s *zookeeper.Store, known map[resources.Key]state.Entry) {
	changed, gone := s.Changes()
	for _, key := range gone {
		delete(known, key)
	}
	for _, entry := range changed {
		known[entry.Record.Key()] = entry
	}
}

func TestMalformedRecordsDoNotStopTheFeed(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t, silent)
	for i, text := range []string{"", "{", "null", `{"state": 3}`, `{"node_types": null}`, "\xff", strings.Repeat("[", 50_000)} {
		tr.create(t, fmt.Sprintf("/nodepool/requests/200-%010d", 100+i), text)
		tr.create(t, fmt.Sprintf("/nodepool/nodes/%010d", 100+i), text)
	}
	tr.create(t, "/nodepool/requests/nothing-of-ours", "x")
	good := one(t, s, state.Op{Record: request("debian")})
	testutil.Must(t, s.Sync(t.Context()))
	got, err := s.List(t.Context())
	testutil.Must(t, err)
	if diff := cmp.Diff([]state.Entry{good}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := tr.open(t, silent) // malformed records that exist at the start do no harm either
	if got, err := again.List(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("%v, %v; want the good one", got, err)
	}
	tr.set(t, "/nodepool/nodes/0000000100", nodeDocument("ready", 1)) // and a client fixes one
	testutil.Must(t, s.Sync(t.Context()))
	if _, err := s.Get(t.Context(), nodeKey("0000000100")); err != nil {
		t.Error(err)
	}
	if !tr.there(t, "/nodepool/requests/200-0000000100") {
		t.Error("a malformed record was deleted")
	}
}

func TestUnknownStatesAndKeysArePreserved(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	at := tr.createSequence(t, "/nodepool/nodes/", `{"state": "testing", "type": "old", "provider": "cloud", "x": 1.50, "driver_data": {"b": 1,  "a": 340282366920938463463374607431768211455}}`)
	testutil.Must(t, s.Sync(t.Context()))
	key := nodeKey(at[strings.LastIndexByte(at, '/')+1:])
	entry, err := s.Get(t.Context(), key)
	testutil.Must(t, err)
	n := entry.Record.(*resources.Node)
	if n.State = resources.StateDeleting; len(n.Labels) != 1 || n.Labels[0] != "old" {
		t.Errorf("labels %v", n.Labels)
	}
	entry = one(t, s, state.Op{Record: n, Revision: entry.Revision})
	for _, part := range []string{`"x": 1.50`, `"driver_data": {"b": 1,  "a": 340282366920938463463374607431768211455}`, `"type": "old"`, `"state": "deleting"`} {
		if text := tr.data(t, at); !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	one(t, s, state.Op{Key: key, Revision: entry.Revision})
	if tr.there(t, at) {
		t.Error("it is there still")
	}
}

// A client with the Go library's own locks creates names that kazoo ignores, and npctl ignores them too.
func TestNonContendersDoNotBlockALock(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	s := tr.open(t)
	entry := one(t, s, state.Op{Record: node(resources.StateReady)})
	at := "/nodepool/nodes/" + entry.Record.Key().ID
	tr.create(t, at+"/lock", "")
	tr.create(t, at+"/lock/_c_c7d1-lock-0000000000", "")
	testutil.Must(t, s.Sync(t.Context()))
	if claimed := s.Claimed(); len(claimed) > 0 {
		t.Errorf("claimed are %v", claimed)
	}
	entry = one(t, s, state.Op{Record: withComment(entry, "free"), Revision: entry.Revision})
	claim, entry, err := s.Claim(t.Context(), entry.Record.Key())
	testutil.Must(t, err)
	testutil.Must(t, claim.Unlock(t.Context()))
	one(t, s, state.Op{Key: entry.Record.Key(), Revision: entry.Revision})
	if tr.there(t, at) {
		t.Error("it is there still")
	}
}
