package watch

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func at(provider string) resources.Placement {
	return resources.Placement{Provider: provider, Pool: "main"}
}

func TestDecisionsAreComparedWithOutcomes(t *testing.T) {
	served := func(provider string, ours bool) Outcome {
		return Outcome{Answer: AnswerServed, Place: at(provider), Ours: ours}
	}
	failed, gone := Outcome{Answer: AnswerFailed, Ours: true}, Outcome{Answer: AnswerNone}
	here, far, nowhere := served("here", true), served("far", false), Outcome{Answer: AnswerServed}
	serve := Decision{Do: DecideServe, Place: at("here")}
	for _, test := range []struct {
		would                          Decision
		here, far, failed, gone, where Result
	}{
		{serve, ResultAgree, ResultOtherProvider, ResultWouldServe, ResultWithdrawn, ResultUnknown},
		{Decision{Do: DecideServe, Place: at("there")}, ResultOtherPool, ResultOtherProvider, ResultWouldServe, ResultWithdrawn, ResultUnknown},
		{Decision{Do: DecideDecline}, ResultWouldDecline, ResultAgree, ResultAgree, ResultWithdrawn, ResultUnknown},
		{Decision{Do: DecideYield}, ResultWouldYield, ResultAgree, ResultAgree, ResultWithdrawn, ResultUnknown},
		{Decision{Do: DecideWait}, ResultWouldWait, ResultOtherProvider, ResultWouldWait, ResultWithdrawn, ResultUnknown},
		{Decision{}, ResultUnknown, ResultUnknown, ResultUnknown, ResultWithdrawn, ResultUnknown},
	} {
		got := []Result{compareDecision(test.would, here), compareDecision(test.would, far), compareDecision(test.would, failed), compareDecision(test.would, gone), compareDecision(test.would, nowhere)}
		want := []Result{test.here, test.far, test.failed, test.gone, test.where}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("npctl would %s (-want +got):\n%s", test.would, diff)
		}
		for _, result := range got {
			if (result == ResultAgree || result == ResultOtherProvider) && result.differs() {
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

func TestAcceptedRequestsAreSeenAsOpen(t *testing.T) {
	before := liveNode("5", "1", resources.StateReady, false)
	before.Created = now.Add(-time.Hour)
	open := &resources.Request{ID: "1", State: resources.StatePending, Created: now, Labels: []string{"x"}, Placement: at("here"),
		Declined: []resources.Decline{{PoolID: "live-here"}, {PoolID: "live-far"}}}
	other := &resources.Request{ID: "2", State: resources.StatePending, Created: now, Labels: []string{"x"}}
	seen := plan.Observed{
		RegisteredPools: []resources.RegisteredPool{{ID: "live-here", Provider: "here", Pool: "main"}, {ID: "live-far", Provider: "far", Pool: "main"}},
		Records: plan.Records{Requests: []*resources.Request{open, other}, Nodes: []*resources.Node{
			liveNode("1", "", resources.StateReady, false), liveNode("2", "1", resources.StateBuilding, false), liveNode("3", "1", resources.StateReady, false),
			liveNode("4", "1", resources.StateInUse, true), before, liveNode("6", "2", resources.StateBuilding, false)}},
		Providers:     map[string]plan.ProviderView{"here": {ListedAt: now}},
		ForeignClaims: map[resources.Key]bool{},
	}
	for _, n := range seen.Records.Nodes[1:] {
		seen.ForeignClaims[n.Key()] = true
	}
	seen.ForeignClaims[open.Key()], seen.ForeignClaims[other.Key()] = true, true
	gone := &resources.Request{ID: "0", State: resources.StateFulfilled, Labels: []string{"x"}, Nodes: []string{"9"}}

	own := []resources.RegisteredPool{{Provider: "here", Pool: "main", Labels: []string{"x"}}}
	got := withUndecidedRequests(withPools(seen, own, func(p string) bool { return p == "here" }), []*resources.Request{open, gone})

	free := func(n resources.Node) *resources.Node {
		n.State, n.Request, n.Tenant = resources.StateReady, "", ""
		return &n
	}
	want := seen
	want.RegisteredPools = []resources.RegisteredPool{seen.RegisteredPools[1], {ID: "shadow of here/main", Own: true, Provider: "here", Pool: "main", Labels: []string{"x"}}}
	want.Records.Requests = []*resources.Request{
		{ID: "0", State: resources.StateRequested, Labels: []string{"x"}},
		{ID: "1", State: resources.StateRequested, Created: now, Labels: []string{"x"}, Declined: []resources.Decline{{PoolID: "live-far"}}}, other}
	nodes := seen.Records.Nodes
	want.Records.Nodes = []*resources.Node{nodes[0], free(*nodes[3]), free(*before), nodes[5]}
	want.Providers = map[string]plan.ProviderView{"here": {ListedAt: now, DeletedInstances: map[string]bool{"i-2": true, "i-3": true}}}
	want.ForeignClaims = map[resources.Key]bool{nodes[5].Key(): true, other.Key(): true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is decided from (-want +got):\n%s", diff)
	}
	if open.State != resources.StatePending || nodes[3].Request != "1" || seen.Providers["here"].DeletedInstances != nil || !seen.ForeignClaims[open.Key()] || len(seen.RegisteredPools) != 2 {
		t.Error("what was seen has changed")
	}
}

func TestUnobservedOutcomeIsFoundByNodes(t *testing.T) {
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

func TestAnswerIsComparedWithRecordsThatAreAtLeastAsNew(t *testing.T) {
	s := newShadow(duties{}, slog.New(slog.DiscardHandler), nil, nil)
	asked := &resources.Request{ID: "1", State: resources.StateRequested, Labels: []string{"metal"}}
	before := plan.Observed{}
	before.Records.Requests = []*resources.Request{asked}
	s.track(before.Records.Requests)
	s.note(plan.Plan{Steps: []plan.Step{{Kind: plan.KindServe, Request: "1", Provider: "rack", Pool: "main"}}})

	served := &resources.Request{ID: "1", State: resources.StateFulfilled, Labels: asked.Labels}
	s.onAnswer(served) // while a pass computes from the older records
	ours := func(string) bool { return true }
	if early := s.compareEnded(before, ours); len(early) != 0 {
		t.Errorf("compared without the nodes: %v", early)
	}

	after := plan.Observed{}
	after.Records.Requests = []*resources.Request{served}
	after.Records.Nodes = []*resources.Node{{ID: "7", Request: "1", Provider: "rack", Pool: "main", State: resources.StateReady}}
	if late := s.compareEnded(after, ours); len(late) != 1 || late[0].Result != ResultAgree {
		t.Errorf("compared: %v", late)
	}
}
