package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// LeastReady is the least number of ready nodes of a label, or of ready uploads of an image in a provider, at any moment while a plan
// is executed, in the worst order that the dependencies of the steps allow. It supposes that no new request arrives and that each step
// succeeds.
type LeastReady struct {
	Supply
	Ready int `json:"ready"` // before the first step
	Least int `json:"least"`
	// Empty is the time without a ready node or upload, in seconds, by the estimates: at least this long in the worst order. 0 if one is
	// always ready, or if an estimate is missing.
	Empty float64 `json:"empty_seconds,omitempty"`
	// Stays reports whether no later step of the plan makes a node or upload ready.
	Stays bool `json:"stays_empty,omitempty"`
}

// Supply is that of a label with nodes, or of a provider with uploads of an image.
type Supply struct {
	Label    string `json:"label,omitempty"` // otherwise Image and Provider are set
	Image    string `json:"image,omitempty"`
	Provider string `json:"provider,omitempty"`
}

// worstMoment is a moment with the least number of a supply.
type worstMoment struct {
	LeastReady
	started map[int]bool // positions of the steps that have started; of these, the steps that others wait for have ended
}

// LeastReadyOf returns the result for each label of which the plan takes ready nodes, by label, and then for each image of which it
// takes ready uploads, by image and provider. A node that is assigned to a request does not count as ready.
func LeastReadyOf(p Plan, r Records) (all []LeastReady) {
	for _, m := range worstMoments(p, r) {
		all = append(all, m.LeastReady)
	}
	return all
}

func worstMoments(p Plan, r Records) (all []worstMoment) {
	ready, free := map[Supply]int{}, map[resources.Key][]Supply{} // free has the supplies to which a ready node or upload belongs
	nodes := map[resources.Key]*resources.Node{}
	for _, n := range r.Nodes {
		nodes[n.Key()] = n
		if n.State == resources.StateReady && n.Request == "" {
			free[n.Key()] = ofLabels(n.Labels)
		}
	}
	for _, u := range r.Uploads {
		if u.State == resources.StateReady {
			free[u.Key()] = []Supply{{Image: u.Image, Provider: u.Provider}}
		}
	}
	for _, supplies := range free {
		for _, of := range supplies {
			ready[of]++
		}
	}
	g := newStepGraph(p.Steps)
	takes, adds := map[Supply][]int{}, map[Supply][]int{} // positions of steps, once for each node or upload
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, key := range s.takes() {
			for _, of := range free[key] {
				takes[of] = append(takes[of], i)
			}
		}
		for _, of := range s.addsTo(nodes) {
			adds[of] = append(adds[of], i)
		}
	}
	for of, steps := range takes {
		all = append(all, g.least(of, ready[of], steps, adds[of]))
	}
	slices.SortFunc(all, func(a, b worstMoment) int {
		return cmp.Or(strings.Compare(a.Image, b.Image), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Label, b.Label))
	})
	return all
}

func ofLabels(labels []string) []Supply {
	supplies := make([]Supply, len(labels))
	for i, label := range labels {
		supplies[i] = Supply{Label: label}
	}
	return supplies
}

// takes returns the nodes and uploads that are not available after the start of the step.
func (s *Step) takes() (keys []resources.Key) {
	switch {
	case s.Kind == KindServe:
		for _, id := range s.Nodes {
			keys = append(keys, resources.Key{Kind: resources.KindNode, ID: id})
		}
	case s.Thing != ThingNode && s.Thing != ThingUpload: // leaks have no record
	case s.Removes(), s.Action == ActionForget, s.Kind == KindCheckSlot:
		keys = append(keys, s.Record)
	}
	return keys
}

// addsTo returns the supplies that have one more ready node or upload after the end of the step.
func (s *Step) addsTo(nodes map[resources.Key]*resources.Node) []Supply {
	n := nodes[s.Record]
	switch {
	case s.Kind == KindLaunch && s.Request == "", s.Kind == KindRegisterSlot, s.Kind == KindImportNode && s.Becomes == resources.StateReady:
		return ofLabels(strings.Split(s.Label, ","))
	case s.Kind == KindUpload, s.Kind == KindImportImage:
		return []Supply{{Image: s.Image, Provider: s.Provider}}
	case s.Kind == KindCheckSlot && n != nil,
		s.Kind == KindUpdateNode && s.Reason == ReasonRequestGone && n != nil && n.State == resources.StateReady:
		return ofLabels(n.Labels)
	default:
		return nil
	}
}

// stepGraph is the dependencies of the steps of a plan.
type stepGraph struct {
	steps  []Step
	before [][]int // positions of the steps that a step waits for
}

func newStepGraph(steps []Step) *stepGraph {
	at := make(map[string]int, len(steps))
	for i := range steps {
		at[steps[i].ID] = i
	}
	g := &stepGraph{steps, make([][]int, len(steps))}
	for i := range steps {
		for _, id := range slices.Concat(steps[i].Needs, steps[i].After) {
			if j, planned := at[id]; planned {
				g.before[i] = append(g.before[i], j)
			}
		}
	}
	return g
}

// ancestors adds the steps that have to end before a step starts.
func (g *stepGraph) ancestors(step int, to map[int]bool) {
	for _, j := range g.before[step] {
		if !to[j] {
			to[j] = true
			g.ancestors(j, to)
		}
	}
}

// least finds the worst moment of a supply: a set of started steps, which contains all steps that they wait for and takes the most
// nodes beyond the added ones. A maximum matching pairs each taken node with an added node whose step has to end before. A pair
// leaves the number as it is, so the unmatched taken nodes are the decrease, and alternating paths from them give the set (the
// theorem of Kőnig).
func (g *stepGraph) least(of Supply, ready int, takes, adds []int) worstMoment {
	addsAt := map[int][]int{} // by step: positions in adds
	for j, add := range adds {
		addsAt[add] = append(addsAt[add], j)
	}
	needs := make([][]int, len(takes)) // by taken node: positions in adds
	for i, step := range takes {
		before := map[int]bool{}
		g.ancestors(step, before)
		for other := range before {
			needs[i] = append(needs[i], addsAt[other]...)
		}
		slices.Sort(needs[i])
	}
	taken := make([]int, len(adds)) // by added node: the taken node that it is matched with
	for j := range taken {
		taken[j] = -1
	}
	visited, round := make([]int, len(adds)), 0
	var match func(i int) bool
	match = func(i int) bool {
		for _, j := range needs[i] {
			if visited[j] == round {
				continue
			}
			visited[j] = round
			if taken[j] < 0 || match(taken[j]) {
				taken[j] = i
				return true
			}
		}
		return false
	}
	l := worstMoment{LeastReady{Supply: of, Ready: ready, Least: ready}, map[int]bool{}}
	var start func(i int)
	start = func(i int) {
		if !l.started[takes[i]] {
			l.started[takes[i]] = true
			g.ancestors(takes[i], l.started)
		}
		for _, j := range needs[i] {
			if visited[j] != round {
				visited[j] = round
				start(taken[j])
			}
		}
	}
	var unmatched []int
	for i := range takes {
		if round++; !match(i) {
			unmatched = append(unmatched, i)
		}
	}
	round++
	for _, i := range unmatched {
		l.Least--
		start(i)
	}
	if l.Least <= 0 {
		l.Empty, l.Stays = g.untilNext(adds, l.started)
	}
	return l
}

// untilNext returns the estimated time from the worst moment to the end of the next step that adds a node, and whether there is none.
func (g *stepGraph) untilNext(adds []int, started map[int]bool) (seconds float64, never bool) {
	ends := map[int]float64{}
	var end func(i int) float64
	end = func(i int) float64 {
		if t, known := ends[i]; known {
			return t
		}
		t := 0.0
		for _, j := range g.before[i] {
			t = max(t, end(j))
		}
		t += g.steps[i].Estimate
		ends[i] = t
		return t
	}
	for i := range started {
		ends[i] = g.steps[i].Estimate
	}
	for i := range started {
		for _, j := range g.before[i] {
			ends[j] = 0 // another one waited for it
		}
	}
	seconds = math.Inf(1)
	for _, add := range adds {
		if !started[add] {
			seconds = min(seconds, end(add))
		}
	}
	if math.IsInf(seconds, 1) {
		return 0, true
	}
	return seconds, false
}
