package statetest

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var idTests = []test{
	{"AreAssignedToNewUploadsAndNodes", func(e *env) {
		s := e.store()
		n, u := Node(1), record(resources.KindUpload, 1).(*resources.Upload)
		entries := e.create(s, n, u)
		for _, entry := range entries {
			if id := entry.Record.Key().ID; len(id) != 10 {
				e.Errorf("id %q, want ten digits", id)
			}
		}
		if n.ID != entries[0].Record.Key().ID || u.ID != entries[1].Record.Key().ID {
			e.Errorf("the records passed in have ids %q and %q, the entries %s and %s", n.ID, u.ID, entries[0].Record.Key(), entries[1].Record.Key())
		}
	}},
	{"DifferWithinOneCommit", func(e *env) {
		s := e.store()
		entries := e.create(s, Node(1), Node(2), Node(3))
		e.distinct(idsOf(entries))
		for i := 1; i < len(entries); i++ {
			if entries[i-1].Record.Key().ID >= entries[i].Record.Key().ID {
				e.Errorf("ids do not rise: %v", idsOf(entries))
			}
		}
	}},
	{"AreNeverReused", func(e *env) {
		var ids []string
		for range 3 {
			s := e.store()
			entry := e.create(s, Node(1))[0]
			ids = append(ids, entry.Record.Key().ID)
			_, err := s.Commit(e.ctx(), state.Op{Key: entry.Record.Key(), Revision: entry.Revision})
			e.must(err)
			e.must(s.Close())
		}
		e.distinct(ids)
	}},
	{"AreHigherThanThoseInClouds", func(e *env) {
		s := e.store()
		for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
			given := e.create(s, record(kind, 1))[0].Record.Key().ID
			number, err := strconv.ParseUint(given, 10, 64)
			e.must(err)
			higher := fmt.Sprintf("%010d", number+250)
			for i, id := range []string{given, higher, "something"} {
				seen := &resources.Sighting{Provider: "vexxhost", Type: "server", External: string(kind) + id, First: moment, Last: moment, Count: 1,
					Record: resources.Key{Kind: kind, ID: id}}
				entry := e.create(s, seen)[0]
				if got := entry.Record.(*resources.Sighting).NewerThanState; got != (i == 1) {
					e.Errorf("sighting of %s %s is ahead of the store: %t", kind, id, got)
				}
				if seen.NewerThanState {
					e.Errorf("the record that was passed in was changed")
				}
			}
			if next := e.create(s, record(kind, 2))[0].Record.Key().ID; next <= higher {
				e.Errorf("the next %s is %s, want one higher than %s, which a cloud shows", kind, next, higher)
			}
		}
	}},
	{"DifferAcrossHandles", func(e *env) {
		var mu sync.Mutex
		var ids []string
		var wg sync.WaitGroup
		for range 4 {
			s := e.store()
			wg.Go(func() {
				for i := range 10 {
					entries, err := s.Commit(e.ctx(), state.Op{Record: Node(i)})
					if err != nil {
						e.Errorf("Commit: %v", err)
						return
					}
					mu.Lock()
					ids = append(ids, entries[0].Record.Key().ID)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		e.distinct(ids)
	}},
}

func (e *env) distinct(ids []string) {
	e.Helper()
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			e.Errorf("id %s was given twice: %v", id, ids)
		}
		seen[id] = true
	}
}

func idsOf(entries []state.Entry) []string {
	ids := make([]string, len(entries))
	for i, entry := range entries {
		ids[i] = entry.Record.Key().ID
	}
	return ids
}

var copyTests = []test{
	{"DoesNotKeepTheRecordsPassedIn", func(e *env) {
		s := e.store()
		n := Node(1)
		e.create(s, n)
		want := clone(n)
		scribble(n)
		if diff := cmp.Diff(want, e.get(s, want.Key()).Record); diff != "" {
			e.Errorf("a change of the record after Commit is in the store (-want +got):\n%s", diff)
		}
	}},
	{"DoesNotChangeTheRecordsPassedIn", func(e *env) {
		s := e.store()
		for _, kind := range e.Kinds {
			r := record(kind, 1)
			before := clone(r)
			entry := e.create(s, r)[0]
			if before.Key().ID == "" {
				before = clone(entry.Record) // only the assigned ID may differ
			}
			if diff := cmp.Diff(before, r); diff != "" {
				e.Errorf("%s (-before +after):\n%s", kind, diff)
			}
		}
	}},
	{"EntriesShareNoMemory", func(e *env) {
		s := e.store()
		entry := e.create(s, Node(1))[0]
		want := clone(entry.Record)
		scribble(entry.Record.(*resources.Node))
		scribble(e.get(s, want.Key()).Record.(*resources.Node))
		scribble(e.list(s)[0].Record.(*resources.Node))
		if diff := cmp.Diff(want, e.get(s, want.Key()).Record); diff != "" {
			e.Errorf("a change of an entry is in the store (-want +got):\n%s", diff)
		}
	}},
}

func scribble(n *resources.Node) {
	n.Comment, n.Labels[0], n.HostKeys[0] = "scribbled", "scribbled", "scribbled"
	n.Attributes["scribbled"] = "yes"
}
