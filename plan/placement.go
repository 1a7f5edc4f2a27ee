package plan

import (
	"cmp"
	"slices"

	"github.com/npctl/npctl/resources"
)

// placementOrder decides between two pools that could launch a node, for min_ready and for requests: first the lower
// priority (a pool without one has its provider's), then the larger share of free servers, then the name of the
// provider and of the pool.
func placementOrder(a, b *poolState, shareA, shareB float64) int {
	return cmp.Or(
		cmp.Compare(a.pool.Priority, b.pool.Priority),
		cmp.Compare(shareB, shareA),
		cmp.Compare(a.at.provider, b.at.provider),
		cmp.Compare(a.at.pool, b.at.pool),
	)
}

// nextLaunch chooses the offer for the next node of a label, and the node that it replaces, if any. A successor stays
// in the pool of its predecessor while that pool has capacity, including the capacity that the predecessor frees.
// placementOrder decides about all other nodes.
func (c *computation) nextLaunch(places []*poolOffer, label string, free map[string]*resources.ResourceAmounts) (*poolOffer, *replacedNode) {
	retired := c.replaceable(label)
	stays := func(at *poolOffer) bool {
		return slices.ContainsFunc(retired, func(r *replacedNode) bool { return r.pool == at.at })
	}
	at := c.best(places, free, stays)
	if at == nil {
		at = c.best(places, free, func(*poolOffer) bool { return true })
	}
	if at == nil || len(retired) == 0 {
		return at, nil
	}
	i := slices.IndexFunc(retired, func(r *replacedNode) bool { return r.pool == at.at })
	old := retired[max(i, 0)]
	c.replacedNodes[label] = slices.DeleteFunc(retired, func(r *replacedNode) bool { return r == old })
	c.pools[old.pool].claim(old.step)
	return at, old
}

// replaceable lists the nodes of a label that a launch can replace: no other launch waits for their deletion.
func (c *computation) replaceable(label string) []*replacedNode {
	c.replacedNodes[label] = slices.DeleteFunc(c.replacedNodes[label], func(r *replacedNode) bool {
		return !slices.Contains(c.pools[r.pool].frees, r.step)
	})
	return c.replacedNodes[label]
}

// best returns the first, in placementOrder, of the accepted offers with capacity for one more node, or nil.
func (c *computation) best(places []*poolOffer, free map[string]*resources.ResourceAmounts, accept func(*poolOffer) bool) *poolOffer {
	var best *poolOffer
	for _, p := range places {
		if !accept(p) || c.capacityBlocker(p, free) != nil {
			continue
		}
		if best == nil || placementOrder(p.poolState, best.poolState, c.freeShare(p.poolState, free), c.freeShare(best.poolState, free)) < 0 {
			best = p
		}
	}
	return best
}
