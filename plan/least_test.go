package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// overlapping is an execution of a plan whose steps overlap.
type overlapping struct {
	model    *model
	desired  resources.Desired
	steps    []Step
	starting map[string]bool // also those that have ended
	ended    map[string]bool
	busy     map[resources.Key]bool
	least    map[Supply]int
}

func newOverlapping(m *model, d resources.Desired, p Plan) *overlapping {
	m.uploaded, m.built, m.current = map[imageAt]string{}, map[string]string{}, p
	o := &overlapping{m, d, p.Steps, map[string]bool{}, map[string]bool{}, map[resources.Key]bool{}, map[Supply]int{}}
	for _, l := range d.Labels {
		o.least[Supply{Label: l.Name}] = o.ready(Supply{Label: l.Name})
	}
	for _, u := range m.Records.Uploads {
		of := Supply{Image: u.Image, Provider: u.Provider}
		o.least[of] = o.ready(of)
	}
	return o
}

func (o *overlapping) ready(of Supply) (count int) {
	for _, n := range o.model.Records.Nodes {
		if n.State == resources.StateReady && slices.Contains(n.Labels, of.Label) && !o.busy[n.Key()] {
			count++
		}
	}
	for _, u := range o.model.Records.Uploads {
		if u.State == resources.StateReady && of == (Supply{Image: u.Image, Provider: u.Provider}) && !o.busy[u.Key()] {
			count++
		}
	}
	return count
}

func (o *overlapping) runnable(s *Step) bool {
	waits := func(id string) bool {
		return !o.ended[id] && slices.ContainsFunc(o.steps, func(other Step) bool { return other.ID == id })
	}
	return !o.starting[s.ID] && !slices.ContainsFunc(slices.Concat(s.Needs, s.After), waits)
}

// start starts a step, and end ends it. A node is not ready while a step removes or checks it.
func (o *overlapping) start(s *Step) {
	o.starting[s.ID] = true
	if s.Thing != ThingBuild && (s.Removes() || s.Action == ActionForget || s.Kind == KindCheckSlot) {
		o.busy[s.Record] = true
	}
	o.note()
}

func (o *overlapping) end(t *rapid.T, s *Step) {
	o.model.step(t, o.desired, *s)
	o.ended[s.ID] = true
	delete(o.busy, s.Record)
	o.note()
}

func (o *overlapping) note() {
	for of, n := range o.least {
		o.least[of] = min(n, o.ready(of))
	}
}

// No execution has fewer ready nodes than the plan says, and one execution has as few.
func TestLeastReadyIsTheWorstOfAllOrders(t *testing.T) {
	falls := 0
	rapid.Check(t, func(t *rapid.T) {
		d, m := drawDesired(t), drawWorld(t)
		seen := m.observe()
		p := Compute(d, seen, Options{})
		worst := worstMoments(p, seen.Records)
		random := newOverlapping(m.copied(), d, p)
		for len(random.ended) < len(p.Steps) {
			i := rapid.IntRange(0, len(p.Steps)-1).Draw(t, "step")
			for range p.Steps { // the drawn step, or the next one that can start or end
				s := &p.Steps[i]
				if random.starting[s.ID] && !random.ended[s.ID] {
					random.end(t, s)
					break
				}
				if random.runnable(s) {
					random.start(s)
					break
				}
				i = (i + 1) % len(p.Steps)
			}
		}
		for _, l := range worst {
			if observed, known := random.least[l.Supply]; known && observed < l.Least {
				t.Fatalf("%+v had %d ready, the plan says %d at least:\n%s", l.Supply, observed, l.Least, lines(p))
			}
			if l.Least < l.Ready {
				falls++
			}
			order := newOverlapping(m.copied(), d, p)
			var running []*Step
			for i := range p.Steps {
				s := &p.Steps[i]
				if !l.started[i] {
					continue
				}
				for _, other := range running {
					if !order.ended[other.ID] && slices.Contains(slices.Concat(s.Needs, s.After), other.ID) {
						order.end(t, other)
					}
				}
				if !order.runnable(s) {
					t.Fatalf("%s cannot start before the worst moment of %+v:\n%s", s.ID, l.Supply, lines(p))
				}
				order.start(s)
				running = append(running, s)
			}
			if got := order.ready(l.Supply); got != l.Least {
				t.Fatalf("%+v has %d ready at its worst moment, the plan says %d:\n%s", l.Supply, got, l.Least, lines(p))
			}
		}
	})
	if falls < 20 {
		t.Errorf("only %d labels lose ready nodes", falls)
	}
}

func TestLeastReadyOfReplacements(t *testing.T) {
	nodes := func(n int) (all []*resources.Node) {
		for i := range n {
			all = append(all, readyNode(string(rune('a'+i))))
		}
		return all
	}
	launch := func(id string, needs ...string) Step {
		return Step{ID: id, Kind: KindLaunch, Label: "small", Needs: needs, Estimate: 90}
	}
	gone := func(node string, needs ...string) Step {
		return Step{ID: "-" + node, Kind: KindDeleteNode, Record: resources.Key{Kind: resources.KindNode, ID: node}, Needs: needs, Estimate: 10}
	}
	serve := Step{ID: "serve", Kind: KindServe, Nodes: []string{"a", ""}}
	other := launch("elsewhere")
	other.Request = "1"
	for _, c := range []struct {
		name  string
		ready int
		steps []Step
		want  LeastReady
	}{
		{"successors first", 2, []Step{launch("1"), gone("a", "1"), launch("2"), gone("b", "2")}, LeastReady{Least: 2}},
		{"deletions first", 2, []Step{gone("a"), gone("b"), launch("1", "-a"), launch("2", "-b")}, LeastReady{Least: 0, Empty: 100}},
		{"one after the other", 2, []Step{gone("a"), launch("1", "-a"), gone("b", "1"), launch("2", "-b")}, LeastReady{Least: 1}},
		{"a launch for two deletions", 3, []Step{launch("1"), gone("a", "1"), gone("b", "1")}, LeastReady{Least: 2}},
		{"a deletion that waits for two launches, and another one", 2, []Step{launch("1"), launch("2"), gone("a", "1", "2"), gone("b", "1")}, LeastReady{Least: 2}},
		{"no successor", 1, []Step{gone("a")}, LeastReady{Least: 0, Stays: true}},
		{"a request takes one", 2, []Step{serve}, LeastReady{Least: 1}},
		{"a launch for a request is no successor", 1, []Step{other, gone("a", "elsewhere")}, LeastReady{Least: 0, Stays: true}},
	} {
		c.want.Label, c.want.Ready = "small", c.ready
		got := LeastReadyOf(Plan{Steps: c.steps}, Records{Nodes: nodes(c.ready)})
		if len(got) != 1 {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		if got[0] != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got[0], c.want)
		}
	}
	if got := LeastReadyOf(Plan{Steps: []Step{launch("1")}}, Records{Nodes: nodes(1)}); len(got) > 0 {
		t.Errorf("a plan that takes no node has %+v", got)
	}
}

// drawGraph draws steps of one label with arbitrary dependencies, and its ready nodes.
func drawGraph(t *rapid.T) (p Plan, r Records) {
	for i := range rapid.IntRange(1, 11).Draw(t, "steps") {
		s := Step{ID: string(rune('a' + i)), Kind: rapid.SampledFrom([]Kind{KindLaunch, KindDeleteNode, KindDeleteNode, KindUpload}).Draw(t, "kind"), Label: "small"}
		if s.Kind == KindDeleteNode {
			n := readyNode(s.ID)
			s.Record, r.Nodes = n.Key(), append(r.Nodes, n)
		}
		for j := range i {
			switch rapid.IntRange(0, 5).Draw(t, "waits") {
			case 0:
				s.Needs = append(s.Needs, string(rune('a'+j)))
			case 1:
				s.After = append(s.After, string(rune('a'+j)))
			}
		}
		p.Steps = append(p.Steps, s)
	}
	return p, r
}

// The result is that of all sets of started steps.
func TestLeastReadyOfAnyGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, r := drawGraph(t)
		g := newStepGraph(p.Steps)
		readyAfter := func(started map[int]bool) (int, bool) {
			ready, ended := len(r.Nodes), map[int]bool{}
			for i := range started {
				for _, j := range g.before[i] {
					if !started[j] {
						return 0, false
					}
					ended[j] = true
				}
			}
			for i := range started {
				switch {
				case p.Steps[i].Kind == KindDeleteNode:
					ready--
				case p.Steps[i].Kind == KindLaunch && ended[i]:
					ready++
				}
			}
			return ready, true
		}
		least := len(r.Nodes)
		for set := range 1 << len(p.Steps) {
			started := map[int]bool{}
			for i := range p.Steps {
				if set>>i&1 == 1 {
					started[i] = true
				}
			}
			if n, valid := readyAfter(started); valid {
				least = min(least, n)
			}
		}
		for _, m := range worstMoments(p, r) {
			if at, valid := readyAfter(m.started); m.Least != least || !valid || at != least {
				t.Fatalf("%d ready nodes at least, want %d; its moment has %d (%v):\n%s", m.Least, least, at, valid, lines(p))
			}
		}
	})
}
