package bolt

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// makeNewer turns a file into one that a newer npctl wrote.
func makeNewer(t *testing.T, s *Store) {
	t.Helper()
	_, err := s.update(t.Context(), func(tx *bbolt.Tx, h *head) error {
		h.Schema, h.WrittenBy = schemaVersion+1, "0.9.0"
		return h.save(tx)
	})
	testutil.Must(t, err)
}

const newerText = "state written by npctl 0.9.0, schema 2; this npctl knows up to 1: upgrade npctl"

func TestNewerFileIsRejected(t *testing.T) {
	path := tempPath(t)
	running := store(t, path)
	add(t, running, &resources.History{Subject: "x", Seconds: []float64{1}})
	makeNewer(t, running)
	before := testutil.ReadFile(t, path)
	check := func(what string, err error) {
		if err == nil || !strings.Contains(err.Error(), newerText) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", what, err, newerText)
		}
	}
	for _, readOnly := range []bool{true, false} {
		_, err := Open(Options{Path: path, ReadOnly: readOnly})
		check("Open", err)
	}
	_, err := running.List(t.Context())
	check("List of a running process", err)
	_, err = running.Commit(t.Context(), state.Op{Record: &resources.History{Subject: "y"}})
	check("Commit of a running process", err)
	if testutil.ReadFile(t, path) != before {
		t.Error("the file was changed")
	}
}

func TestNewerDocumentIsRejected(t *testing.T) {
	s := store(t, tempPath(t))
	var doc bytes.Buffer
	testutil.Must(t, s.Export(t.Context(), &doc))
	newer := strings.Replace(doc.String(), `"schema": 1`, `"schema": 2`, 1)
	if err := s.Import(t.Context(), strings.NewReader(newer), true); err == nil || !strings.Contains(err.Error(), "schema 2; this npctl knows up to 1") {
		t.Errorf("import: %v", err)
	}
}

func TestHashKeyIsNotExported(t *testing.T) {
	key := func(s *Store) resources.HashKey {
		id, err := s.Identity(t.Context())
		if err != nil || len(id.HashKey) != 32 {
			t.Fatalf("a hash key of %d bytes: %v", len(id.HashKey), err)
		}
		return id.HashKey
	}
	from, to := store(t, tempPath(t)), store(t, tempPath(t))
	var doc bytes.Buffer
	testutil.Must(t, from.Export(t.Context(), &doc))
	before := key(to)
	testutil.Must(t, to.Import(t.Context(), &doc, false))
	if after := key(to); after != before || after == key(from) {
		t.Error("the copy has lost its hash key")
	}
}

// TestIDsInSightingsAreNotReused uses a file restored from a backup: the cloud has IDs that the file has not
// assigned yet.
func TestIDsInSightingsAreNotReused(t *testing.T) {
	s := store(t, tempPath(t))
	add(t, s, &resources.Node{State: resources.StateBuilding, Provider: "p"})
	sighting := func(external, id string) *resources.Sighting {
		return &resources.Sighting{Provider: "p", Type: "server", External: external, First: time.Unix(1, 0).UTC(),
			Record: resources.Key{Kind: resources.KindNode, ID: id}}
	}
	known, ahead, odd := sighting("a", "0000000001"), sighting("b", "0000000041"), sighting("c", "something")
	for i, entry := range add(t, s, known, ahead, odd) {
		if got := entry.Record.(*resources.Sighting).NewerThanState; got != (i == 1) {
			t.Errorf("sighting %s is ahead: %t", entry.Record.Key(), got)
		}
	}
	if ahead.NewerThanState {
		t.Error("the record that was passed in was changed")
	}
	node := &resources.Node{State: resources.StateBuilding, Provider: "p"}
	add(t, s, node)
	if node.ID != "0000000042" {
		t.Errorf("the next node is %s, want 0000000042", node.ID)
	}
}
