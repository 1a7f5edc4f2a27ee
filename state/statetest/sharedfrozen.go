package statetest

import (
	diff "github.com/google/go-cmp/cmp"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var frozenTests = []sharedTest{
	{"AppliesToAllUntilAnyThaws", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		if got := one.FrozenProviders(); len(got) > 0 {
			e.Fatalf("frozen from the start are %q", got)
		}
		for range 2 {
			e.must(one.FreezeProvider(e.ctx(), "cloud", true))
		}
		e.must(one.FreezeProvider(e.ctx(), "rack 7/ü", true))
		want := []string{"cloud", "rack 7/ü"}
		frozen := func(s state.Shared) func() bool {
			return func() bool { return diff.Equal(want, s.FrozenProviders()) }
		}
		if !frozen(one)() { // immediately
			e.Errorf("frozen are %q, want %q", one.FrozenProviders(), want)
		}
		e.eventually(two, "another handle sees them", frozen(two))
		for range 2 {
			e.must(two.FreezeProvider(e.ctx(), "cloud", false))
		}
		want = want[1:]
		if !frozen(two)() {
			e.Errorf("after one was thawed, frozen are %q, want %q", two.FrozenProviders(), want)
		}
		e.eventually(one, "the process that froze it sees the thaw", frozen(one))
	}},
	{"CanBeThawedByAnUnsyncedHandle", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		for range 5 {
			e.must(one.FreezeProvider(e.ctx(), "cloud", true))
			e.must(two.FreezeProvider(e.ctx(), "cloud", false))
			e.eventually(one, "the provider is thawed", func() bool { return len(one.FrozenProviders()) == 0 })
		}
	}},
	{"SurvivesTheProcessThatFroze", func(e *sharedEnv) {
		one, two := e.shared(), e.shared()
		e.must(one.FreezeProvider(e.ctx(), "cloud", true))
		e.must(one.Close())
		for name, s := range map[string]state.Shared{"an open handle": two, "a later handle": e.shared()} {
			e.eventually(s, name+" sees it", func() bool { return diff.Equal([]string{"cloud"}, s.FrozenProviders()) })
		}
	}},
	{"IsShownInRecords", func(e *sharedEnv) {
		s := e.shared()
		key := resources.Key{Kind: resources.KindProvider, ID: "cloud"}
		if _, err := s.Commit(e.ctx(), state.Op{Record: &resources.ProviderRecord{Name: key.ID, Driver: "sandbox", Frozen: true}}); err != nil {
			e.Fatal(err)
		}
		for _, frozen := range []bool{false, true, false} {
			e.must(s.FreezeProvider(e.ctx(), key.ID, frozen))
			entry, err := s.Get(e.ctx(), key)
			if err != nil {
				e.Fatal(err)
			}
			if got := entry.Record.(*resources.ProviderRecord).Frozen; got != frozen {
				e.Errorf("the record says frozen: %t, want %t", got, frozen)
			}
		}
	}},
}
