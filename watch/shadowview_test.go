package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// begun is an observed state after launchers have started work on requests.
type begun struct {
	before, after plan.Observed
	launched      map[string]bool // IDs of servers
}

// anyWorld generates ready nodes, requests, and other processes that serve the requests arbitrarily.
func anyWorld(t *rapid.T) begun {
	w := begun{launched: map[string]bool{}}
	nodes := rapid.IntRange(0, 8).Draw(t, "nodes")
	for i := range nodes {
		n := liveNode(fmt.Sprintf("%010d", i), "", resources.StateReady, rapid.Bool().Draw(t, "static"))
		n.Tenant, n.Created = "", now.Add(-time.Hour)
		w.before.Records.Nodes = append(w.before.Records.Nodes, n)
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "requests") {
		w.before.Records.Requests = append(w.before.Records.Requests, &resources.Request{ID: fmt.Sprintf("200-%010d", i), State: resources.StateRequested,
			Created: now, Labels: []string{"x"}})
	}
	w.before.ForeignClaims = map[resources.Key]bool{{Kind: resources.KindNode, ID: "other"}: true}
	w.before.Providers = map[string]plan.ProviderView{"here": {ListedAt: now}}
	w.after = w.before
	w.after.Records.Nodes, w.after.ForeignClaims = slices.Clone(w.before.Records.Nodes), map[resources.Key]bool{{Kind: resources.KindNode, ID: "other"}: true}
	w.after.Records.Requests = nil
	for _, r := range w.before.Records.Requests {
		w.after.Records.Requests = append(w.after.Records.Requests, w.serve(t, r))
	}
	return w
}

// serve applies arbitrary work of a launcher and Zuul to a request.
func (w *begun) serve(t *rapid.T, r *resources.Request) *resources.Request {
	again := *r
	again.State = rapid.SampledFrom([]resources.State{resources.StateRequested, resources.StatePending, resources.StateFulfilled, resources.StateFailed}).Draw(t, "state")
	if rapid.Bool().Draw(t, "claimed") {
		w.after.ForeignClaims[r.Key()] = true
	}
	if rapid.Bool().Draw(t, "declined") {
		again.Declined = []resources.Decline{{PoolID: "live-here"}}
	}
	if again.State != resources.StatePending && again.State != resources.StateFulfilled {
		return &again
	}
	if free := slices.IndexFunc(w.after.Records.Nodes, func(n *resources.Node) bool { return n.Request == "" }); free >= 0 && rapid.Bool().Draw(t, "reuse") {
		n := *w.after.Records.Nodes[free]
		n.Request, n.Tenant, n.Requestor = r.ID, "acme", "zuul"
		n.State = rapid.SampledFrom([]resources.State{resources.StateReady, resources.StateInUse}).Draw(t, "reused")
		w.after.Records.Nodes[free] = &n
		w.after.ForeignClaims[n.Key()] = true
	} else {
		n := liveNode(fmt.Sprintf("%010d", len(w.after.Records.Nodes)), r.ID,
			rapid.SampledFrom([]resources.State{resources.StateInit, resources.StateBuilding, resources.StateReady, resources.StateInUse}).Draw(t, "launched"), false)
		w.after.Records.Nodes = append(w.after.Records.Nodes, n)
		w.after.ForeignClaims[n.Key()] = true
		w.launched[n.ExternalID] = true
	}
	return &again
}

// TestUndecidedRequestsAreReset: npctl decides as if the other processes had not started any work.
func TestUndecidedRequestsAreReset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		got := withUndecidedRequests(w.after, w.after.Records.Requests)
		gone := got.Providers["here"].DeletedInstances
		if len(gone) != len(w.launched) {
			t.Fatalf("counted as gone are %v, launched were %v", gone, w.launched)
		}
		got.Providers = w.before.Providers
		if diff := cmp.Diff(w.before, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-before +got):\n%s", diff)
		}
	})
}
