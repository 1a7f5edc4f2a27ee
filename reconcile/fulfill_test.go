package reconcile

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

func TestLastReadyNodeFulfillsItsRequest(t *testing.T) {
	request := func(state resources.State, labels ...string) *resources.Request {
		return &resources.Request{ID: "r", State: state, Labels: labels, Placement: resources.Placement{Provider: "p", Pool: "main"}}
	}
	node := func(id string, state resources.State, label string) *resources.Node {
		return &resources.Node{ID: id, State: state, Labels: []string{label}, Provider: "p", Pool: "main", Request: "r"}
	}
	ready := node("1", resources.StateReady, "a")
	elsewhere := node("2", resources.StateReady, "b")
	elsewhere.Pool = "left"
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		request *resources.Request
		others  []*resources.Node
		busy    bool
		want    []string // nodes of the fulfilled request; nil: it stays as it is
	}{
		"one node":             {request: request(resources.StatePending, "a"), want: []string{"1"}},
		"others are ready":     {request: request(resources.StatePending, "b", "a"), others: []*resources.Node{node("2", resources.StateReady, "b")}, want: []string{"2", "1"}},
		"another is launched":  {request: request(resources.StatePending, "b", "a"), others: []*resources.Node{node("2", resources.StateBuilding, "b")}},
		"another has failed":   {request: request(resources.StatePending, "b", "a"), others: []*resources.Node{node("2", resources.StateFailed, "b")}},
		"another is elsewhere": {request: request(resources.StatePending, "b", "a"), others: []*resources.Node{elsewhere}},
		"it has left the pool": {request: &resources.Request{ID: "r", State: resources.StatePending, Labels: []string{"a"},
			Placement: resources.Placement{Provider: "other", Pool: "main"}}},
		"another lacks":      {request: request(resources.StatePending, "a", "a")},
		"not accepted yet":   {request: request(resources.StateRequested, "a")},
		"failed since":       {request: request(resources.StateFailed, "a")},
		"a step works on it": {request: request(resources.StatePending, "a"), busy: true},
		"canceled":           {},
	} {
		t.Run(name, func(t *testing.T) {
			cache := &recordCache{claims: newClaims(nil), revisions: map[resources.Key]state.Revision{}, records: map[resources.Key]resources.Record{},
				busy: map[resources.Key]string{}}
			for _, n := range append(c.others, node("1", resources.StateBuilding, "a")) {
				cache.setEntry(state.Entry{Record: n, Revision: 1})
			}
			if c.request != nil {
				cache.setEntry(state.Entry{Record: c.request, Revision: 7})
			}
			if c.busy {
				cache.markBusy("a step", c.request.Key())
			}
			op, step, ok := requestRecords{cache, func() time.Time { return now }}.fulfillment(ready)
			if ok != (c.want != nil) {
				t.Fatalf("fulfilled: %t, want %t", ok, c.want != nil)
			}
			if !ok {
				return
			}
			want := *c.request
			want.State, want.StateTime, want.Ready, want.Nodes = resources.StateFulfilled, now, now, c.want
			if diff := cmp.Diff(&want, op.Record); diff != "" || op.Revision != 7 {
				t.Errorf("request at revision %d differs:\n%s", op.Revision, diff)
			}
			if diff := cmp.Diff(plan.FulfillStep(c.request, c.want), step, cmpopts.EquateComparable(plan.Kind{})); diff != "" {
				t.Errorf("step differs:\n%s", diff)
			}
		})
	}
}

func TestNodeIsReadyAlthoughItsRequestHasChanged(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	testutil.Must(t, err)
	defer func() { testutil.Must(t, store.Close()) }()
	r, err := NewRunner(t.Context(), New(Options{Store: store}))
	testutil.Must(t, err)
	pending := &resources.Request{State: resources.StateRequested, Labels: []string{"a"}}
	testutil.Must(t, r.cache.put(t.Context(), pending))
	pending.State = resources.StatePending
	testutil.Must(t, r.cache.put(t.Context(), pending))
	launched := &resources.Node{State: resources.StateBuilding, Labels: []string{"a"}, Request: pending.ID}
	testutil.Must(t, r.cache.put(t.Context(), launched))
	changed := *pending
	changed.Priority = 7
	_, err = store.Commit(t.Context(), state.Op{Record: &changed, Force: true}) // the runner does not know yet
	testutil.Must(t, err)
	l := &nodeLaunch{x: &execution{Engine: r.engine, sharedRun: r.sharedRun}, node: launched}
	testutil.Must(t, l.ready(t.Context(), *launched))
	entry, err := store.Get(t.Context(), pending.Key())
	testutil.Must(t, err)
	if got := entry.Record.(*resources.Request); got.State != resources.StatePending || got.Priority != 7 {
		t.Errorf("request: %+v", got)
	}
	entry, err = store.Get(t.Context(), launched.Key())
	testutil.Must(t, err)
	if got := entry.Record.(*resources.Node); got.State != resources.StateReady {
		t.Errorf("node: %+v", got)
	}
}

func TestRestartOfARequestReleasesOnlyItsNodes(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "npctl.db")})
	testutil.Must(t, err)
	defer func() { testutil.Must(t, store.Close()) }()
	r, err := NewRunner(t.Context(), New(Options{Store: store}))
	testutil.Must(t, err)
	put := func(record resources.Record) { testutil.Must(t, r.cache.put(t.Context(), record)) }
	pending := &resources.Request{State: resources.StateRequested, Labels: []string{"a", "a"}}
	put(pending)
	pending.State = resources.StatePending
	put(pending)
	node := func(request string, states ...resources.State) string {
		n := &resources.Node{Labels: []string{"a"}, Request: request, Tenant: "t"}
		for _, s := range states {
			n.State = s
			put(n)
		}
		return n.ID
	}
	ready := node(pending.ID, resources.StateBuilding, resources.StateReady)
	building := node(pending.ID, resources.StateBuilding)
	other := node("another", resources.StateBuilding)
	now := time.Unix(1000, 0)
	step := plan.Step{Kind: plan.KindRestartRequest, Record: pending.Key(), Nodes: []string{ready, building, other, "gone"}}
	testutil.Must(t, requestRecords{r.cache, func() time.Time { return now }}.restartRequest(t.Context(), step))
	got := map[string]string{}
	for _, n := range all[resources.Node](r.cache) {
		got[n.ID] = string(n.State) + " " + n.Request + " " + n.Tenant
	}
	want := map[string]string{ready: "ready  ", building: "deleting  ", other: "building another t"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if again, _ := get[resources.Request](r.cache, pending.Key()); again.State != resources.StateRequested {
		t.Errorf("the request is %s", again.State)
	}
}
