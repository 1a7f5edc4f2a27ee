package reconcile

import (
	"context"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// early is a shared store that reports the changes of a commit before the commit returns, as ZooKeeper does.
type early struct {
	state.Shared
	last    state.Revision
	newest  state.Entry
	entries []state.Entry
	now     map[resources.Key]state.Entry
	gone    []resources.Key
	told    func() // called after the changes are reported and before Commit returns
	fails   error  // error of a commit that succeeded nevertheless
}

func (s *early) List(context.Context, ...resources.Kind) ([]state.Entry, error) { return nil, nil }

func (s *early) Commit(_ context.Context, ops ...state.Op) ([]state.Entry, error) {
	s.last++
	s.gone = nil
	result := make([]state.Entry, len(ops))
	for i, op := range ops {
		if op.Record == nil {
			s.gone = append(s.gone, op.Key)
			delete(s.now, op.Key)
			continue
		}
		if n, ok := op.Record.(*resources.Node); ok && n.ID == "" {
			c := *n
			c.ID = "000000000" + string(rune('0'+s.last))
			op.Record = &c
		}
		result[i] = state.Entry{Record: op.Record, Revision: s.last}
		s.newest, s.entries = result[i], append(s.entries, result[i])
		if s.now == nil {
			s.now = map[resources.Key]state.Entry{}
		}
		s.now[op.Record.Key()] = result[i]
	}
	s.told()
	return result, s.fails
}

func (s *early) Get(_ context.Context, key resources.Key) (state.Entry, error) {
	if entry, there := s.now[key]; there {
		return entry, nil
	}
	return state.Entry{}, state.ErrNotFound
}

func (s *early) Changes() ([]state.Entry, []resources.Key) {
	entries, gone := s.entries, s.gone
	s.entries, s.gone = nil, nil
	return entries, gone
}

func (s *early) Claim(context.Context, resources.Key) (state.Lock, state.Entry, error) {
	return &held{}, s.newest, nil
}

type held struct{ state.Lock }

func (*held) Lost() <-chan struct{} { return nil }

func ledgerOf(t *testing.T, s *early) *recordCache {
	t.Helper()
	l, err := newRecordCache(t.Context(), s)
	testutil.Must(t, err)
	return l
}

// A node or build that this process was creating was reported before its commit had returned, and was treated as
// abandoned by another process: builds were deleted while they ran.
func TestRecordInCreationIsNotOrphaned(t *testing.T) {
	for name, record := range map[string]resources.Record{
		"node":  &resources.Node{State: resources.StateInit},
		"build": &resources.Build{ID: "0123456789abcdef0123456789abcdef", State: resources.StateBuilding},
	} {
		t.Run(name, func(t *testing.T) {
			s := &early{}
			l := ledgerOf(t, s)
			looks := 0
			s.told = func() {
				looks++
				l.catchUp(t.Context())
				records, busy := l.snapshot()
				for key := range records.Revisions {
					if !busy[key] {
						t.Errorf("%s is there, and nobody works on it", key)
					}
				}
			}
			testutil.Must(t, l.putFor(t.Context(), "launch", record))
			records, busy := l.snapshot()
			if looks != 1 || len(records.Revisions) != 1 || len(busy) != 1 {
				t.Errorf("after %d looks there are %v, busy %v", looks, records.Revisions, busy)
			}
		})
	}
}

// While the record of a machine was replaced, the machine had none for a moment and was registered twice.
func TestRecordIsNotMissedBeforeTheOneThatReplacesItIsThere(t *testing.T) {
	for name, fails := range map[string]error{"done": nil, "done, though the answer was lost": state.ErrLost} {
		t.Run(name, func(t *testing.T) {
			s := &early{told: func() {}}
			l := ledgerOf(t, s)
			old := &resources.Node{Hostname: "metal1"}
			testutil.Must(t, l.put(t.Context(), old))
			l.catchUp(t.Context())
			var before *resources.Node
			for _, n := range all[resources.Node](l) {
				before = n
			}
			s.fails, s.told = fails, func() {
				l.catchUp(t.Context())
				if n := len(all[resources.Node](l)); n != 1 {
					t.Errorf("there are %d records of the machine", n)
				}
			}
			_ = l.replaceAll(t.Context(), []resources.Key{before.Key()}, &resources.Node{Hostname: "metal1"})
			if left := all[resources.Node](l); len(left) != 1 || left[0].ID == before.ID {
				t.Errorf("left are %+v, instead of another one than %s", left, before.ID)
			}
		})
	}
}
