package statetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var commitTests = []test{
	{"WithoutOpsDoesNothing", func(e *env) {
		entries, err := e.store().Commit(e.ctx())
		if len(entries) != 0 || err != nil {
			e.Errorf("got %v, %v", entries, err)
		}
	}},
	{"ReturnsEntriesInTheOrderOfTheOps", func(e *env) {
		s := e.store()
		old := e.create(s, record(resources.KindUpload, 1))[0]
		node := Node(7)
		got, err := s.Commit(e.ctx(),
			state.Op{Record: node},
			state.Op{Key: old.Record.Key(), Revision: old.Revision},
			state.Op{Record: record(resources.KindUpload, 8)})
		e.must(err)
		if len(got) != 3 || got[1] != (state.Entry{}) {
			e.Fatalf("got %v, want three entries with a zero one for the delete", got)
		}
		for i, kind := range map[int]resources.Kind{0: resources.KindNode, 2: resources.KindUpload} {
			if got[i].Record.Key().Kind != kind || got[i].Revision == 0 {
				e.Errorf("entry %d is %v, want a %s with a revision", i, got[i], kind)
			}
			if diff := cmp.Diff(e.get(s, got[i].Record.Key()), got[i]); diff != "" {
				e.Errorf("entry %d (-get +commit):\n%s", i, diff)
			}
		}
	}},
	{"WithARevisionReplacesThatVersion", func(e *env) {
		s := e.store()
		for _, kind := range e.Kinds {
			old := e.create(s, record(kind, 1))[0]
			want := touched(old.Record)
			got, err := s.Commit(e.ctx(), state.Op{Record: want, Revision: old.Revision})
			e.must(err)
			if got[0].Revision == old.Revision || got[0].Revision == 0 {
				e.Errorf("%s: revision %d after %d, want another", kind, got[0].Revision, old.Revision)
			}
			if diff := cmp.Diff(want, e.get(s, want.Key()).Record); diff != "" {
				e.Errorf("%s (-want +got):\n%s", kind, diff)
			}
		}
	}},
	{"RejectsOtherRevisions", refusesConflicts},
	{"IsAtomic", allOrNone},
	{"WithForceIgnoresTheRevision", func(e *env) {
		s := e.store()
		for _, kind := range e.Kinds {
			r := e.create(s, record(kind, 1))[0].Record
			for _, op := range []state.Op{
				{Record: touched(r), Force: true},                // replaces without a revision
				{Record: r, Force: true, Revision: 1 << 40},      // replaces in spite of a wrong revision
				{Key: r.Key(), Force: true},                      // deletes
				{Key: r.Key(), Force: true},                      // deletes a record that does not exist
				{Record: create(r), Force: true, Revision: 1234}, // creates
			} {
				_, err := s.Commit(e.ctx(), op)
				e.must(err)
			}
			if diff := cmp.Diff(create(r), e.get(s, r.Key()).Record); diff != "" {
				e.Errorf("%s (-want +got):\n%s", kind, diff)
			}
		}
	}},
	{"ForcedDeleteOfNothingDoesNothing", func(e *env) {
		_, err := e.store().Commit(e.ctx(), state.Op{Key: resources.Key{Kind: resources.KindNode, ID: "0000000099"}})
		e.must(err)
	}},
	{"TakesTheKeyFromTheRecord", func(e *env) {
		s := e.store()
		r := e.create(s, record(resources.KindNode, 1))[0]
		_, err := s.Commit(e.ctx(), state.Op{Key: r.Record.Key(), Record: touched(r.Record), Revision: r.Revision})
		e.must(err)
	}},
	{"NeverUsesARevisionTwice", func(e *env) {
		s := e.store()
		key := e.create(s, record(resources.KindNode, 1))[0].Record.Key()
		seen := map[state.Revision]bool{}
		for range 5 {
			now := e.get(s, key)
			if seen[now.Revision] {
				e.Fatalf("revision %d was used twice", now.Revision)
			}
			seen[now.Revision] = true
			_, err := s.Commit(e.ctx(), state.Op{Key: key, Revision: now.Revision})
			e.must(err)
			_, err = s.Commit(e.ctx(), state.Op{Record: create(now.Record)})
			e.must(err)
		}
	}},
	{"OneOfManyWins", oneWins},
	{"RejectsIllegalTransitions", legalMoves},
	{"SurvivesANewHandle", func(e *env) {
		first := e.store()
		want := e.create(first, record(resources.KindNode, 1), record(resources.KindUpload, 1))
		e.must(first.Close())
		for _, entry := range want {
			if diff := cmp.Diff(entry, e.get(e.store(), entry.Record.Key())); diff != "" {
				e.Errorf("(-want +got):\n%s", diff)
			}
		}
	}},
	{"RejectsARecordWithoutAnID", func(e *env) {
		for _, r := range []resources.Record{&resources.Build{State: resources.StateBuilding}, &resources.ProviderRecord{Driver: "static"}} {
			if !e.has(r.Key().Kind) {
				continue
			}
			if _, err := e.store().Commit(e.ctx(), state.Op{Record: r}); err == nil {
				e.Errorf("a %s without an id was written", r.Key().Kind)
			}
		}
	}},
	{"KeepsOrRejectsLargeRecords", func(e *env) {
		s := e.store()
		for size := 1 << 10; size <= 8<<20; size *= 8 {
			n := Node(1)
			n.Comment = strings.Repeat("x", size)
			entries, err := s.Commit(e.ctx(), state.Op{Record: n})
			if err != nil {
				if size <= 64<<10 {
					e.Errorf("a record of %d bytes: %v", size, err)
				}
				continue
			}
			if got := e.get(s, entries[0].Record.Key()).Record.(*resources.Node); len(got.Comment) != size {
				e.Errorf("of %d bytes %d came back", size, len(got.Comment))
			}
		}
	}},
}

// create returns a copy of the record in a state in which it may be created.
func create(r resources.Record) resources.Record {
	r = clone(r)
	switch r := r.(type) {
	case *resources.Build:
		r.State = resources.StateBuilding
	case *resources.Upload:
		r.State = resources.StateUploading
	case *resources.Node:
		r.State = resources.StateBuilding
	}
	return r
}

func refusesConflicts(e *env) {
	s := e.store()
	for _, kind := range e.Kinds {
		old := e.create(s, record(kind, 1))[0]
		replaced, err := s.Commit(e.ctx(), state.Op{Record: touched(old.Record), Revision: old.Revision})
		e.must(err)
		now, key := replaced[0], old.Record.Key()
		absent := absentKey(kind)
		for name, op := range map[string]state.Op{
			"create of what exists":       {Record: old.Record},
			"put over a newer version":    {Record: old.Record, Revision: old.Revision},
			"put of a future version":     {Record: old.Record, Revision: now.Revision + 1000},
			"delete of a newer version":   {Key: key, Revision: old.Revision},
			"delete of what was not seen": {Key: key},
			"delete of what is gone":      {Key: absent, Revision: now.Revision},
		} {
			_, err := s.Commit(e.ctx(), op)
			if !errors.Is(err, state.ErrConflict) {
				e.Errorf("%s, %s: %v, want ErrConflict", kind, name, err)
			} else if id := map[bool]string{true: absent.ID, false: key.ID}[op.Key == absent]; !strings.Contains(err.Error(), id) {
				e.Errorf("%s, %s: the error does not name %s: %v", kind, name, id, err)
			}
		}
		if diff := cmp.Diff(now, e.get(s, key)); diff != "" {
			e.Errorf("%s: a rejected op changed the record (-want +got):\n%s", kind, diff)
		}
	}
}

func absentKey(kind resources.Kind) resources.Key {
	return resources.Key{Kind: kind, ID: "0000099999"}
}

// allOrNone puts a conflict at each position of a commit, and expects that nothing is written.
func allOrNone(e *env) {
	s := e.store()
	kept := e.create(s, record(resources.KindNode, 1), record(resources.KindUpload, 1))
	before := e.list(s)
	good := []state.Op{
		{Record: record(resources.KindNode, 2)},
		{Record: touched(kept[0].Record), Revision: kept[0].Revision},
		{Key: kept[1].Record.Key(), Revision: kept[1].Revision},
	}
	bad := state.Op{Key: absentKey(resources.KindNode), Revision: kept[0].Revision}
	for i := range len(good) + 1 {
		ops := append(append(append([]state.Op{}, good[:i]...), bad), good[i:]...)
		if entries, err := s.Commit(e.ctx(), ops...); !errors.Is(err, state.ErrConflict) || len(entries) != 0 {
			e.Errorf("conflict at place %d: %v, %v; want ErrConflict alone", i, entries, err)
		}
		if diff := cmp.Diff(before, e.list(s)); diff != "" {
			e.Errorf("conflict at place %d changed something (-before +after):\n%s", i, diff)
		}
	}
	_, err := s.Commit(e.ctx(), good...)
	e.must(err) // without the conflict, the ops are valid
}

// oneWins increments a counter in one record from several handles, and expects no lost update.
func oneWins(e *env) {
	const handles, raises = 4, 15
	first := e.store()
	node := e.create(first, record(resources.KindNode, 1))[0].Record.(*resources.Node)
	key, want := node.Key(), node.Attempt+handles*raises
	var wg sync.WaitGroup
	var conflicts atomic.Int64
	for range handles {
		s := e.store()
		wg.Go(func() {
			for done := 0; done < raises; {
				entry, err := s.Get(e.ctx(), key)
				if err != nil {
					e.Errorf("Get: %v", err)
					return
				}
				entry.Record.(*resources.Node).Attempt++
				switch _, err = s.Commit(e.ctx(), state.Op{Record: entry.Record, Revision: entry.Revision}); {
				case err == nil:
					done++
				case errors.Is(err, state.ErrConflict):
					conflicts.Add(1)
				default:
					e.Errorf("Commit: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := e.get(first, key).Record.(*resources.Node).Attempt; got != want {
		e.Errorf("%d raises by %d handles made %d, want %d (%d conflicts)", handles*raises, handles, got, want, conflicts.Load())
	}
}

func legalMoves(e *env) {
	if e.AnyMove {
		e.Skip("this store does not check states")
	}
	s := e.store()
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload, resources.KindBuild} {
		if !e.has(kind) {
			continue
		}
		for _, start := range states {
			if !resources.LegalTransition(kind, "", start) {
				_, err := s.Commit(e.ctx(), state.Op{Record: inState(record(kind, 1), start)})
				e.illegal(err, kind, "", start)
				continue
			}
			for _, next := range states {
				old := e.create(s, inState(record(kind, 1), start))[0]
				r := inState(old.Record, next)
				_, err := s.Commit(e.ctx(), state.Op{Record: r, Revision: old.Revision})
				if resources.LegalTransition(kind, start, next) {
					e.must(err)
				} else {
					e.illegal(err, kind, start, next)
					_, err = s.Commit(e.ctx(), state.Op{Record: r, Force: true})
					e.illegal(err, kind, start, next)
				}
				_, err = s.Commit(e.ctx(), state.Op{Key: r.Key(), Force: true})
				e.must(err)
			}
		}
	}
}

// illegal expects an error that names the transition. It must not be a conflict, because a retry would not help.
func (e *env) illegal(err error, kind resources.Kind, from, to resources.State) {
	e.Helper()
	if err == nil || errors.Is(err, state.ErrConflict) {
		e.Errorf("%s from %q to %q: %v, want an error", kind, from, to, err)
		return
	}
	for _, part := range []string{string(kind), string(from), string(to)} {
		if !strings.Contains(err.Error(), part) {
			e.Errorf("%s from %q to %q: the error does not name %q: %v", kind, from, to, part, err)
		}
	}
}

// states are all states of nodes, builds and uploads; only an upload has a state that no node has.
var states = append(resources.StatesOf(resources.KindNode), resources.StateUploading)

func inState(r resources.Record, to resources.State) resources.Record {
	r = clone(r)
	switch r := r.(type) {
	case *resources.Build:
		r.State = to
	case *resources.Upload:
		r.State = to
	case *resources.Node:
		r.State = to
	}
	return r
}
