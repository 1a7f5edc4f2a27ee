package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/npctl/npctl/resources"
)

// budgetOf returns a budget without window.
func budgetOf(max string, reasons ...string) resources.Disruption {
	return resources.Disruption{Max: max, Reasons: reasons}
}

// outdatedFleet has ready nodes of the label small in one pool, all of which have an earlier flavor. The pool has capacity for
// spare more.
func outdatedFleet(ready, spare int, budgets ...resources.Disruption) (resources.Desired, Observed) {
	d, o := fleetOf(poolSpec{provider: "cloud", pool: "main", providers: 100, max: int64(ready + spare), flavor: "large"})
	d.Labels[0].MinReady, d.Labels[0].Disruptions = int64(ready), budgets
	for i := range ready {
		o.addNode(fmt.Sprintf("%010d", i+1), "cloud", "main", "small")
	}
	return d, o
}

// replacedIn returns the IDs of the ready nodes that a plan deletes.
func replacedIn(p Plan, o Observed) (ids []string) {
	for i := range p.Steps {
		for _, n := range o.Records.Nodes {
			if p.Steps[i].Record == n.Key() && p.Steps[i].Removes() && n.State == resources.StateReady {
				ids = append(ids, n.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// disruptionNotes returns the texts of the notes about budgets.
func disruptionNotes(p Plan) string {
	var all []string
	for _, n := range p.Notes {
		if n.Code == "disruption" {
			all = append(all, n.Text)
		}
	}
	return strings.Join(all, "\n")
}

func TestBudgetLimitsReplacements(t *testing.T) {
	for _, test := range []struct {
		max         string
		ready, want int
		note        string
	}{
		{"10%", 1, 1, ""},
		{"10%", 3, 1, "2 nodes of label small (configuration) wait, and the plan replaces 1: label.small allows 1 at a time, 10% of 3; npctl watch or a later apply continues"},
		{"10%", 10, 1, "9 nodes"},
		{"10%", 19, 2, "17 nodes of label small (configuration) wait, and the plan replaces 2: label.small allows 2 at a time, 10% of 19"},
		{"0%", 10, 0, `10 nodes of label small (configuration) are never replaced: label.small has max = "0%"`},
		{"0", 10, 0, `are never replaced: label.small has max = "0"`},
		{"100%", 10, 10, ""},
		{"3", 10, 3, "7 nodes of label small (configuration) wait, and the plan replaces 3: label.small allows 3 at a time"},
		{"99", 10, 10, ""},
	} {
		t.Run(fmt.Sprintf("%s of %d", test.max, test.ready), func(t *testing.T) {
			d, o := outdatedFleet(test.ready, 1, budgetOf(test.max))
			p := Compute(d, o, Options{})
			got := replacedIn(p, o)
			if len(got) != test.want || len(launches(p)) != test.want {
				t.Errorf("replaces %v, want %d:\n%s", got, test.want, lines(p))
			}
			for i, id := range got {
				if id != fmt.Sprintf("%010d", i+1) {
					t.Errorf("node %s is not the oldest", id)
				}
			}
			if note := disruptionNotes(p); !strings.Contains(note, test.note) || test.note == "" && note != "" {
				t.Errorf("the note is %q, want %q", note, test.note)
			}
		})
	}
}

func TestOnlyNodeIsReplacedAfterItsSuccessorIsReady(t *testing.T) {
	d, o := outdatedFleet(1, 1, budgetOf("100%"))
	p := Compute(d, o, Options{})
	made := launches(p)
	gone := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Kind == KindDeleteNode })
	if len(made) != 1 || gone < 0 || !slices.Equal(p.Steps[gone].Needs, []string{made[0].ID}) || made[0].ReplacesNode != "0000000001" {
		t.Errorf("the node goes before its successor is ready:\n%s", lines(p))
	}
}

func TestSickNodesAreReplacedAndUseTheBudget(t *testing.T) {
	fail := func(o *Observed, ids ...string) {
		view := o.Providers["cloud"]
		for i := range view.Instances {
			if slices.Contains(ids, view.Instances[i].Marks.ID) {
				view.Instances[i].Status = resources.StatusFailed
			}
		}
		o.Providers["cloud"] = view
	}
	d, o := outdatedFleet(10, 5, budgetOf("1"))
	fail(&o, "0000000004", "0000000007")
	p := Compute(d, o, Options{})
	if got := replacedIn(p, o); !slices.Equal(got, []string{"0000000004", "0000000007"}) {
		t.Errorf("replaces %v:\n%s", got, lines(p))
	}
	if note := disruptionNotes(p); !strings.Contains(note, "8 nodes of label small (configuration) wait") || !strings.Contains(note, "being replaced already: node.0000000004 and node.0000000007") {
		t.Errorf("the note does not name them: %s", note)
	}
	d, o = outdatedFleet(3, 5, budgetOf("20%"))
	fail(&o, "0000000001", "0000000002")
	if got := replacedIn(Compute(d, o, Options{}), o); !slices.Equal(got, []string{"0000000001", "0000000002"}) {
		t.Errorf("a small fleet is not repaired: %v", got)
	}
}

// TestNestedBudgets: label 2, pool 20 % of 20 nodes, provider 3.
func TestNestedBudgets(t *testing.T) {
	build := func() (resources.Desired, Observed) {
		d, o := fleetOf(poolSpec{provider: "cloud", pool: "main", providers: 100, max: 40, flavor: "large"}, poolSpec{provider: "cloud", pool: "other", providers: 100, max: 40, flavor: "large"})
		d.Labels = []resources.Label{{Name: "big", MinReady: 12}, {Name: "small", MinReady: 12, Disruptions: []resources.Disruption{budgetOf("2")}}}
		cloud := &d.Providers[0]
		for i := range cloud.Pools {
			big := cloud.Pools[i].Offers[0]
			big.Label = "big"
			cloud.Pools[i].Offers = append(cloud.Pools[i].Offers, big)
		}
		cloud.Disruptions = []resources.Disruption{budgetOf("3")}
		cloud.Pools[0].Disruptions = []resources.Disruption{budgetOf("20%")}
		for i := range 24 {
			pool, label := "main", "small"
			if i >= 20 {
				pool = "other"
			}
			if i%2 == 1 {
				label = "big"
			}
			o.addNode(fmt.Sprintf("%010d", i+1), "cloud", pool, "small").Labels = []string{label}
		}
		return d, o
	}
	d, o := build()
	p := Compute(d, o, Options{})
	if got := replacedIn(p, o); !slices.Equal(got, []string{"0000000001", "0000000002", "0000000003"}) {
		t.Errorf("label 2, pool 4, provider 3: replaces %v:\n%s", got, lines(p))
	}
	note := disruptionNotes(p)
	if !strings.Contains(note, "of label big (configuration) wait, and the plan replaces 1: provider.cloud allows 3 at a time") ||
		!strings.Contains(note, "of label small (configuration) wait, and the plan replaces 2: label.small allows 2 at a time") {
		t.Errorf("the notes do not name the budgets: %s", note)
	}
	d, o = build()
	d.Providers[0].Disruptions = nil
	if got := replacedIn(Compute(d, o, Options{}), o); !slices.Equal(got, []string{"0000000001", "0000000002", "0000000003", "0000000004", "0000000022", "0000000024"}) {
		t.Errorf("label 2, pool 4: replaces %v", got)
	}
}

// TestOtherProcessesReplacementsCount: the nodes that one process deletes count in the plans of the other one, also after it was killed.
func TestOtherProcessesReplacementsCount(t *testing.T) {
	d, o := outdatedFleet(10, 2, budgetOf("2"))
	o.Records.Nodes[4].State, o.Records.Nodes[4].DeletedFor = resources.StateDeleting, string(ReasonConfigChanged)
	p := Compute(d, o, Options{})
	if got := replacedIn(p, o); !slices.Equal(got, []string{"0000000001"}) {
		t.Errorf("one node is being deleted, so one more may go: %v", got)
	}
	o.Records.Nodes[7].State, o.Records.Nodes[7].DeletedFor = resources.StateDeleting, string(ReasonMaxReadyAge)
	if got := replacedIn(Compute(d, o, Options{}), o); len(got) != 0 {
		t.Errorf("two nodes are being deleted, so no more may go: %v", got)
	}
	o.Records.Nodes[4].DeletedFor, o.Records.Nodes[7].DeletedFor = "", "" // used nodes
	d.Labels[0].MinReady = 8
	if got := replacedIn(Compute(d, o, Options{}), o); !slices.Equal(got, []string{"0000000001", "0000000002"}) {
		t.Errorf("used nodes are no disruption: %v", got)
	}
}

func TestRunningReplacementKeepsItsNode(t *testing.T) {
	d, o := outdatedFleet(10, 2, budgetOf("1"))
	successor := o.addNode("0000000011", "cloud", "main", "large")
	successor.State, successor.Replaces = resources.StateBuilding, "0000000005" // planned when it was the oldest
	p := Compute(d, o, Options{})
	if got := replacedIn(p, o); !slices.Equal(got, []string{"0000000005"}) {
		t.Errorf("replaces %v:\n%s", got, lines(p))
	}
	d.Labels[0].Disruptions = []resources.Disruption{{Max: "1", Schedule: "0 1 * * mon", Duration: time.Hour, TimeZone: "UTC"}}
	o.Now = time.Date(2027, 3, 2, 12, 0, 0, 0, time.UTC)
	if got := replacedIn(Compute(d, o, Options{}), o); !slices.Equal(got, []string{"0000000005"}) {
		t.Errorf("a replacement does not end after its window: %v", got)
	}
}

// TestSuccessorsDoNotRaiseShare: 10 % of 10 nodes are 1, and of 11 they are 2.
func TestSuccessorsDoNotRaiseShare(t *testing.T) {
	d, o := outdatedFleet(10, 2, budgetOf("10%"))
	o.addNode("0000000011", "cloud", "main", "large").Replaces = "0000000001"
	if got := replacedIn(Compute(d, o, Options{}), o); !slices.Equal(got, []string{"0000000001"}) {
		t.Errorf("replaces %v", got)
	}
	o.Records.Nodes[0].State, o.Records.Nodes[0].DeletedFor = resources.StateDeleting, string(ReasonConfigChanged)
	if got := replacedIn(Compute(d, o, Options{}), o); len(got) != 0 {
		t.Errorf("replaces %v while a node is being deleted", got)
	}
}

// TestWindowOfBudget has the seams of a window on Monday from 01:00 for four hours.
func TestWindowOfBudget(t *testing.T) {
	for _, test := range []struct {
		now  string
		want int
		note string
	}{
		{"2027-03-01T00:59:59Z", 0, "10 nodes of label small (configuration) wait: no window of label.small is open; the next window opens at Mon 2027-03-01 01:00 UTC"},
		{"2027-03-01T01:00:00Z", 3, "the window closes at Mon 2027-03-01 05:00 UTC; the next window opens at Mon 2027-03-08 01:00 UTC"},
		{"2027-03-01T04:59:59Z", 3, "7 nodes"},
		{"2027-03-01T05:00:00Z", 0, "the next window opens at Mon 2027-03-08 01:00 UTC"},
	} {
		d, o := outdatedFleet(10, 3, resources.Disruption{Max: "3", Schedule: "0 1 * * mon", Duration: 4 * time.Hour, TimeZone: "UTC"})
		o.Now, _ = time.Parse(time.RFC3339, test.now)
		p := Compute(d, o, Options{})
		if got := replacedIn(p, o); len(got) != test.want {
			t.Errorf("%s: replaces %v, want %d", test.now, got, test.want)
		}
		if note := disruptionNotes(p); !strings.Contains(note, test.note) {
			t.Errorf("%s: the note is %q, want %q", test.now, note, test.note)
		}
	}
}

func TestBlocksOfOneBudget(t *testing.T) {
	monday := resources.Disruption{Max: "100%", Schedule: "0 1 * * mon", Duration: 4 * time.Hour, TimeZone: "Europe/Berlin"}
	age := monday
	age.Reasons = []string{"age"}
	for name, test := range map[string]struct {
		blocks []resources.Disruption
		now    string
		want   int
	}{
		"the smallest wins":                            {[]resources.Disruption{budgetOf("5"), budgetOf("2"), budgetOf("30%")}, "2027-03-02T12:00:00Z", 2},
		"the smallest wins in a window too":            {[]resources.Disruption{budgetOf("2"), monday}, "2027-03-01T01:00:00Z", 2},
		"without a window the other block applies":     {[]resources.Disruption{budgetOf("2"), monday}, "2027-03-02T12:00:00Z", 2},
		"the zone decides: open":                       {[]resources.Disruption{monday}, "2027-03-01T00:00:00Z", 10},
		"the zone decides: closed":                     {[]resources.Disruption{monday}, "2027-03-01T04:00:00Z", 0},
		"a reason that no block names has no limit":    {[]resources.Disruption{budgetOf("0", "age"), budgetOf("0", "surplus")}, "2027-03-02T12:00:00Z", 10},
		"the window of another reason limits nothing":  {[]resources.Disruption{age}, "2027-03-02T12:00:00Z", 10},
		"a limit of one reason, a window of the other": {[]resources.Disruption{age, budgetOf("3", "configuration")}, "2027-03-02T12:00:00Z", 3},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := outdatedFleet(10, 10, test.blocks...)
			o.Now, _ = time.Parse(time.RFC3339, test.now)
			if got := replacedIn(Compute(d, o, Options{}), o); len(got) != test.want {
				t.Errorf("replaces %v, want %d", got, test.want)
			}
		})
	}
}

func TestExplicitOrdersAreOutsideBudgets(t *testing.T) {
	d, o := outdatedFleet(10, 3, budgetOf("0"))
	if got := replacedIn(Compute(d, o, Options{Replace: []Address{"node.0000000003"}}), o); !slices.Equal(got, []string{"0000000003"}) {
		t.Errorf("-replace: %v", got)
	}
	if got := replacedIn(Compute(d, o, Options{Destroy: true}), o); len(got) != 10 {
		t.Errorf("destroy: %v", got)
	}
	gone := d
	gone.Providers = slices.Clone(d.Providers)
	gone.Providers[0].Disruptions = []resources.Disruption{budgetOf("0")}
	gone.Providers[0].Pools = nil
	if got := replacedIn(Compute(gone, o, Options{}), o); len(got) != 10 {
		t.Errorf("a removed pool: %v", got)
	}
}

func TestSurplusIsDeletedWithinBudget(t *testing.T) {
	d, o := outdatedFleet(10, 0, budgetOf("2", "surplus"))
	for _, n := range o.Records.Nodes {
		n.Hash = "v1:large"
	}
	d.Providers[0].Pools[0].MaxServers, d.Labels[0].MinReady = ptr(5), 5
	p := Compute(d, o, Options{})
	if got := replacedIn(p, o); !slices.Equal(got, []string{"0000000001", "0000000002"}) {
		t.Errorf("deletes %v", got)
	}
	if note := disruptionNotes(p); !strings.Contains(note, "3 nodes of label small (surplus) wait, and the plan replaces 2: label.small allows 2 at a time") {
		t.Errorf("the note is %q", note)
	}
}

// TestRunningDeletionsAreNoFurtherSurplus: nodes that are being deleted now leave the pool.
func TestRunningDeletionsAreNoFurtherSurplus(t *testing.T) {
	d, o := outdatedFleet(10, 0)
	o.Busy = map[resources.Key]bool{}
	for i, n := range o.Records.Nodes {
		n.Hash = "v1:large"
		if i < 5 {
			n.State, o.Busy[n.Key()] = resources.StateDeleting, true
		}
	}
	d.Providers[0].Pools[0].MaxServers, d.Labels[0].MinReady = ptr(5), 5
	if got := replacedIn(Compute(d, o, Options{}), o); len(got) != 0 {
		t.Errorf("deletes %v too", got)
	}
}

func TestNodesStayWhenNoSuccessorCanBeLaunched(t *testing.T) {
	d, o := outdatedFleet(3, 1, budgetOf("1"))
	o.LaunchFailures = map[Address]*resources.Failure{"provider.cloud.pool.main.label.small": {Count: 1, Time: now, Error: "No valid host"}}
	p := Compute(d, o, Options{HonorBackoff: true})
	if got := replacedIn(p, o); len(got) != 0 {
		t.Errorf("deletes %v without a successor", got)
	}
	if note := disruptionNotes(p); !strings.Contains(note, "1 node of label small (configuration) will be replaced when a successor can be launched; 2 nodes") {
		t.Errorf("the note is %q", note)
	}
}

func TestNoteHasExpectedEnd(t *testing.T) {
	d, o := outdatedFleet(10, 2, budgetOf("2"))
	o.Records.Histories = []*resources.History{{Subject: "launch/cloud/small", Seconds: []float64{60}}}
	end := o.Now.Add(5 * time.Minute)
	if note := disruptionNotes(Compute(d, o, Options{})); !strings.Contains(note, "the last one is expected to be replaced at "+clock(end)) {
		t.Errorf("the note has no end %s: %s", clock(end), note)
	}
}

func TestNodesOutsideTargetsUseNoBudget(t *testing.T) {
	d, o := twoClouds()
	d.Labels[0].Disruptions = []resources.Disruption{budgetOf("1")}
	o.addNode("0000000000", "east", "main", "outdated")
	if got := replacedIn(Compute(d, o, Options{Targets: []Address{"provider.west"}}), o); !slices.Equal(got, []string{"0000000001"}) {
		t.Errorf("the node of the target is not replaced: %v", got)
	}
}
