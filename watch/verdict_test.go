package watch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func at(provider string) resources.Place { return resources.Place{Provider: provider, Pool: "main"} }

func TestChoicesAreComparedWithWhatWasDone(t *testing.T) {
	served := func(provider string, ours bool) Outcome {
		return Outcome{Answer: AnswerServed, Place: at(provider), Ours: ours}
	}
	failed, gone := Outcome{Answer: AnswerFailed, Ours: true}, Outcome{Answer: AnswerNone}
	here, far, nowhere := served("here", true), served("far", false), Outcome{Answer: AnswerServed}
	serve := Choice{Do: DoServe, Place: at("here")}
	for _, test := range []struct {
		would                          Choice
		here, far, failed, gone, where Result
	}{
		{serve, ResultAgree, ResultElsewhere, ResultWouldServe, ResultGone, ResultUnknown},
		{Choice{Do: DoServe, Place: at("there")}, ResultOtherPool, ResultElsewhere, ResultWouldServe, ResultGone, ResultUnknown},
		{Choice{Do: DoDecline}, ResultWouldDecline, ResultAgree, ResultAgree, ResultGone, ResultUnknown},
		{Choice{Do: DoLeave}, ResultWouldLeave, ResultAgree, ResultAgree, ResultGone, ResultUnknown},
		{Choice{Do: DoWait}, ResultWouldWait, ResultElsewhere, ResultWouldWait, ResultGone, ResultUnknown},
		{Choice{}, ResultUnknown, ResultUnknown, ResultUnknown, ResultGone, ResultUnknown},
	} {
		got := []Result{compare(test.would, here), compare(test.would, far), compare(test.would, failed), compare(test.would, gone), compare(test.would, nowhere)}
		want := []Result{test.here, test.far, test.failed, test.gone, test.where}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("npctl would %s (-want +got):\n%s", test.would, diff)
		}
		for _, result := range got {
			if (result == ResultAgree || result == ResultElsewhere) && result.Differs() {
				t.Errorf("%s is called a difference", result)
			}
		}
	}
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func liveNode(id, request string, state resources.State, static bool) *resources.Node {
	return &resources.Node{ID: id, State: state, Provider: "here", Pool: "main", Request: request, Tenant: "acme", Static: static, ExternalID: "i-" + id,
		Created: now.Add(time.Second)}
}

func TestWhatOthersHaveBegunIsSeenAsOpen(t *testing.T) {
	before := liveNode("5", "1", resources.StateReady, false)
	before.Created = now.Add(-time.Hour)
	open := &resources.Request{ID: "1", State: resources.StatePending, Created: now, Labels: []string{"x"}, Place: at("here"),
		Declined: []resources.Decline{{By: "live-here"}, {By: "live-far"}}}
	other := &resources.Request{ID: "2", State: resources.StatePending, Created: now, Labels: []string{"x"}}
	seen := plan.Observed{
		Peers: []resources.Peer{{ID: "live-here", Provider: "here", Pool: "main"}, {ID: "live-far", Provider: "far", Pool: "main"}},
		Records: plan.Records{Requests: []*resources.Request{open, other}, Nodes: []*resources.Node{
			liveNode("1", "", resources.StateReady, false), liveNode("2", "1", resources.StateBuilding, false), liveNode("3", "1", resources.StateReady, false),
			liveNode("4", "1", resources.StateInUse, true), before, liveNode("6", "2", resources.StateBuilding, false)}},
		Providers: map[string]plan.ProviderView{"here": {ListedAt: now}},
		Claimed:   map[resources.Key]bool{},
	}
	for _, n := range seen.Records.Nodes[1:] {
		seen.Claimed[n.Key()] = true
	}
	seen.Claimed[open.Key()], seen.Claimed[other.Key()] = true, true
	gone := &resources.Request{ID: "0", State: resources.StateFulfilled, Labels: []string{"x"}, Nodes: []string{"9"}}

	own := []resources.Peer{{Provider: "here", Pool: "main", Labels: []string{"x"}}}
	got := withOpen(withPools(seen, own, func(p string) bool { return p == "here" }), []*resources.Request{open, gone})

	free := func(n resources.Node) *resources.Node {
		n.State, n.Request, n.Tenant = resources.StateReady, "", ""
		return &n
	}
	want := seen
	want.Peers = []resources.Peer{seen.Peers[1], {ID: "shadow of here/main", Own: true, Provider: "here", Pool: "main", Labels: []string{"x"}}}
	want.Records.Requests = []*resources.Request{
		{ID: "0", State: resources.StateRequested, Labels: []string{"x"}},
		{ID: "1", State: resources.StateRequested, Created: now, Labels: []string{"x"}, Declined: []resources.Decline{{By: "live-far"}}}, other}
	nodes := seen.Records.Nodes
	want.Records.Nodes = []*resources.Node{nodes[0], free(*nodes[3]), free(*before), nodes[5]}
	want.Providers = map[string]plan.ProviderView{"here": {ListedAt: now, Gone: map[string]bool{"i-2": true, "i-3": true}}}
	want.Claimed = map[resources.Key]bool{nodes[5].Key(): true, other.Key(): true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is decided from (-want +got):\n%s", diff)
	}
	if open.State != resources.StatePending || nodes[3].Request != "1" || seen.Providers["here"].Gone != nil || !seen.Claimed[open.Key()] || len(seen.Peers) != 2 {
		t.Error("what was seen has changed")
	}
}

func TestWhatNobodySawEndIsKnownByItsNodes(t *testing.T) {
	pending := &resources.Request{ID: "1", State: resources.StatePending, Labels: []string{"x", "x"}}
	for name, test := range map[string]struct {
		nodes []*resources.Node
		want  Answer
	}{
		"in use":         {[]*resources.Node{liveNode("1", "1", resources.StateInUse, false), liveNode("2", "1", resources.StateReady, false)}, AnswerServed},
		"half made":      {[]*resources.Node{liveNode("1", "1", resources.StateReady, false), liveNode("2", "1", resources.StateBuilding, false)}, AnswerNone},
		"none":           {nil, AnswerNone},
		"back after use": {[]*resources.Node{liveNode("1", "1", resources.StateUsed, false), liveNode("2", "1", resources.StateDeleting, false)}, AnswerServed},
	} {
		if got := outcomeOf(pending, test.nodes); got.Answer != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
