package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// daemons is one daemon, or one for each provider, that replaces the nodes of a fleet: it starts the steps of each plan that need no
// other step, and a step ends at some later time.
type daemons struct {
	frozen  []map[string]bool // by process: the providers of the others
	desired resources.Desired
	seen    Observed
	running map[string]Step // by step ID
	next    int
}

// drawDaemons draws a fleet with outdated nodes and budgets without shares.
func drawDaemons(t *rapid.T) *daemons {
	var pools []poolSpec
	for i := range rapid.IntRange(1, 2).Draw(t, "providers") {
		for j := range rapid.IntRange(1, 2).Draw(t, "pools") {
			pools = append(pools, poolSpec{provider: fmt.Sprintf("cloud%d", i), pool: fmt.Sprintf("pool%d", j), providers: 100, flavor: "large"})
		}
	}
	d, o := fleetOf(pools...)
	r := &daemons{desired: d, seen: o, running: map[string]Step{}, next: 100}
	budgets := func() (all []resources.Disruption) {
		if rapid.Bool().Draw(t, "budget") {
			all = append(all, budgetOf(rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "max")))
		}
		return all
	}
	r.frozen = []map[string]bool{{}}
	if len(d.Providers) == 2 && rapid.Bool().Draw(t, "two processes") {
		r.frozen, r.seen.Shared = []map[string]bool{{"cloud0": true}, {"cloud1": true}}, true
	}
	r.desired.Labels = nil
	labels := []string{"big", "small"}[rapid.IntRange(0, 1).Draw(t, "labels"):]
	for _, name := range labels {
		r.desired.Labels = append(r.desired.Labels, resources.Label{Name: name, Disruptions: budgets()})
	}
	for i := range r.desired.Providers {
		p := &r.desired.Providers[i]
		p.Disruptions = budgets()
		for j := range p.Pools {
			pool, count := &p.Pools[j], int64(0)
			pool.Disruptions = budgets()
			for k := range r.desired.Labels {
				label := &r.desired.Labels[k]
				if k > 0 {
					pool.Offers = append(pool.Offers, pool.Offers[0])
				}
				pool.Offers[k].Label = label.Name
				for range rapid.IntRange(0, 5).Draw(t, "nodes") {
					n := r.seen.addNode(r.id(), p.Name, pool.Name, rapid.SampledFrom([]string{"small", "small", "large"}).Draw(t, "flavor"))
					n.Labels = []string{label.Name}
					label.MinReady++
					count++
				}
			}
			pool.MaxServers = ptr(count + rapid.Int64Range(0, 2).Draw(t, "spare"))
		}
	}
	return r
}

func (r *daemons) id() string {
	r.next++
	return fmt.Sprintf("%010d", r.next)
}

// plan plans, and starts what can start.
func (r *daemons) plan(t *rapid.T) {
	r.seen.Now = r.seen.Now.Add(time.Second)
	r.seen.Busy = map[resources.Key]bool{}
	for _, s := range r.running {
		r.seen.Busy[s.Record] = true
	}
	for name, view := range r.seen.Providers {
		view.ListedAt = r.seen.Now
		r.seen.Providers[name] = view
	}
	var steps []Step // all processes plan before one of them starts a step
	for _, others := range r.frozen {
		r.seen.Frozen = others
		steps = append(steps, Compute(r.desired, r.seen, Options{HonorBackoff: true}).Steps...)
	}
	for _, s := range steps {
		if len(s.Needs)+len(s.After) > 0 {
			continue
		}
		switch {
		case s.Kind == KindDeleteNode:
			n := r.node(s.Record)
			if n.State == resources.StateReady && s.Reason.IsDisruption() {
				n.DeletedFor = string(s.Reason)
			}
			n.State = resources.StateDeleting
		case s.Kind == KindLaunch && s.Record.Kind == "":
			n := &resources.Node{ID: r.id(), State: resources.StateBuilding, StateTime: r.seen.Now, Provider: s.Provider, Pool: s.Pool, Labels: []string{s.Label},
				Hash: "v1:large", Replaces: s.ReplacesNode}
			r.seen.Records.Nodes = append(r.seen.Records.Nodes, n)
			s.Record = n.Key()
			s.ID += " " + n.ID
		case s.Kind != KindLaunch:
			continue
		}
		r.running[s.ID] = s
		t.Logf("start %s, replaces %s", s.ID, s.ReplacesNode)
	}
}

func (r *daemons) node(key resources.Key) *resources.Node {
	i := slices.IndexFunc(r.seen.Records.Nodes, func(n *resources.Node) bool { return n.Key() == key })
	return r.seen.Records.Nodes[i]
}

// end ends a running step. Only a launch may fail.
func (r *daemons) end(s Step, fails bool) {
	delete(r.running, s.ID)
	view, n := r.seen.Providers[s.Provider], r.node(s.Record)
	switch {
	case s.Kind == KindLaunch && fails:
		n.State = resources.StateFailed
	case s.Kind == KindLaunch:
		n.State, n.StateTime, n.ExternalID = resources.StateReady, r.seen.Now, "server-"+n.ID
		view.Instances = append(view.Instances, instance(n.ID))
	default:
		r.seen.Records.Nodes = slices.DeleteFunc(r.seen.Records.Nodes, func(other *resources.Node) bool { return other == n })
		view.Instances = slices.DeleteFunc(slices.Clone(view.Instances), func(i resources.Instance) bool { return i.Marks.ID == n.ID })
	}
	r.seen.Providers[s.Provider] = view
}

// check verifies the budgets of the records, and that no label has fewer ready nodes than min_ready and its budgets allow.
func (r *daemons) check(t *rapid.T) {
	replaced, ready := map[Address]int64{}, map[string]int64{}
	for _, n := range r.seen.Records.Nodes {
		switch {
		case n.State == resources.StateReady:
			ready[n.Labels[0]]++
		case n.DeletedFor != "":
			replaced[Address("label."+n.Labels[0])]++
			replaced[poolAddress(n.Provider, n.Pool)]++
			replaced[ProviderAddress(n.Provider)]++
		}
	}
	limited := func(at Address, blocks []resources.Disruption) {
		for _, b := range blocks {
			if most, _ := resources.ParseMaxNodes(b.Max); replaced[at] > most.Number {
				t.Fatalf("%s: %d nodes are replaced, %s are allowed", at, replaced[at], b.Max)
			}
		}
	}
	for _, l := range r.desired.Labels {
		limited(Address("label."+l.Name), l.Disruptions)
		for _, b := range l.Disruptions {
			if most, _ := resources.ParseMaxNodes(b.Max); ready[l.Name] < l.MinReady-most.Number {
				t.Fatalf("label %s: %d of %d nodes are ready, and the budget is %s", l.Name, ready[l.Name], l.MinReady, b.Max)
			}
		}
	}
	for _, p := range r.desired.Providers {
		limited(ProviderAddress(p.Name), p.Disruptions)
		for _, pool := range p.Pools {
			limited(poolAddress(p.Name, pool.Name), pool.Disruptions)
		}
	}
}

// TestBudgetsHoldAtEachCommit: whatever the order in which steps end, and after kills, the records never show more replaced nodes than
// the budgets allow, and all nodes are replaced in the end, unless their label lacks nodes.
func TestBudgetsHoldAtEachCommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawDaemons(t)
		for range 400 {
			r.plan(t)
			r.check(t)
			if len(r.running) == 0 {
				break
			}
			for _, id := range slices.Sorted(maps.Keys(r.running)) {
				if rapid.Bool().Draw(t, "ends "+id) {
					fails := rapid.IntRange(0, 8).Draw(t, "fails") == 8
					t.Logf("end %s, fails: %t", id, fails)
					r.end(r.running[id], fails)
					r.check(t)
				}
			}
			if rapid.IntRange(0, 20).Draw(t, "killed") == 20 {
				t.Log("killed")
				clear(r.running)
			}
		}
		r.seen.Frozen = nil
		p := Compute(r.desired, r.seen, Options{})
		for _, n := range r.seen.Records.Nodes {
			lacks := slices.ContainsFunc(p.Notes, func(note Note) bool {
				return note.Code == "below-min-ready" && note.Address == Address("label."+n.Labels[0])
			})
			if (n.Hash != "v1:large" || n.State != resources.StateReady) && !lacks { // other labels may have filled the pools
				t.Fatalf("node %s is %s with %s at the end:\n%s%+v", n.ID, n.State, n.Hash, lines(p), p.Notes)
			}
		}
	})
}
