package plan

import (
	"slices"

	"github.com/npctl/npctl/resources"
)

// A provider that does not respond gives no result, so the launch uses up no attempt of the node: it is postponed,
// for longer each time (see breaker). A request waits for its nodes until its deadline, unless another pool can serve
// it now. A node that no request waits for is given up if no instance of it is known and another provider has the
// label, so that min_ready is met there.

// reassignReason returns why a pending request makes no progress in its pool, or "".
func (d *dispatch) reassignReason(r *resources.Request, nodes []string) string {
	view, asked := d.seen.Providers[r.Placement.Provider]
	silent := asked && view.Err != "" && !d.seen.Frozen[r.Placement.Provider]
	for _, id := range nodes {
		switch n := d.world.node[id]; {
		case n == nil || n.State == resources.StateReady || d.busy(n.Key()):
		case d.postponedNodes[id] != "":
			return d.postponedNodes[id]
		case silent:
			return "the provider does not respond"
		}
	}
	return ""
}

// reassign releases a request from the pool that accepted it, if another provider can serve it now. The nodes in the
// old pool become unassigned.
func (d *dispatch) reassign(r *resources.Request, why string) bool {
	again := *r
	again.State, again.Placement = resources.StateRequested, resources.Placement{}
	if !d.servedElsewhere(&again, poolKey{r.Placement.Provider, r.Placement.Pool}) {
		return false
	}
	d.add(restartStep(r, ReasonUnavailable, Fact{r.Placement.Provider + "/" + r.Placement.Pool, why}))
	return true
}

// offeredElsewhere reports whether another provider offers the same label, without known problems or failures.
func (c *computation) offeredElsewhere(here *poolOffer) bool {
	return slices.ContainsFunc(c.world.pools, func(s *poolState) bool {
		if s.at.provider == here.at.provider || !c.reachable(s.at.provider) {
			return false
		}
		at := c.offerIn(s, here.offer.Label)
		return at != nil && len(at.problems) == 0 && c.breaker(at) == ""
	})
}

// servedElsewhere reports whether a pool of another provider can serve a request now, and allocates its capacity. The
// capacity of the pools of other processes is unknown here.
func (d *dispatch) servedElsewhere(r *resources.Request, here poolKey) bool {
	var options []*option
	if d.seen.Shared {
		options, _ = d.sharedOptions(r)
	} else {
		options, _ = d.options(r)
	}
	i := slices.IndexFunc(options, func(o *option) bool { return o.at.provider != here.provider && o.blocker == nil })
	if i >= 0 {
		d.allocate(options[i])
		return true
	}
	return d.seen.Shared && slices.ContainsFunc(d.candidates(r), func(p *resources.RegisteredPool) bool { return !p.Own && !p.Paused && p.Provider != here.provider })
}
