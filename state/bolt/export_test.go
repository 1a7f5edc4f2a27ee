package bolt

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/statetest"
)

func exported(t *testing.T, s *Store) string {
	t.Helper()
	var out bytes.Buffer
	testutil.Must(t, s.Export(t.Context(), &out))
	return out.String()
}

func add(t *testing.T, s *Store, records ...resources.Record) []state.Entry {
	t.Helper()
	ops := make([]state.Op, len(records))
	for i, r := range records {
		ops[i] = state.Op{Record: r}
	}
	entries, err := s.Commit(t.Context(), ops...)
	testutil.Must(t, err)
	return entries
}

func records(t *testing.T, s *Store) []resources.Record {
	t.Helper()
	entries, err := s.List(t.Context())
	testutil.Must(t, err)
	var all []resources.Record
	for _, entry := range entries {
		all = append(all, entry.Record)
	}
	return all
}

func TestExportIsStable(t *testing.T) {
	s := store(t, tempPath(t))
	add(t, s, &resources.ImageRecord{Name: "debian", Kind: resources.DiskImage}, &resources.ProviderRecord{Name: "lab", Driver: "static", Config: []byte(`{"a":"<b>"}`)})
	id, err := s.Identity(t.Context())
	testutil.Must(t, err)
	want := `{
  "format_version": 1,
  "written_by": "0.2.0",
  "lineage": "` + id.Lineage + `",
  "serial": 1,
  "schema": 1,
  "sequences": {},
  "records": {
    "image": {
      "debian": {
        "name": "debian",
        "kind": "diskimage"
      }
    },
    "provider": {
      "lab": {
        "name": "lab",
        "driver": "static",
        "config": {
          "a": "\u003cb\u003e"
        }
      }
    }
  }
}
`
	for range 2 {
		if diff := cmp.Diff(want, exported(t, s)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestExportOfMissingStateFails(t *testing.T) {
	s, err := Open(Options{Path: tempPath(t), ReadOnly: true})
	testutil.Must(t, err)
	defer s.Close()
	if err := s.Export(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "does not exist yet") {
		t.Errorf("%v, want an error", err)
	}
}

// TestImportIntoANewFileRestores checks that a backup can be imported into a new file without force. The lineage, the
// records and the sequences are those of the old file.
func TestImportIntoANewFileRestores(t *testing.T) {
	old, fresh := store(t, tempPath(t)), store(t, tempPath(t))
	add(t, old, statetest.Node(1), statetest.Node(2), statetest.Node(3))
	if _, err := old.Commit(t.Context(), state.Op{Key: resources.Key{Kind: resources.KindNode, ID: "0000000003"}, Force: true}); err != nil {
		t.Fatal(err)
	}
	testutil.Must(t, fresh.Import(t.Context(), strings.NewReader(exported(t, old)), false))
	if diff := cmp.Diff(records(t, old), records(t, fresh)); diff != "" {
		t.Errorf("(-old +new):\n%s", diff)
	}
	was, _ := old.Identity(t.Context())
	now, err := fresh.Identity(t.Context())
	if err != nil || now.Lineage != was.Lineage || now.Serial <= was.Serial {
		t.Errorf("identity %+v after %+v, %v", now, was, err)
	}
	if id := add(t, fresh, statetest.Node(4))[0].Record.Key().ID; id != "0000000004" {
		t.Errorf("the next node has the id %s, want one that no node ever had", id)
	}
}

func TestImportRejectsOlderAndForeignDocuments(t *testing.T) {
	s, other := store(t, tempPath(t)), store(t, tempPath(t))
	add(t, s, statetest.Node(1))
	add(t, other, statetest.Node(9))
	stale := exported(t, s)
	add(t, s, statetest.Node(2))
	for name, test := range map[string]struct{ document, says string }{
		"older":           {stale, "older than the state (serial 1, here it is 2)"},
		"another lineage": {exported(t, other), "another installation"},
	} {
		before := exported(t, s)
		err := s.Import(t.Context(), strings.NewReader(test.document), false)
		if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "-force") {
			t.Errorf("%s: %v, want %q and -force", name, err, test.says)
		}
		if got := exported(t, s); got != before {
			t.Errorf("%s: something was changed", name)
		}
	}
	for _, document := range []string{stale, exported(t, other)} {
		before := identity(t, s).Serial
		if err := s.Import(t.Context(), strings.NewReader(document), true); err != nil {
			t.Errorf("forced: %v", err)
		}
		if after := identity(t, s).Serial; after <= before {
			t.Errorf("forced: serial %d after %d", after, before)
		}
		if got := len(records(t, s)); got != 1 {
			t.Errorf("forced: %d records, want 1", got)
		}
	}
	if diff := cmp.Diff(records(t, other), records(t, s)); identity(t, s).Lineage != identity(t, other).Lineage || diff != "" {
		t.Errorf("the last forced import is not the state: %s", diff)
	}
}

func identity(t *testing.T, s *Store) state.Identity {
	t.Helper()
	id, err := s.Identity(t.Context())
	testutil.Must(t, err)
	return id
}

func TestImportIsAllOrNothing(t *testing.T) {
	s := store(t, tempPath(t))
	add(t, s, statetest.Node(1), &resources.ImageRecord{Name: "debian", Kind: resources.DiskImage})
	good := exported(t, s)
	edit := func(old, next string) string {
		edited := strings.Replace(good, old, next, 1)
		if edited == good {
			t.Fatalf("nothing to replace: %s", old)
		}
		return edited
	}
	for name, test := range map[string]struct{ document, says string }{
		"nothing":           {"", "not a document"},
		"not JSON":          {"version: 4", "not a document"},
		"another program's": {`{"version": 4, "resources": []}`, "format_version"},
		"newer format":      {edit(`"format_version": 1`, `"format_version": 7`), "upgrade npctl"},
		"two documents":     {good + good, "after the end"},
		"cut off":           {good[:len(good)/2], "not a document"},
		"wrong type":        {edit(`"pool": "main"`, `"pool": 7`), "pool"},
		"wrong id":          {edit(`"id": "0000000001"`, `"id": "0000000002"`), "0000000002"},
		"no object":         {edit(`"debian": {`, `"other": 7, "debian": {`), "image/other"},
	} {
		err := s.Import(t.Context(), strings.NewReader(test.document), true)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
		if got := exported(t, s); got != good {
			t.Errorf("%s: something was changed", name)
		}
	}
	if _, err := parseDocument(strings.NewReader(good), 100); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a document over the limit: %v", err)
	}
	if err := s.Import(t.Context(), strings.NewReader(good), false); err != nil {
		t.Errorf("the unedited one: %v", err)
	}
}

// TestUnknownFieldsAndKindsArePreserved checks that pull, push and updates preserve data that a newer npctl of the same
// schema wrote.
func TestUnknownFieldsAndKindsArePreserved(t *testing.T) {
	s := store(t, tempPath(t))
	add(t, s, statetest.Node(1), &resources.ImageRecord{Name: "debian", Kind: resources.DiskImage})
	document := strings.Replace(exported(t, s), `"pool": "main"`, `"pool": "main", "mood": {"deep": [1, 2]}`, 1)
	document = strings.Replace(document, `"username": "zuul"`, `"username": "zuul", "badge": "blue"`, 1)
	document = strings.Replace(document, `"records": {`, `"records": {"dream": {"d1": {"of": "sheep"}},`, 1)
	testutil.Must(t, s.Import(t.Context(), strings.NewReader(document), false))
	entries, err := s.List(t.Context(), resources.KindNode)
	testutil.Must(t, err)
	n := entries[0].Record.(*resources.Node)
	n.Comment, n.Zone, n.Login.ShellType = "rewritten", "", "cmd"
	if _, err := s.Commit(t.Context(), state.Op{Record: n, Revision: entries[0].Revision}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Records map[string]map[string]map[string]any
	}
	testutil.Must(t, json.Unmarshal([]byte(exported(t, s)), &got))
	node := got.Records["node"]["0000000001"]
	kept := []any{node["mood"], node["comment"], node["zone"], node["login"].(map[string]any)["badge"], node["login"].(map[string]any)["shell_type"], got.Records["dream"]["d1"]["of"]}
	want := []any{map[string]any{"deep": []any{1.0, 2.0}}, "rewritten", nil, "blue", "cmd", "sheep"}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	stored, err := s.Get(t.Context(), n.Key())
	testutil.Must(t, err)
	if diff := cmp.Diff(n, stored.Record); diff != "" {
		t.Errorf("the record itself (-want +got):\n%s", diff)
	}
}
