package watch

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

var midnight = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// usedFleet is a pass with a node of each price and state.
func usedFleet(nodes ...*resources.Node) *Pass {
	return &Pass{Desired: resources.Desired{Providers: []resources.Provider{{Name: "one", Currency: "EUR"}, {Name: "two"}}},
		Observed: plan.Observed{Records: plan.Records{Nodes: nodes}}}
}

func TestUseIsSplitAtTheHour(t *testing.T) {
	created := midnight.Add(-time.Hour)
	pass := usedFleet(
		&resources.Node{ID: "1", State: resources.StateInUse, Provider: "one", Pool: "main", Labels: []string{"small", "any"}, Tenant: "acme", Created: created,
			ExternalID: "x", UserData: `{"zuul_system": "z", "project_name": "acme/site"}`},
		&resources.Node{ID: "2", State: resources.StateHold, Provider: "one", Pool: "main", Labels: []string{"small"}, Created: created, ExternalID: "y", UserData: "[]"},
		&resources.Node{ID: "3", State: resources.StateBuilding, Provider: "one", Pool: "main", Labels: []string{"small"}, Created: midnight.Add(3590 * time.Second)},
		&resources.Node{ID: "4", State: resources.StateReady, Provider: "two", Labels: []string{strings.Repeat("ä", 200)}, Created: created, Static: true},
		&resources.Node{ID: "5", State: resources.StateReady, Provider: "others", Labels: []string{"small"}, Created: created})
	use := useHours{}
	use.add(midnight.Add(3580*time.Second), midnight.Add(3620*time.Second), pass, map[string]bool{"one": true, "two": true}, map[string]resources.Money{"1": 500000})
	free := resources.UseGroup{Label: "small", Provider: "one", Pool: "main", Currency: "EUR"}
	taken := resources.UseGroup{Label: "small", Provider: "one", Pool: "main", Tenant: "acme", Project: "acme/site", Currency: "EUR"}
	static := resources.UseGroup{Label: strings.Repeat("ä", useNameLength) + "…", Provider: "two"}
	hour := func(building int64) *useHour {
		return &useHour{20, resources.UseTable{taken: {InUse: 20, Cost: 10000000}, free: {Other: 20, Launching: building, Unpriced: 20}, static: {Ready: 20, Unpriced: 20}}}
	}
	if diff := cmp.Diff(useHours{midnight: hour(10), midnight.Add(time.Hour): hour(20)}, use, cmp.AllowUnexported(useHour{})); diff != "" {
		t.Error(diff)
	}
}

func TestUseOfIntervalsAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		second := rapid.Custom(func(t *rapid.T) time.Time {
			return midnight.Add(time.Duration(rapid.IntRange(0, 3*3600).Draw(t, "second")) * time.Second)
		})
		var nodes []*resources.Node
		prices := map[string]resources.Money{}
		for i := range rapid.IntRange(0, 5).Draw(t, "nodes") {
			n := &resources.Node{ID: fmt.Sprint(i), State: rapid.SampledFrom(resources.StatesOf(resources.KindNode)).Draw(t, "state"), Provider: "one",
				Labels: []string{"a"}, Created: second.Draw(t, "created"), ExternalID: "x"}
			if nodes = append(nodes, n); rapid.Bool().Draw(t, "priced") {
				prices[n.ID] = 1000
			}
		}
		pass, led := usedFleet(nodes...), map[string]bool{"one": true}
		from, middle, until := second.Draw(t, "from"), second.Draw(t, "middle"), second.Draw(t, "until")
		if middle.Before(from) || until.Before(middle) {
			t.Skip()
		}
		whole, parts, rest := useHours{}, useHours{}, useHours{}
		whole.add(from, until, pass, led, prices)
		parts.add(from, middle, pass, led, prices)
		rest.add(middle, until, pass, led, prices)
		parts.addAll(rest)
		if diff := cmp.Diff(whole, parts, cmp.AllowUnexported(useHour{})); diff != "" {
			t.Fatal(diff)
		}
		for at, hour := range whole {
			a := hour.rows[resources.UseGroup{Label: "a", Provider: "one", Currency: "EUR"}]
			if hour.seconds > 3600 || a.NodeSeconds() > hour.seconds*int64(len(nodes)) || a.Unpriced+int64(a.Cost)/1000 != a.NodeSeconds() {
				t.Fatalf("%s: %d seconds, %d nodes: %+v", at, hour.seconds, len(nodes), a)
			}
		}
	})
}

func BenchmarkUseOf10000Nodes(b *testing.B) {
	pass := usedFleet()
	pass.Desired.Providers[0].Prices = map[string]float64{"small": 0.1}
	pass.Observed.Providers = map[string]plan.ProviderView{"one": {ListedAt: midnight}}
	for i := range 10000 {
		pass.Observed.Records.Nodes = append(pass.Observed.Records.Nodes, &resources.Node{ID: fmt.Sprintf("%010d", i), State: resources.StateInUse, Provider: "one", Pool: "main",
			Labels: []string{"small"}, Tenant: fmt.Sprint("t", i%10), ExternalID: "x", UserData: fmt.Sprintf(`{"zuul_system": "z", "project_name": "acme/p%d"}`, i%100)})
	}
	u := &useRecorder{now: time.Now, last: func() Pass { return *pass }, led: func() map[string]bool { return map[string]bool{"one": true} }, unsaved: useHours{}}
	for b.Loop() {
		u.until, pass.Observed.Now = time.Now().Add(-useSample), time.Now()
		u.sample()
	}
}

// A record of the most groups, with the longest names that JSON escapes, is stored, and old records are removed.
func TestRecordsOfUseAreBounded(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // the test is over
	var ops []state.Op
	for i := range 1000 {
		ops = append(ops, state.Op{Record: &resources.Use{Hour: midnight.Add(time.Duration(-1-2*i) * time.Hour), Seconds: 3600}})
	}
	_, err = store.Commit(t.Context(), ops...)
	testutil.Must(t, err)
	long := strings.Repeat("\u2028", 2*useNameLength)
	var nodes []*resources.Node
	for i := range 2 * useRows {
		nodes = append(nodes, &resources.Node{ID: fmt.Sprint(i), State: resources.StateInUse, Provider: "one", Pool: long, Labels: []string{long}, Tenant: fmt.Sprint(i) + long,
			UserData: fmt.Sprintf(`{"project_name": %q}`, long), ExternalID: "x"})
	}
	u := &useRecorder{store: store, unsaved: useHours{}}
	for range 2 { // the second write adds to the record
		u.unsaved.add(midnight, midnight.Add(time.Minute), usedFleet(nodes...), map[string]bool{"one": true}, nil)
		testutil.Must(t, u.flush(t.Context()))
	}
	entries, err := store.List(t.Context(), resources.KindUse)
	testutil.Must(t, err)
	if first := entries[0].Record.Key().ID; len(entries) != 40*24/2+1 || first != "2026-09-22T01" {
		t.Errorf("%d records, the first is %s", len(entries), first)
	}
	newest := entries[len(entries)-1].Record.(*resources.Use)
	var all resources.UseAmounts
	for _, r := range newest.Rows {
		all = all.Plus(r.UseAmounts)
	}
	if len(newest.Rows) != useRows+1 || !newest.Rows[useRows].Remainder || all.InUse != 2*2*useRows*60 || newest.Seconds != 120 {
		t.Errorf("%d rows with %d seconds in use, %d seconds", len(newest.Rows), all.InUse, newest.Seconds)
	}
}

// What could not be written is written later.
func TestUseIsKeptAfterAnError(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // the test is over
	u := &useRecorder{store: store, unsaved: useHours{}}
	node := &resources.Node{ID: "1", State: resources.StateReady, Provider: "one"}
	u.unsaved.add(midnight, midnight.Add(time.Minute), usedFleet(node), map[string]bool{"one": true}, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.flush(gone); err == nil {
		t.Fatal("a write after the end succeeds")
	}
	u.unsaved.add(midnight.Add(time.Minute), midnight.Add(2*time.Minute), usedFleet(node), map[string]bool{"one": true}, nil)
	testutil.Must(t, u.flush(t.Context()))
	testutil.Must(t, u.flush(t.Context())) // nothing is left
	entry, err := store.Get(t.Context(), resources.Key{Kind: resources.KindUse, ID: "2026-11-01T00"})
	testutil.Must(t, err)
	if got := entry.Record.(*resources.Use); got.Seconds != 120 || got.Rows[0].Ready != 120 {
		t.Errorf("recorded: %+v", got)
	}
}
