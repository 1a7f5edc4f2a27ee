package statetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	diff "github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var changesTests = []sharedTest{
	{"FirstCallReturnsEverything", func(e *sharedEnv) {
		want := e.create(e.shared(), claimable()...)
		s := e.shared()
		changed, gone := s.Changes()
		slices.SortFunc(want, byKindAndID)
		slices.SortFunc(changed, byKindAndID)
		if d := diff.Diff(want, changed); d != "" || len(gone) > 0 {
			e.Errorf("gone: %v (-want +got):\n%s", gone, d)
		}
		if changed, gone = s.Changes(); len(changed)+len(gone) > 0 {
			e.Errorf("reported twice: %v, %v", changed, gone)
		}
	}},
	{"ReturnTheCurrentRecordOnce", func(e *sharedEnv) {
		s := e.shared()
		s.Changes()
		entry := e.create(s, Node(1))[0]
		entries, err := s.Commit(e.ctx(), state.Op{Record: touched(entry.Record), Revision: entry.Revision})
		e.must(err)
		got, gone := s.Changes()
		if d := diff.Diff(entries, got); d != "" || len(gone) > 0 {
			e.Errorf("gone: %v (-want +got):\n%s", gone, d)
		}
	}},
	{"ReturnDeletedKeys", func(e *sharedEnv) {
		s := e.shared()
		for _, entry := range e.create(s, claimable()...) {
			s.Changes()
			key := entry.Record.Key()
			_, err := s.Commit(e.ctx(), state.Op{Key: key, Revision: entry.Revision})
			e.must(err)
			changed, gone := s.Changes()
			if d := diff.Diff([]resources.Key{key}, gone); d != "" || len(changed) > 0 {
				e.Errorf("changed: %v (-want +got):\n%s", changed, d)
			}
		}
	}},
	{"OmitCreatedAndDeletedRecords", func(e *sharedEnv) {
		s := e.shared()
		entry := e.create(s, Node(1))[0]
		_, err := s.Commit(e.ctx(), state.Op{Key: entry.Record.Key(), Revision: entry.Revision})
		e.must(err)
		if changed, _ := s.Changes(); len(changed) > 0 {
			e.Errorf("reported a deleted record: %v", changed)
		}
	}},
	{"MayBeRetained", func(e *sharedEnv) {
		s := e.shared()
		entry := e.create(s, Node(1))[0]
		changed, _ := s.Changes()
		changed[0].Record.(*resources.Node).Labels[0] = "scribbled"
		if d := diff.Diff(entry, e.get(s, entry.Record.Key())); d != "" {
			e.Errorf("a record that was given out is the store's own (-want +got):\n%s", d)
		}
	}},
	{"OfOthersComeWithHints", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		two.Changes()
		entry := e.create(one, Node(1))[0]
		var got []state.Entry
		e.eventually(two, "the change of another handle is reported", func() bool {
			changed, _ := two.Changes()
			got = append(got, changed...)
			return len(got) > 0
		})
		if d := diff.Diff([]state.Entry{entry}, got); d != "" {
			e.Errorf("(-want +got):\n%s", d)
		}
	}},
	{"AgreeWithList", changesAgreeWithList},
}

// changesAgreeWithList changes records from several handles concurrently, and follows one handle through hints and
// Changes, as a daemon does.
func changesAgreeWithList(e *sharedEnv) {
	const handles, rounds = 3, 25
	follower := e.shared()
	known := map[resources.Key]state.Entry{}
	follow := func() {
		changed, gone := follower.Changes()
		for _, key := range gone {
			delete(known, key)
		}
		for _, entry := range changed {
			known[entry.Record.Key()] = entry
		}
	}
	var wg sync.WaitGroup
	for h := range handles {
		s := e.shared()
		wg.Go(func() { e.churn(s, h*1000, rounds) })
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	hints := e.watch(e.ctx(), follower)
	for going := true; going; {
		select {
		case <-hints:
		case <-ended:
			going = false
		}
		follow()
	}
	want := e.list(follower, resources.KindRequest, resources.KindNode, resources.KindBuild, resources.KindUpload)
	if follow(); len(want) == 0 {
		e.Error("nothing is left to compare")
	}
	slices.SortFunc(want, byKindAndID)
	if d := diff.Diff(want, slices.SortedFunc(maps.Values(known), byKindAndID)); d != "" {
		e.Errorf("(-List +Changes):\n%s", d)
	}
}

// churn creates, changes and deletes records. It also changes records of the other handles.
func (e *sharedEnv) churn(s state.Shared, base, rounds int) {
	for i := range rounds {
		made, err := s.Commit(e.ctx(), state.Op{Record: Node(base + i)}, state.Op{Record: record(resources.KindRequest, i)})
		if err != nil {
			e.Errorf("create: %v", err)
			return
		}
		all, err := s.List(e.ctx(), resources.KindNode, resources.KindRequest)
		if err != nil {
			e.Errorf("List: %v", err)
			return
		}
		any := all[(base+i*7)%len(all)]
		for _, op := range []state.Op{
			{Record: touched(any.Record), Revision: any.Revision},
			{Key: made[i%2].Record.Key(), Revision: made[i%2].Revision},
		} {
			if _, err := s.Commit(e.ctx(), op); err != nil && !errors.Is(err, state.ErrConflict) {
				e.Errorf("change: %v", err)
			}
		}
	}
}

var registryTests = []sharedTest{
	{"ShowsPoolsToAll", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		e.must(one.Register(e.ctx(), resources.Presence{Pools: []resources.RegisteredPool{pool("a", 1), pool("b", 2)}}))
		own := one.RegisteredPools() // immediately
		if len(own) != 2 {
			e.Fatalf("own pools are %v, want two", own)
		}
		for _, p := range own {
			if !p.Own || p.ID == "" {
				e.Errorf("%+v: want an id, and Own", p)
			}
		}
		want := []resources.RegisteredPool{pool("a", 1), pool("b", 2)}
		if d := diff.Diff(want, described(own)); d != "" {
			e.Errorf("own (-want +got):\n%s", d)
		}
		e.eventually(two, "another sees the pools", func() bool { return diff.Equal(want, described(two.RegisteredPools())) })
		for i, p := range two.RegisteredPools() {
			if p.Own || !p.IsNpctl() || !slices.ContainsFunc(own, func(o resources.RegisteredPool) bool { return o.ID == p.ID }) {
				e.Errorf("pool %d is %+v to another, want it to be an npctl's, not Own, and an id of %v", i, p, own)
			}
		}
	}},
	{"ReplacesTheFormerPresence", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		e.must(one.Register(e.ctx(), resources.Presence{Pools: []resources.RegisteredPool{pool("a", 1), pool("b", 2)}}))
		before := idOf(one.RegisteredPools(), "b")
		b := pool("b", 7)
		b.Labels, b.Paused = []string{"other"}, true
		want := []resources.RegisteredPool{b, pool("c", 3)}
		e.must(one.Register(e.ctx(), resources.Presence{Pools: want}))
		if d := diff.Diff(want, described(one.RegisteredPools())); d != "" {
			e.Errorf("own (-want +got):\n%s", d)
		}
		if now := idOf(one.RegisteredPools(), "b"); now != before {
			e.Errorf("pool b has the id %s, had %s", now, before)
		}
		e.eventually(two, "another sees the new pools", func() bool { return diff.Equal(want, described(two.RegisteredPools())) })
		e.must(one.Register(e.ctx(), resources.Presence{}))
		e.eventually(two, "no pool is there", func() bool { return len(two.RegisteredPools()) == 0 })
	}},
	{"DistinguishesProcesses", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		e.must(one.Register(e.ctx(), resources.Presence{Pools: []resources.RegisteredPool{pool("a", 1)}}))
		e.must(two.Register(e.ctx(), resources.Presence{Pools: []resources.RegisteredPool{pool("a", 1)}}))
		e.eventually(one, "both are there", func() bool { return len(one.RegisteredPools()) == 2 })
		peers := one.RegisteredPools()
		if peers[0].ID == peers[1].ID || peers[0].Own == peers[1].Own {
			e.Errorf("%+v: want two ids and one Own", peers)
		}
	}},
	{"EndsWithTheStore", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		e.must(one.Register(e.ctx(), resources.Presence{Pools: []resources.RegisteredPool{pool("a", 1)}}))
		e.eventually(two, "the pool is there", func() bool { return len(two.RegisteredPools()) == 1 })
		e.must(one.Close())
		e.eventually(two, "the pool is gone", func() bool { return len(two.RegisteredPools()) == 0 })
	}},
	{"ListsBuilders", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		is := func(s state.Shared, want ...string) func() bool {
			return func() bool { return slices.Equal(s.Builders(), want) }
		}
		e.must(one.Register(e.ctx(), resources.Presence{Pools: []resources.RegisteredPool{pool("a", 1)}}))
		if got := one.Builders(); len(got) > 0 {
			e.Errorf("a process that is no builder is listed: %q", got)
		}
		e.must(two.Register(e.ctx(), resources.Presence{Builder: "b"}))
		e.must(one.Register(e.ctx(), resources.Presence{Builder: "a"}))
		for _, s := range []state.Shared{one, two} {
			e.eventually(s, "both are listed, sorted", is(s, "a", "b"))
		}
		e.must(one.Register(e.ctx(), resources.Presence{}))
		e.eventually(two, "the former builder is not listed", is(two, "b"))
		e.must(two.Close())
		e.eventually(one, "the closed builder is not listed", is(one))
	}},
	{"NamesThePoolsThatDeclined", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		e.must(one.Register(e.ctx(), resources.Presence{Pools: []resources.RegisteredPool{pool("a", 1)}}))
		id := idOf(one.RegisteredPools(), "a")
		r := record(resources.KindRequest, 1).(*resources.Request)
		r.Declined = []resources.Decline{{PoolID: id}}
		key := e.create(one, r)[0].Record.Key()
		want := []resources.Decline{{PoolID: id, Provider: "cloud", Pool: "a"}}
		e.eventually(two, "the decline is known", func() bool {
			entry, err := two.Get(e.ctx(), key)
			return err == nil && diff.Equal(want, entry.Record.(*resources.Request).Declined)
		})
	}},
}

func pool(name string, priority int64) resources.RegisteredPool {
	return resources.RegisteredPool{Provider: "cloud", Pool: name, Labels: []string{"debian", fmt.Sprintf("only-%s", name)}, Priority: priority}
}

func idOf(peers []resources.RegisteredPool, pool string) string {
	for _, p := range peers {
		if p.Pool == pool {
			return p.ID
		}
	}
	return ""
}

// described returns pools without the fields that identify a process, sorted by name.
func described(peers []resources.RegisteredPool) []resources.RegisteredPool {
	peers = slices.Clone(peers)
	for i := range peers {
		peers[i].ID, peers[i].Own, peers[i].Host, peers[i].Program = "", false, "", ""
	}
	slices.SortFunc(peers, func(a, b resources.RegisteredPool) int { return cmp.Compare(a.Pool, b.Pool) })
	return peers
}
