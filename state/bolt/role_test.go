package bolt_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

func openAs(t *testing.T, path string, with func(*bolt.Options)) (*bolt.Store, error) {
	t.Helper()
	opts := bolt.Options{Path: path, Version: "0.1.0"}
	with(&opts)
	s, err := bolt.Open(opts)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func as(role bolt.Role) func(*bolt.Options) { return func(o *bolt.Options) { o.Role = role } }

func anyRole(o *bolt.Options) { o.AnyRole = true }

func mustOpenAs(t *testing.T, path string, with func(*bolt.Options)) *bolt.Store {
	t.Helper()
	s, err := openAs(t, path, with)
	testutil.Must(t, err)
	return s
}

var oneNode = &resources.Node{ID: "0000000003", State: resources.StateReady, Provider: "p", Pool: "main", Labels: []string{"x"}}

func TestFileOpensOnlyInItsRole(t *testing.T) {
	for _, made := range []bolt.Role{bolt.RoleState, bolt.RolePrivate, bolt.RoleShadow} {
		path := filepath.Join(t.TempDir(), "npctl.db")
		s := mustOpenAs(t, path, as(made))
		if _, err := s.Commit(t.Context(), state.Op{Record: &resources.History{Subject: "build/x", Seconds: []float64{1}}}); err != nil {
			t.Fatal(err)
		}
		for _, wanted := range []bolt.Role{bolt.RoleState, bolt.RolePrivate, bolt.RoleShadow, bolt.RoleMigrating, bolt.RoleMigrated} {
			for _, readOnly := range []bool{false, true} {
				_, err := openAs(t, path, func(o *bolt.Options) { o.Role, o.ReadOnly = wanted, readOnly })
				var other *bolt.RoleError
				if wrong := errors.As(err, &other); wrong != (wanted != made) || err != nil && !wrong {
					t.Errorf("a file that is %q, opened as %q (read only: %t): %v", made, wanted, readOnly, err)
				} else if wrong && (other.Role != made || other.Wanted != wanted || other.Path != path) {
					t.Errorf("the error says %+v", other)
				}
			}
		}
		mustOpenAs(t, path, anyRole)
	}
}

func TestUnusedFileTakesAnyRole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "npctl.db")
	mustOpenAs(t, path, as(bolt.RoleState))
	s := mustOpenAs(t, path, as(bolt.RolePrivate))
	if _, err := s.Commit(t.Context(), state.Op{Record: &resources.History{Subject: "build/x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := openAs(t, path, as(bolt.RoleState)); err == nil {
		t.Error("a private file opened as a state")
	}
}

func TestRoleChangeDropsMovedRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "npctl.db")
	whole := mustOpenAs(t, path, as(bolt.RoleState))
	note := &resources.History{Subject: "build/x", Seconds: []float64{1}}
	if _, err := whole.Commit(t.Context(), state.Op{Record: oneNode}, state.Op{Record: note}); err != nil {
		t.Fatal(err)
	}
	s := mustOpenAs(t, path, anyRole)
	testutil.Must(t, s.ConvertRole(t.Context(), bolt.RoleChange{Role: bolt.RolePrivate, Location: "over there", Lineage: "theirs", Without: []resources.Kind{resources.KindNode, resources.KindUpload}}))
	if _, err := whole.List(t.Context()); !errors.As(err, new(*bolt.RoleError)) {
		t.Errorf("who has had it open as a state reads on: %v", err)
	}
	private := mustOpenAs(t, path, as(bolt.RolePrivate))
	entries, err := private.List(t.Context())
	if err != nil || len(entries) != 1 || entries[0].Record.Key() != note.Key() {
		t.Errorf("what is left is %+v, %v", entries, err)
	}
	id, err := private.Identity(t.Context())
	if err != nil || id.Lineage != "theirs" {
		t.Errorf("the lineage is %+v, %v", id, err)
	}
	about, err := private.FileInfo(t.Context())
	if err != nil || about.Role != bolt.RolePrivate || about.Location != "over there" || about.Sequences[resources.KindNode] != 3 {
		t.Errorf("the file says of itself %+v, %v", about, err)
	}
}

func TestDocumentContainsTheWholeState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "npctl.db")
	s := mustOpenAs(t, path, as(bolt.RolePrivate))
	if _, err := s.Commit(t.Context(), state.Op{Record: &resources.History{Subject: "build/x"}}); err != nil {
		t.Fatal(err)
	}
	doc := bolt.NewDocument("0.1.0")
	doc.Lineage, doc.MigrationID, doc.Sequences[resources.KindNode] = "theirs", "m1", 17
	testutil.Must(t, doc.Add(oneNode))
	testutil.Must(t, mustOpenAs(t, path, anyRole).ReplaceAll(t.Context(), doc, bolt.RoleChange{Role: bolt.RoleState}))
	whole := mustOpenAs(t, path, as(bolt.RoleState))
	entries, err := whole.List(t.Context())
	if err != nil || len(entries) != 1 || entries[0].Record.Key() != oneNode.Key() {
		t.Errorf("the state is %+v, %v", entries, err)
	}
	if about, err := whole.FileInfo(t.Context()); err != nil || about.MigrationID != "m1" {
		t.Errorf("the file says of itself %+v, %v", about, err)
	}
	fresh := &resources.Node{State: resources.StateReady, Provider: "p", Pool: "main", Labels: []string{"x"}}
	if _, err := whole.Commit(t.Context(), state.Op{Record: fresh}); err != nil || fresh.ID != "0000000018" {
		t.Errorf("a new node has the id %q, %v", fresh.ID, err)
	}
}

func TestDocumentIsPrintedAsExportDoes(t *testing.T) {
	s := mustOpenAs(t, filepath.Join(t.TempDir(), "npctl.db"), as(bolt.RoleState))
	if _, err := s.Commit(t.Context(), state.Op{Record: oneNode}); err != nil {
		t.Fatal(err)
	}
	var exported, written bytes.Buffer
	testutil.Must(t, s.Export(t.Context(), &exported))
	id, err := s.Identity(t.Context())
	testutil.Must(t, err)
	doc := bolt.NewDocument("0.1.0")
	doc.Lineage, doc.Serial = id.Lineage, id.Serial
	testutil.Must(t, doc.Add(oneNode))
	testutil.Must(t, doc.Write(&written))
	if exported.String() != written.String() {
		t.Errorf("a document is\n%s\nand an export\n%s", &written, &exported)
	}
}
