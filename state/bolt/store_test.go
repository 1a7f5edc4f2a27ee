package bolt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/statetest"
)

func TestNewFileIsPrivateToItsUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "npctl.db")
	store(t, path)
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		info, err := os.Stat(name)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the file: %v, %v", left, err)
	}
}

func TestMissingFileReadsAsEmpty(t *testing.T) {
	path := tempPath(t)
	s, err := Open(Options{Path: path, ReadOnly: true})
	testutil.Must(t, err)
	defer s.Close()
	hints, err := s.Watch(t.Context())
	testutil.Must(t, err)
	if entries, err := s.List(t.Context()); len(entries) != 0 || err != nil {
		t.Errorf("List: %v, %v", entries, err)
	}
	if _, err := s.Get(t.Context(), resources.Key{Kind: resources.KindNode, ID: "1"}); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if id, err := s.Identity(t.Context()); err != nil || id != (state.Identity{Schema: 1}) {
		t.Errorf("Identity: %+v, %v", id, err)
	}
	if h, err := s.Holder(t.Context(), "apply"); h != nil || err != nil {
		t.Errorf("Holder: %v, %v", h, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	add(t, store(t, path), statetest.Node(1))
	select {
	case <-hints:
	case <-time.After(testutil.Patience):
		t.Error("no hint when the file came to be")
	}
	if entries, err := s.List(t.Context()); len(entries) != 1 || err != nil {
		t.Errorf("List after there is one: %v, %v", entries, err)
	}
}

func TestReadOnlyStoreWritesNothing(t *testing.T) {
	path := tempPath(t)
	add(t, store(t, path), statetest.Node(1))
	before := testutil.ReadFile(t, path)
	s, err := Open(Options{Path: path, ReadOnly: true})
	testutil.Must(t, err)
	defer s.Close()
	_, commit := s.Commit(t.Context(), state.Op{Record: statetest.Node(2)})
	_, lock := s.Lock(t.Context(), "apply", state.Holder{})
	_, unlock := s.ForceUnlock(t.Context(), "x")
	push := s.Import(t.Context(), strings.NewReader(exported(t, s)), true)
	for name, err := range map[string]error{"Commit": commit, "Lock": lock, "ForceUnlock": unlock, "Import": push} {
		if !errors.Is(err, state.ErrReadOnly) {
			t.Errorf("%s: %v, want ErrReadOnly", name, err)
		}
	}
	if testutil.ReadFile(t, path) != before {
		t.Error("the file was changed")
	}
}

func TestIDsHaveNodepoolFormat(t *testing.T) {
	s := store(t, tempPath(t))
	imported := statetest.Node(1)
	imported.ID = "0000000106"
	foreign := statetest.Node(1)
	foreign.ID = "web-17"
	add(t, s, imported, foreign)
	entries := add(t, s, statetest.Node(2), &resources.Upload{State: resources.StateUploading}, statetest.Node(3))
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Record.Key().String())
	}
	if diff := cmp.Diff([]string{"node/0000000107", "upload/0000000001", "node/0000000108"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRejectedRecordGetsNoID(t *testing.T) {
	s := store(t, tempPath(t))
	n := statetest.Node(1)
	_, err := s.Commit(t.Context(), state.Op{Record: n}, state.Op{Key: resources.Key{Kind: resources.KindNode, ID: "x"}, Revision: 7})
	if !errors.Is(err, state.ErrConflict) || n.ID != "" {
		t.Errorf("%v, id %q; want a conflict and no id", err, n.ID)
	}
}

// alien is a record type with the key of a node.
type alien struct{}

func (*alien) Key() resources.Key { return resources.Key{Kind: resources.KindNode, ID: "1"} }

func TestInvalidOpsAreRejected(t *testing.T) {
	s := store(t, tempPath(t))
	key := resources.Key{Kind: resources.KindNode, ID: "0000000001"}
	named := statetest.Node(1)
	named.ID = key.ID
	for name, test := range map[string]struct {
		ops  []state.Op
		says string
	}{
		"nothing":             {[]state.Op{{}}, "no kind"},
		"unknown kind":        {[]state.Op{{Key: resources.Key{Kind: "dream", ID: "1"}}}, "dream"},
		"nil record":          {[]state.Op{{Record: (*resources.Node)(nil)}}, "nil"},
		"foreign type":        {[]state.Op{{Record: &alien{}}}, "alien"},
		"two keys":            {[]state.Op{{Key: resources.Key{Kind: resources.KindNode, ID: "2"}, Record: named}}, "node/0000000001"},
		"same key twice":      {[]state.Op{{Record: named}, {Key: key, Force: true}}, "second change"},
		"revision without id": {[]state.Op{{Record: statetest.Node(1), Revision: 3}}, "without an id"},
		"delete without id":   {[]state.Op{{Key: resources.Key{Kind: resources.KindBuild}}}, "without an id"},
		"endless id":          {[]state.Op{{Record: &resources.History{Subject: strings.Repeat("x", 5000)}}}, "5000 bytes"},
		"not UTF-8":           {[]state.Op{{Record: &resources.History{Subject: "a\xff"}}}, "UTF-8"},
		"not JSON":            {[]state.Op{{Record: &resources.ProviderRecord{Name: "lab", Config: []byte("{")}}}, "provider/lab"},
		"text that changes":   {[]state.Op{{Record: &resources.History{Subject: "x", Seconds: make([]float64, 600_000)}}}, "at most 1048576"},
	} {
		if _, err := s.Commit(t.Context(), test.ops...); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
	if got := records(t, s); len(got) != 0 {
		t.Errorf("something was written: %v", got)
	}
	if _, err := Open(Options{}); err == nil {
		t.Error("a store without a path was opened")
	}
}

// TestOwnCommitSendsOneHintImmediately checks that a commit sends its hint at once, and that the poll of the file does not
// send a second one.
func TestOwnCommitSendsOneHintImmediately(t *testing.T) {
	path := tempPath(t)
	synctest.Test(t, func(t *testing.T) {
		s := store(t, path)
		hints, err := s.Watch(t.Context())
		testutil.Must(t, err)
		add(t, s, statetest.Node(1))
		start := time.Now()
		<-hints
		if waited := time.Since(start); waited > 0 {
			t.Errorf("the hint came %s after the commit", waited)
		}
		time.Sleep(time.Minute)
		select {
		case <-hints:
			t.Error("a second hint without a second change")
		default:
		}
		s.Close()
	})
}

func TestStoreWaitsForAnotherProcessTransaction(t *testing.T) {
	path := tempPath(t)
	add(t, store(t, path), statetest.Node(1))
	s, err := Open(Options{Path: path, Timeout: 50 * time.Millisecond})
	testutil.Must(t, err)
	defer s.Close()
	patient, err := Open(Options{Path: path, Timeout: time.Minute})
	testutil.Must(t, err)
	defer patient.Close()
	// A second open of the same file stands for another process.
	hog := newFile(path, time.Second)
	held, err := hog.acquire(t.Context(), writing)
	testutil.Must(t, err)
	if _, err := s.List(t.Context()); err == nil || !strings.Contains(err.Error(), "another process") || !strings.Contains(err.Error(), path) {
		t.Errorf("while the file is in use: %v", err)
	}
	time.AfterFunc(5*time.Millisecond, func() { release(held) })
	if _, err := patient.List(t.Context()); err != nil {
		t.Errorf("when it is given back in time: %v", err)
	}
}

func TestSchemaIsValid(t *testing.T) {
	block := Schema()
	path, ok := block.Lookup("path")
	if !ok || block.Null().GetAttr("path").AsString() != "npctl.db" {
		t.Errorf("path: %+v, default %#v", path, block.Null())
	}
	if path.Check(cty.StringVal("")) == nil || path.Check(cty.StringVal("x.db")) != nil {
		t.Error("only an empty path is wrong")
	}
}
