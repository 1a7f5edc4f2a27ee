package statetest

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var getTests = []test{
	{"ReturnsTheWrittenRecord", func(e *env) {
		s := e.store()
		for _, kind := range e.Kinds {
			r := record(kind, 1)
			entry := e.create(s, r)[0]
			if diff := cmp.Diff(r, entry.Record); diff != "" {
				e.Errorf("%s: the new entry (-want +got):\n%s", kind, diff)
			}
			if diff := cmp.Diff(entry, e.get(s, r.Key())); diff != "" {
				e.Errorf("%s: Get (-want +got):\n%s", kind, diff)
			}
		}
	}},
	{"ReturnsNotFound", func(e *env) {
		s := e.store()
		node := e.create(s, record(resources.KindNode, 1))[0]
		for _, key := range []resources.Key{
			{Kind: resources.KindNode, ID: "0000009999"}, {Kind: resources.KindUpload, ID: node.Record.Key().ID}, {Kind: resources.KindBuild, ID: "none"},
		} {
			if _, err := s.Get(e.ctx(), key); !errors.Is(err, state.ErrNotFound) {
				e.Errorf("Get(%s): %v, want ErrNotFound", key, err)
			} else if !strings.Contains(err.Error(), key.ID) {
				e.Errorf("Get(%s): the error does not name the key: %v", key, err)
			}
		}
	}},
	{"ReturnsNotFoundAfterDelete", func(e *env) {
		s := e.store()
		node := e.create(s, record(resources.KindNode, 1))[0]
		_, err := s.Commit(e.ctx(), state.Op{Key: node.Record.Key(), Revision: node.Revision})
		e.must(err)
		if _, err := s.Get(e.ctx(), node.Record.Key()); !errors.Is(err, state.ErrNotFound) {
			e.Errorf("%v, want ErrNotFound", err)
		}
	}},
	{"OtherHandlesSeeCommits", func(e *env) {
		one, two := e.store(), e.store()
		node := e.create(one, record(resources.KindNode, 1))[0]
		if diff := cmp.Diff(node, e.get(two, node.Record.Key())); diff != "" {
			e.Errorf("(-want +got):\n%s", diff)
		}
	}},
}

var listTests = []test{
	{"OfAnEmptyStoreIsEmpty", func(e *env) {
		if got := e.list(e.store()); len(got) != 0 {
			e.Errorf("got %v", got)
		}
	}},
	{"ReturnsAllSortedByKindAndID", func(e *env) {
		s := e.store()
		var want []state.Entry
		for _, kind := range e.Kinds {
			want = append(want, e.create(s, record(kind, 2), record(kind, 1), record(kind, 11))...)
		}
		slices.SortFunc(want, byKindAndID)
		if diff := cmp.Diff(want, e.list(s)); diff != "" {
			e.Errorf("(-want +got):\n%s", diff)
		}
	}},
	{"ReturnsTheGivenKinds", func(e *env) {
		s := e.store()
		for _, kind := range e.Kinds {
			e.create(s, record(kind, 1), record(kind, 2))
		}
		for _, kind := range e.Kinds {
			if got := kindsOf(e.list(s, kind)); !slices.Equal(got, []resources.Kind{kind, kind}) {
				e.Errorf("List(%s) has kinds %v", kind, got)
			}
		}
		want := []resources.Kind{resources.KindUpload, resources.KindUpload, resources.KindNode, resources.KindNode}
		if got := kindsOf(e.list(s, resources.KindNode, resources.KindUpload, resources.KindNode)); !slices.Equal(got, want) {
			e.Errorf("List(node, upload, node) has kinds %v, want %v", got, want)
		}
	}},
	{"RejectsUnknownKinds", func(e *env) {
		if got, err := e.store().List(e.ctx(), "nodes"); err == nil || !strings.Contains(err.Error(), "nodes") {
			e.Errorf("List(nodes) = %v, %v; want an error that names it", got, err)
		}
	}},
	{"IsAsOfOneMoment", listsOneMoment},
	{"AgreesWithGet", func(e *env) {
		s := e.store()
		e.create(s, record(resources.KindNode, 1), record(resources.KindNode, 2))
		for _, entry := range e.list(s) {
			if diff := cmp.Diff(entry, e.get(s, entry.Record.Key())); diff != "" {
				e.Errorf("(-list +get):\n%s", diff)
			}
		}
	}},
}

// listsOneMoment moves a mark between two records, always in one commit, and expects exactly one mark in every List.
func listsOneMoment(e *env) {
	if e.ListNotAtomic {
		e.Skip("this store does not promise it")
	}
	s, other := e.store(), e.store()
	entries := e.create(s, record(resources.KindNode, 1), record(resources.KindUpload, 1))
	mark(entries[0].Record, "here")
	mark(entries[1].Record, "")
	entries = replaceAll(e, s, entries)

	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 50 {
			mark(entries[i%2].Record, "")
			mark(entries[1-i%2].Record, "here")
			entries = replaceAll(e, s, entries)
		}
	})
	defer wg.Wait()
	for lists := 0; ; lists++ {
		select {
		case <-done:
			if lists == 0 {
				e.Error("not one List while records changed: nothing was tested")
			}
			return
		default:
		}
		marks := 0
		for _, entry := range e.list(other) {
			if marked(entry.Record) {
				marks++
			}
		}
		if marks != 1 {
			e.Errorf("List saw %d marks, want 1", marks)
			return
		}
	}
}

func replaceAll(e *env, s state.Store, entries []state.Entry) []state.Entry {
	ops := make([]state.Op, len(entries))
	for i, entry := range entries {
		ops[i] = state.Op{Record: entry.Record, Revision: entry.Revision}
	}
	next, err := s.Commit(e.ctx(), ops...)
	if err != nil {
		e.Errorf("Commit: %v", err)
		return entries
	}
	return next
}

func mark(r resources.Record, text string) {
	switch r := r.(type) {
	case *resources.Node:
		r.Error = text
	case *resources.Upload:
		r.Error = text
	}
}

func marked(r resources.Record) bool {
	switch r := r.(type) {
	case *resources.Node:
		return r.Error == "here"
	case *resources.Upload:
		return r.Error == "here"
	}
	return false
}

func kindsOf(entries []state.Entry) []resources.Kind {
	kinds := make([]resources.Kind, len(entries))
	for i, entry := range entries {
		kinds[i] = entry.Record.Key().Kind
	}
	return kinds
}

func byKindAndID(a, b state.Entry) int {
	ka, kb := a.Record.Key(), b.Record.Key()
	if d := slices.Index(resources.Kinds(), ka.Kind) - slices.Index(resources.Kinds(), kb.Kind); d != 0 {
		return d
	}
	return strings.Compare(ka.ID, kb.ID)
}
