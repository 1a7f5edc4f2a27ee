package plan

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// twoClouds has one ready node in each of two providers; west's offer has changed since.
func twoClouds() (resources.Desired, Observed) {
	d, o := fleetOf(poolSpec{provider: "east", pool: "main", providers: 100, max: 4},
		poolSpec{provider: "west", pool: "main", providers: 100, max: 4, flavor: "large"})
	o.addNode("0000000001", "west", "main", "medium")
	o.addNode("0000000002", "east", "main", "small")
	return d, o
}

func launches(p Plan) (all []*Step) {
	for i := range p.Steps {
		if p.Steps[i].Kind == KindLaunch {
			all = append(all, &p.Steps[i])
		}
	}
	return all
}

func TestSuccessorStaysInPoolWithCapacity(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*resources.Desired, *Observed)
		want   string // where the successor is launched
		why    string // why not in the same pool
	}{
		"another pool has the better priority": {
			change: func(d *resources.Desired, _ *Observed) { d.Providers[0].Pools[0].Priority = 1 }, want: "west"},
		"the pool is full and the old node makes room": {
			change: func(d *resources.Desired, _ *Observed) { d.Providers[1].Pools[0].MaxServers = ptr(1) }, want: "west"},
		"the quota is used up and the old node makes room": {
			change: func(_ *resources.Desired, o *Observed) {
				v := o.Providers["west"]
				v.Quota.Limit.Instances, v.Quota.Used.Instances = 1, 1
				o.Providers["west"] = v
			}, want: "west"},
		"others use more than the limit": {
			change: func(d *resources.Desired, o *Observed) {
				o.addNode("0000000003", "west", "main", "medium").State = resources.StateInUse
				d.Providers[1].Pools[0].MaxServers = ptr(1)
			}, want: "east", why: "max_servers is 1 and 2 are taken"},
		"the flavor does not fit any more": {
			change: func(d *resources.Desired, o *Observed) {
				d.Providers[1].Pools[0].MaxCores = ptr(8)
				v := o.Providers["west"]
				v.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{Resources: resources.ResourceAmounts{Cores: 16}}}}
				o.Providers["west"] = v
			}, want: "east", why: "max_cores is 8 and 0 are taken"},
		"launches have failed there": {
			change: func(_ *resources.Desired, o *Observed) {
				o.LaunchFailures = map[Address]*resources.Failure{"provider.west.pool.main.label.small": {Count: 1, Time: now, Error: "No valid host"}}
			}, want: "east", why: "launches have failed once"},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := twoClouds()
			test.change(&d, &o)
			p := Compute(d, o, Options{HonorBackoff: true})
			made := launches(p)
			if len(made) != 1 || made[0].Provider != test.want {
				t.Fatalf("want one launch in %s:\n%s", test.want, lines(p))
			}
			if moved := made[0].Move != nil; moved != (test.want == "east") {
				t.Errorf("move is %v", made[0].Move)
			}
			if test.why != "" && !strings.Contains(fmt.Sprint(made[0].Evidence), "{west/main "+test.why) {
				t.Errorf("the evidence %v does not say %q", made[0].Evidence, test.why)
			}
		})
	}
}

var update = flag.Bool("update", false, "rewrite the expected plan")

// movePlan is the plan of npctl when west has no capacity for the successor of its node.
func movePlan() Plan {
	d, o := twoClouds()
	o.addNode("0000000003", "west", "main", "medium").State = resources.StateInUse
	d.Providers[1].Pools[0].MaxServers = ptr(1)
	d.Providers[0].Source, d.Providers[0].Pools[0].Offers[0].Source = resources.Source{File: "main.hcl", Line: 20}, resources.Source{File: "main.hcl", Line: 24}
	return Compute(d, o, Options{})
}

func TestMoveNamesPoolOfSuccessor(t *testing.T) {
	p := movePlan()
	move := &Move{Node: "0000000001", From: NodePlacement{"west", "main", "medium"}, To: NodePlacement{"east", "main", "small"}}
	for _, s := range p.Steps {
		if diff := cmp.Diff(move, s.Move); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.ID, diff)
		}
		for _, c := range s.Changes {
			if c.Attribute != "flavor" || c.Before != `"medium"` || c.After != `"small"` || c.Forces || s.Kind != KindLaunch {
				t.Errorf("%s: change %+v", s.ID, c)
			}
		}
	}
	got, err := json.MarshalIndent(p, "", "  ")
	testutil.Must(t, err)
	got = append(got, '\n')
	if *update {
		testutil.Must(t, os.WriteFile("testdata/move.json", got, 0o644))
	}
	want, err := os.ReadFile("testdata/move.json")
	if err != nil {
		t.Fatalf("%v; write it with go test ./plan -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("testdata/move.json (-want +got):\n%s\nif this is intended: go test ./plan -update, and then go test ./plan/render -update", diff)
	}
}

func TestHalfOfAMoveIsASingleStep(t *testing.T) {
	d, o := twoClouds()
	o.addNode("0000000003", "west", "main", "medium").State = resources.StateInUse
	d.Providers[1].Pools[0].MaxServers = ptr(1)
	p := Compute(d, o, Options{Targets: []Address{"provider.east"}})
	if made := launches(p); len(p.Steps) != 1 || len(made) != 1 || made[0].Move != nil || made[0].Replaces {
		t.Errorf("the node in west stays, so nothing moves:\n%s%+v", lines(p), p.Steps)
	}
}

func TestNodeWithoutSuccessorIsNotReplaced(t *testing.T) {
	d, o := twoClouds()
	d.Labels[0].MinReady = 1
	p := Compute(d, o, Options{})
	want := []Change{{Attribute: "flavor", Before: `"medium"`, After: `"large"`}}
	if len(p.Steps) != 1 || p.Steps[0].Replaces || !slices.Equal(p.Steps[0].Changes, want) {
		t.Errorf("one ready node is enough, so west's goes without a successor:\n%s%+v", lines(p), p.Steps)
	}
}
