package bolt

import (
	"os"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/statetest"
)

// TestPagesAreUsedOnceOrFree covers damage on which bbolt would overwrite live pages, loop or lose pages forever.
func TestPagesAreUsedOnceOrFree(t *testing.T) {
	path := tempPath(t)
	s := store(t, path)
	for range 3 {
		ops := make([]state.Op, 30)
		for i := range ops {
			ops[i] = state.Op{Record: statetest.Node(i)}
		}
		if _, err := s.Commit(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	good := []byte(testutil.ReadFile(t, path))
	f, err := os.Open(path)
	testutil.Must(t, err)
	defer f.Close()
	_, m, err := versionOf(f)
	testutil.Must(t, err)
	newest, size := m.newest, m.newest.pageSize
	free := newest.freelist * size
	if count := order.Uint16(good[free+10:]); count < 2 {
		t.Fatalf("%d free pages, want some", count)
	}
	branch := liveBranch(t, good, newest)
	for name, test := range map[string]struct {
		change func([]byte)
		says   string
	}{
		"sound":                  {func([]byte) {}, ""},
		"live page free":         {func(b []byte) { order.PutUint64(b[free+16:], newest.root) }, "used twice"},
		"page free twice":        {func(b []byte) { copy(b[free+16:free+24], b[free+24:free+32]) }, "used twice"},
		"free page beyond":       {func(b []byte) { order.PutUint64(b[free+16:], newest.highWater) }, "does not exist"},
		"free page forgotten":    {func(b []byte) { order.PutUint16(b[free+10:], order.Uint16(b[free+10:])-1) }, "neither used nor free"},
		"endless freelist":       {func(b []byte) { order.PutUint16(b[free+10:], 0xFFFF); order.PutUint64(b[free+16:], 1<<60) }, "longer than its page"},
		"page that holds itself": {func(b []byte) { order.PutUint64(b[branch*size+16+8:], branch) }, "used twice"},
		"page without elements":  {func(b []byte) { order.PutUint16(b[branch*size+10:], 0) }, "number of elements"},
		"too many elements":      {func(b []byte) { order.PutUint16(b[branch*size+10:], 0xFFFF) }, "number of elements"},
	} {
		text := append([]byte{}, good...)
		test.change(text)
		err := walk(text[:newest.highWater*size], newest)
		if test.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

// liveBranch returns the number of a branch page that is not free.
func liveBranch(t *testing.T, text []byte, m meta) uint64 {
	t.Helper()
	w := &walker{data: text, pageSize: m.pageSize, highWater: m.highWater, taken: make([]bool, m.highWater)}
	testutil.Must(t, w.freelist(m.freelist))
	for id := uint64(2); id < m.highWater; id++ {
		if !w.taken[id] && order.Uint16(text[id*m.pageSize+8:]) == branchFlag && order.Uint64(text[id*m.pageSize:]) == id {
			return id
		}
	}
	t.Fatal("no page has children")
	return 0
}

// TestHiddenRecordIsDetected hides a record by a wrong number of elements. npctl would treat its instance as a leak.
func TestHiddenRecordIsDetected(t *testing.T) {
	path := tempPath(t)
	var ops []state.Op
	for i := range 40 {
		ops = append(ops, state.Op{Record: statetest.Node(i)})
	}
	if _, err := store(t, path).Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	text := []byte(testutil.ReadFile(t, path))
	hidden := false
	for at := 0; at < len(text) && !hidden; at += os.Getpagesize() {
		page := text[at : at+os.Getpagesize()]
		if order.Uint16(page[8:]) == leafFlag && order.Uint16(page[10:]) > 1 && strings.Contains(string(page), "0000000033") {
			order.PutUint16(page[10:], order.Uint16(page[10:])-1)
			hidden = true
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil || !hidden {
		t.Fatalf("no page to damage: %v", err)
	}
	s, err := Open(Options{Path: path, ReadOnly: true})
	testutil.Must(t, err)
	defer s.Close()
	const want = "39 records of kind node, and 40 were written"
	if _, err := s.List(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("List: %v, want %q", err, want)
	}
	if err := s.Export(t.Context(), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Export: %v, want %q", err, want)
	}
	if _, err := store(t, path).Commit(t.Context(), ops[0]); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Commit: %v, want %q", err, want)
	}
}
