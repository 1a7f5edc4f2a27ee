package bolt

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// toSecond is an example of a migration from schema 1 to 2: it changes the subject of a history.
func toSecond(tx *bbolt.Tx, h *head) error {
	bucket := kindBucket(tx, resources.KindHistory)
	old, id := bucket.Get([]byte("old")), []byte("new")
	revision, content, err := verifyChecksum([]byte(resources.KindHistory), []byte("old"), old)
	if err != nil {
		return err
	}
	content = []byte(strings.Replace(string(content), `"old"`, `"new"`, 1))
	if err := bucket.Delete([]byte("old")); err != nil {
		return err
	}
	return bucket.Put(id, addChecksum([]byte(resources.KindHistory), id, revision, content))
}

// first creates a file of schema 1.
func first(t *testing.T) string {
	t.Helper()
	path := tempPath(t)
	s, err := open(Options{Path: path, Version: "0.1.0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Commit(t.Context(), state.Op{Record: &resources.History{Subject: "old", Seconds: []float64{1}}}); err != nil {
		t.Fatal(err)
	}
	return path
}

func subjects(t *testing.T, s *Store) string {
	t.Helper()
	entries, err := s.List(t.Context(), resources.KindHistory)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Record.Key().ID)
	}
	return strings.Join(names, " ")
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestOldFileIsMigratedAfterABackup(t *testing.T) {
	path := first(t)
	s, err := open(Options{Path: path, Version: "0.2.0"}, []migration{toSecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, err := s.Identity(t.Context())
	if err != nil || id.Schema != 2 || id.Serial != 2 {
		t.Errorf("identity %+v, %v; want schema 2, serial 2", id, err)
	}
	if got := subjects(t, s); got != "new" {
		t.Errorf("records %q, want new", got)
	}
	backup := path + ".schema-1.backup"
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("backup: %v, %v; want one of mode 0600", info, err)
	}
	old, err := open(Options{Path: backup}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if got := subjects(t, old); got != "old" {
		t.Errorf("records in the backup %q, want old", got)
	}
}

func TestFailedMigrationChangesNothing(t *testing.T) {
	path := first(t)
	fails := func(tx *bbolt.Tx, h *head) error { return errors.Join(toSecond(tx, h), errors.New("no way")) }
	if _, err := open(Options{Path: path}, []migration{fails}); err == nil || !strings.Contains(err.Error(), "no way") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want an error that names cause and path", err)
	}
	s, err := open(Options{Path: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := subjects(t, s); got != "old" {
		t.Errorf("records %q, want old", got)
	}
}

func TestReadingAnOldFileDoesNotChangeIt(t *testing.T) {
	path := first(t)
	before := contentOf(t, path)
	s, err := open(Options{Path: path, ReadOnly: true}, []migration{toSecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := subjects(t, s); got != "new" {
		t.Errorf("records %q, want new", got)
	}
	if contentOf(t, path) != before {
		t.Error("the file was changed")
	}
}

func TestNewerFileIsRejected(t *testing.T) {
	path := first(t)
	newer, err := open(Options{Path: path, Version: "0.9.0"}, []migration{toSecond})
	if err != nil {
		t.Fatal(err)
	}
	var exported strings.Builder
	if err := newer.Export(t.Context(), &exported); err != nil {
		t.Fatal(err)
	}
	newer.Close()
	before := contentOf(t, path)
	const want = "state written by npctl 0.9.0, schema 2; this npctl knows up to 1: upgrade npctl"
	for _, readOnly := range []bool{true, false} {
		if _, err := open(Options{Path: path, ReadOnly: readOnly}, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %q and the path", err, want)
		}
	}
	if contentOf(t, path) != before {
		t.Error("the file was changed")
	}
	s := store(t, tempPath(t))
	if err := s.Import(t.Context(), strings.NewReader(exported.String()), true); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("import: %v, want %q", err, want)
	}
}

// TestFileThatBecomesNewerIsRejected checks that a running daemon stops using a file that a newer npctl has migrated.
func TestFileThatBecomesNewerIsRejected(t *testing.T) {
	path := first(t)
	running, err := open(Options{Path: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	newer, err := open(Options{Path: path, Version: "0.9.0"}, []migration{toSecond})
	if err != nil {
		t.Fatal(err)
	}
	newer.Close()
	if _, err := running.List(t.Context()); err == nil || !strings.Contains(err.Error(), "upgrade npctl") {
		t.Errorf("List: %v", err)
	}
	if _, err := running.Commit(t.Context(), state.Op{Record: &resources.History{Subject: "x"}}); err == nil || !strings.Contains(err.Error(), "upgrade npctl") {
		t.Errorf("Commit: %v", err)
	}
}

func TestOldDocumentIsMigrated(t *testing.T) {
	path := first(t)
	old, err := open(Options{Path: path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	var exported strings.Builder
	if err := old.Export(t.Context(), &exported); err != nil {
		t.Fatal(err)
	}
	s, err := open(Options{Path: tempPath(t)}, []migration{toSecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Import(context.Background(), strings.NewReader(exported.String()), false); err != nil {
		t.Fatal(err)
	}
	if got := subjects(t, s); got != "new" {
		t.Errorf("records %q, want new", got)
	}
}
