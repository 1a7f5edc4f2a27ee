package plan

import (
	"slices"

	"github.com/npctl/npctl/resources"
)

// A provider that does not respond gives no result, so the launch uses up no attempt of the node: it is postponed,
// for longer each time (see breaker). A request waits for its nodes until its deadline, unless another pool can serve
// it now. A node that no request waits for is given up if no instance of it is known and another provider has the
// label, so that min_ready is met there.

// noProgress returns why a pending request makes no progress in its pool, or nil.
func (rp *requestPlanner) noProgress(r *resources.Request, nodes []string) *blocker {
	view, asked := rp.world.seen.Providers[r.Placement.Provider]
	silent := asked && view.Err != "" && !rp.world.seen.Frozen[r.Placement.Provider]
	for _, id := range nodes {
		switch n := rp.world.node[id]; {
		case n == nil || n.State == resources.StateReady || rp.world.busy(n.Key()):
		case rp.nodes.postponedNodes[id] != nil:
			return rp.nodes.postponedNodes[id]
		case silent:
			return notResponding
		}
	}
	return nil
}

// reassign releases a request from the pool that accepted it, if another provider can serve it now. The nodes in the
// old pool become unassigned.
func (rp *requestPlanner) reassign(r *resources.Request, why *blocker) bool {
	again := *r
	again.State, again.Placement = resources.StateRequested, resources.Placement{}
	if !rp.servedElsewhere(&again, poolKey{r.Placement.Provider, r.Placement.Pool}) {
		return false
	}
	rp.draft.add(restartStep(r, ReasonUnavailable, Fact{r.Placement.Provider + "/" + r.Placement.Pool, why.String()}))
	return true
}

// offeredElsewhere reports whether another provider offers the same label, without known problems or failures.
func (w *world) offeredElsewhere(here *poolOffer) bool {
	return slices.ContainsFunc(w.pools, func(s *poolState) bool {
		if s.at.provider == here.at.provider || !w.reachable(s.at.provider) {
			return false
		}
		at := s.offers[here.offer.Label]
		return at != nil && len(at.problems) == 0 && w.breaker(at) == nil
	})
}

// servedElsewhere reports whether a pool of another provider can serve a request now, and allocates its capacity. The
// capacity of the pools of other processes is unknown here.
func (rp *requestPlanner) servedElsewhere(r *resources.Request, here poolKey) bool {
	options, _ := rp.options(r)
	i := slices.IndexFunc(options, func(o *option) bool { return o.at.provider != here.provider && o.blocker == nil })
	if i >= 0 {
		rp.allocate(options[i])
		return true
	}
	return slices.ContainsFunc(rp.candidates(r), func(p *resources.RegisteredPool) bool { return !p.Own && !p.Paused && p.Provider != here.provider })
}
