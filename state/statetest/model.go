package statetest

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var modelTests = []test{{"AgreesWithAMap", func(e *env) {
	rapid.Check(e.T, func(r *rapid.T) {
		open := e.New(e.T)
		m := &model{e: e, r: r, stores: []state.Store{open(e.T), open(e.T)}, records: map[resources.Key]state.Entry{}}
		defer func() {
			for _, s := range m.stores {
				if err := s.Close(); err != nil {
					r.Errorf("Close: %v", err)
				}
			}
		}()
		for range rapid.IntRange(1, 8).Draw(r, "commits") {
			m.commit()
			m.compare()
		}
	})
}}}

// model is the expected content of a store, as a map. Each commit of a few random ops, and each read, uses one of the
// handles at random.
type model struct {
	e       *env
	r       *rapid.T
	stores  []state.Store
	records map[resources.Key]state.Entry
	deleted []state.Entry
}

func (m *model) store() state.Store { return rapid.SampledFrom(m.stores).Draw(m.r, "handle") }

func (m *model) commit() {
	ops := make([]state.Op, 0, 4)
	touched := map[resources.Key]bool{}
	good := true
	for range rapid.IntRange(1, 4).Draw(m.r, "ops") {
		op, ok := m.op()
		key := op.Key
		if op.Record != nil {
			key = op.Record.Key()
		}
		if touched[key] && key.ID != "" {
			continue
		}
		touched[key] = true
		ops, good = append(ops, op), good && ok
	}
	entries, err := m.store().Commit(context.Background(), ops...)
	if good != (err == nil) || err != nil && !errors.Is(err, state.ErrConflict) {
		m.r.Fatalf("Commit(%v): %v; should it work: %t", ops, err, good)
	}
	if err != nil {
		return
	}
	for i, op := range ops {
		m.apply(op, entries[i])
	}
}

func (m *model) apply(op state.Op, got state.Entry) {
	if op.Record == nil {
		if old, ok := m.records[op.Key]; ok {
			m.deleted = append(m.deleted, old)
		}
		delete(m.records, op.Key)
		return
	}
	if diff := cmp.Diff(op.Record, got.Record); diff != "" {
		m.r.Fatalf("Commit returned another record (-put +got):\n%s", diff)
	}
	m.records[op.Record.Key()] = got
}

// op draws one op and reports whether it must succeed.
func (m *model) op() (state.Op, bool) {
	entry, exists := m.pick()
	force := rapid.Bool().Draw(m.r, "force")
	revision := entry.Revision
	stale := rapid.IntRange(0, 9).Draw(m.r, "stale") == 0
	if stale {
		revision += 1 << 32
	}
	switch what := rapid.SampledFrom([]string{"create", "put", "delete"}).Draw(m.r, "what"); {
	case what == "create" || entry.Record == nil:
		return state.Op{Record: record(rapid.SampledFrom(m.givenKinds()).Draw(m.r, "kind"), rapid.IntRange(0, 5).Draw(m.r, "i"))}, true
	case what == "put":
		r := clone(entry.Record)
		if !exists {
			r = create(r)
		}
		return state.Op{Record: touched(r), Revision: revision, Force: force}, force || exists && !stale
	default:
		return state.Op{Key: entry.Record.Key(), Revision: revision, Force: force}, force || exists && !stale
	}
}

// givenKinds returns the kinds for which the store assigns IDs: a create of such a record always succeeds.
func (m *model) givenKinds() []resources.Kind {
	return []resources.Kind{resources.KindUpload, resources.KindNode, resources.KindRequest, resources.KindJournal, resources.KindAudit}
}

// pick draws an existing or deleted record.
func (m *model) pick() (state.Entry, bool) {
	if len(m.deleted) > 0 && rapid.IntRange(0, 4).Draw(m.r, "gone") == 0 {
		entry := rapid.SampledFrom(m.deleted).Draw(m.r, "deleted")
		if now, back := m.records[entry.Record.Key()]; back {
			return now, true
		}
		return entry, false
	}
	if len(m.records) == 0 {
		return state.Entry{}, false
	}
	return rapid.SampledFrom(m.sorted()).Draw(m.r, "record"), true
}

func (m *model) sorted() []state.Entry {
	return slices.SortedFunc(maps.Values(m.records), byKindAndID)
}

func (m *model) compare() {
	s := m.store()
	got, err := s.List(context.Background())
	if err != nil {
		m.r.Fatalf("List: %v", err)
	}
	if want := m.sorted(); len(want)+len(got) > 0 {
		if diff := cmp.Diff(want, got); diff != "" {
			m.r.Fatalf("List (-want +got):\n%s", diff)
		}
	}
	for _, gone := range m.deleted {
		key := gone.Record.Key()
		if _, back := m.records[key]; back {
			continue
		}
		if _, err := s.Get(context.Background(), key); !errors.Is(err, state.ErrNotFound) {
			m.r.Fatalf("Get(%s): %v, want ErrNotFound", key, err)
		}
	}
}
