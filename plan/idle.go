package plan

import (
	"slices"
	"time"

	"github.com/npctl/npctl/resources"
)

// planIdle deletes ready nodes that min_ready does not need, after the idle_timeout of their label: the oldest first, within disruption
// budgets. Nodes that this plan gives to requests stay, and launches under way do not count as ready.
func planIdle(w *world, d *draft, nodes *nodePlanner) {
	if w.opt.RefreshOnly || w.opt.Destroy || !slices.ContainsFunc(w.want.Labels, func(l resources.Label) bool { return l.IdleTimeout > 0 }) {
		return
	}
	given := map[string]bool{}
	for i := range d.steps {
		for _, id := range d.steps[i].Nodes {
			given[id] = true
		}
	}
	ready := map[string]int64{}
	var idle []*resources.Node
	for _, pool := range idleNodesOf(w, d) {
		for _, n := range pool.nodes {
			if given[n.ID] {
				continue
			}
			for _, label := range n.Labels {
				ready[label]++
			}
			if !n.Static {
				idle = append(idle, n)
			}
		}
	}
	slices.SortFunc(idle, compareAge)
	for _, n := range idle {
		at, removed := w.placeOfNode(n)
		if removed != "" {
			continue
		}
		label, age := w.label(at.offer.Label), w.seen.Now.Sub(n.StateTime)
		switch {
		case label == nil || label.IdleTimeout == 0 || age < label.IdleTimeout || w.seen.Now.Sub(n.Created) < at.provider.MinRetention:
		case ready[label.Name] <= label.MinReady || !nodes.disruption.allowsSurplus(n):
		default:
			ready[label.Name]--
			nodes.replanAsDeleted(n, ReasonSurplus, Fact{"idle", age.Truncate(time.Second).String()}, Fact{"idle_timeout", label.IdleTimeout.String()})
		}
	}
}
