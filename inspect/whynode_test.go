package inspect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestCloudStatusIsTheNewestKnown(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, test := range map[string]struct {
		listed time.Time
		node   resources.Node
		want   string
	}{
		"on its way":          {ago(40 * time.Second), resources.Node{ExternalID: "4711", Created: ago(time.Minute)}, "pending no host, listed 40s ago"},
		"listed since":        {ago(10 * time.Second), resources.Node{ExternalID: "4711", Created: ago(time.Minute), Seconds: 30}, "pending no host, listed 10s ago"},
		"ready after listing": {ago(40 * time.Second), resources.Node{ExternalID: "4711", Created: ago(time.Minute), Seconds: 30}, "ready when its launch ended, 30s ago; the newest listing is older (pending no host, listed 40s ago)"},
		"not listed":          {ago(40 * time.Second), resources.Node{ExternalID: "4712"}, ""},
		"without server":      {ago(40 * time.Second), resources.Node{}, ""},
	} {
		test.node.Provider = "cloud"
		e := &explanation{in: WhyInput{Now: now}, Fleet: Fleet{Observed: plan.Observed{Providers: map[string]plan.ProviderView{"cloud": {ListedAt: test.listed,
			Instances: []resources.Instance{{ID: "4711", Status: resources.StatusPending, Fault: "no host"}}}}}}}
		if got := e.inCloud(&test.node); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestPendingNodeWaitsForTheReasonOfItsCloud(t *testing.T) {
	node := &resources.Node{ID: "0000000001", State: resources.StateBuilding, Provider: "cloud", Pool: "main", ExternalID: "4711"}
	in := WhyInput{Fleet: Fleet{Observed: plan.Observed{Records: plan.Records{Nodes: []*resources.Node{node}}, Providers: map[string]plan.ProviderView{
		"cloud": {Instances: []resources.Instance{{ID: "4711", Status: resources.StatusPending, Fault: "Insufficient cpu"}}}}}}}
	why, err := Why("node/0000000001", in)
	if err != nil || len(why.Waits) != 1 || why.Waits[0].Code != "launch" || !strings.HasSuffix(why.Waits[0].Text, ": Insufficient cpu") {
		t.Errorf("it waits for %+v, %v", why.Waits, err)
	}
}

// TestLockHolderMayBeWorkingOnANode: an apply launches a node, so no earlier step has left it unfinished.
func TestLockHolderMayBeWorkingOnANode(t *testing.T) {
	for state, want := range map[resources.State]bool{resources.StateInit: true, resources.StateBuilding: true, resources.StateDeleting: true, resources.StateReady: false} {
		node := &resources.Node{ID: "0000000001", State: state, Provider: "cloud", Pool: "main", Labels: []string{"small"}}
		in := WhyInput{Fleet: Fleet{Observed: plan.Observed{Records: plan.Records{Nodes: []*resources.Node{node}},
			LockHolder: &plan.LockHolder{Operation: "apply", Who: "ann@here", Host: "here", PID: 7}}}}
		why, err := Why("node/0000000001", in)
		if err != nil {
			t.Fatal(err)
		}
		text := "apply by ann@here (process 7 on here) holds the lock of the state and may be working on it"
		if got := slices.Contains(why.Waits, wire.Wait{Code: "in-progress", Text: text}); got != want {
			t.Errorf("a node that is %s waits for %+v", state, why.Waits)
		}
	}
}

func TestNodeThatKeepsItsEarlierNameSaysWhatItWaitsFor(t *testing.T) {
	from, _ := resources.ParseBlockRef("label.small")
	to, _ := resources.ParseBlockRef("label.little")
	node := &resources.Node{ID: "0000000001", State: resources.StateInUse, Provider: "cloud", Pool: "main", Labels: []string{"small"}}
	in := WhyInput{Fleet: Fleet{Desired: resources.Desired{Moves: resources.Moves{{From: from, To: to}}},
		Observed: plan.Observed{Shared: true, ForeignClaims: map[resources.Key]bool{node.Key(): true}, Records: plan.Records{Nodes: []*resources.Node{node}}}}}
	waits := func() bool {
		why, err := Why("node/0000000001", in)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(why.Waits, func(w wire.Wait) bool {
			return w.Code == "move-waits" && strings.Contains(w.Text, "little in cloud/main")
		})
	}
	if !waits() {
		t.Error("a node in use of another process does not wait for its move")
	}
	in.Desired.Moves = nil
	if waits() {
		t.Error("a node waits for a move that the configuration does not have")
	}
}

// TestRequestThatWaitsForAnImageNamesIt: the image explains why no pool can serve the request.
func TestRequestThatWaitsForAnImageNamesIt(t *testing.T) {
	ref := resources.ImageRef{Kind: resources.DiskImage, Name: "broken"}
	in := WhyInput{Fleet: Fleet{Desired: resources.Desired{Images: []resources.Image{{Name: "broken", Kind: resources.DiskImage}},
		Providers: []resources.Provider{{Name: "cloud", Pools: []resources.Pool{{Name: "main", Offers: []resources.Offer{{Label: "small", Image: ref}}}}}}},
		Observed: plan.Observed{Records: plan.Records{Requests: []*resources.Request{{ID: "1", State: resources.StateRequested, Labels: []string{"small"}}}}}}}
	related := func() []string {
		t.Helper()
		why, err := Why("request/1", in)
		if err != nil {
			t.Fatal(err)
		}
		return why.Related
	}
	if got := related(); !slices.Contains(got, "image/broken") {
		t.Errorf("a request without an image has the related subjects %v", got)
	}
	in.Observed.Records.Uploads = []*resources.Upload{{ID: "1", Image: "broken", Provider: "cloud", State: resources.StateReady}}
	if got := related(); slices.Contains(got, "image/broken") {
		t.Errorf("a request with an image has the related subjects %v", got)
	}
}

func TestFailingBuildIsNotAsWanted(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	in := WhyInput{Now: now, Fleet: Fleet{Desired: resources.Desired{Images: []resources.Image{{Name: "broken"}}},
		Observed: plan.Observed{Records: plan.Records{Images: []*resources.ImageRecord{{Name: "broken", Failure: &resources.Failure{
			Count: 2, Time: now.Add(-time.Minute), Error: "sh ended with exit code 1; the last lines of its output:\n    E: Unable to locate package foo"}}}}}}}
	why, err := Why("image/broken", in)
	if err != nil {
		t.Fatal(err)
	}
	if why.State != "build failing" || !strings.Contains(why.Summary, "after 2026-11-22T12:01:00Z. Its log: npctl image log broken") {
		t.Errorf("the image is %q: %s", why.State, why.Summary)
	}
	if len(why.Waits) != 1 || !strings.HasSuffix(why.Waits[0].Text, "sh ended with exit code 1") {
		t.Errorf("it waits for %+v", why.Waits)
	}
}
