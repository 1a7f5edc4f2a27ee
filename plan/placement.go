package plan

import (
	"cmp"
	"slices"

	"github.com/npctl/npctl/resources"
)

// placementOrder decides between two pools that could take a node, for min_ready and for requests alike: the lower
// priority goes first (a pool without one has its provider's), then the pool with the larger share of its servers free,
// then the name of the provider and of the pool.
func placementOrder(a, b *site, shareA, shareB float64) int {
	return cmp.Or(
		cmp.Compare(a.pool.Priority, b.pool.Priority),
		cmp.Compare(shareB, shareA),
		cmp.Compare(a.at.provider, b.at.provider),
		cmp.Compare(a.at.pool, b.at.pool),
	)
}

// nextLaunch chooses the place of the next node of a label, and the node that it replaces, if any. A successor stays in
// the pool of its predecessor while that pool has room, which includes what the predecessor frees. All other nodes go
// where placementOrder says.
func (c *computation) nextLaunch(places []*place, label string, free map[string]*resources.Amounts) (*place, *retiredNode) {
	retired := c.replaceable(label)
	stays := func(at *place) bool {
		return slices.ContainsFunc(retired, func(r *retiredNode) bool { return r.pool == at.at })
	}
	at := c.best(places, free, stays)
	if at == nil {
		at = c.best(places, free, func(*place) bool { return true })
	}
	if at == nil || len(retired) == 0 {
		return at, nil
	}
	i := slices.IndexFunc(retired, func(r *retiredNode) bool { return r.pool == at.at })
	old := retired[max(i, 0)]
	c.retired[label] = slices.DeleteFunc(retired, func(r *retiredNode) bool { return r == old })
	c.pools[old.pool].claim(old.step)
	return at, old
}

// replaceable lists the nodes of a label that a launch can replace: those that no other launch waits for.
func (c *computation) replaceable(label string) []*retiredNode {
	c.retired[label] = slices.DeleteFunc(c.retired[label], func(r *retiredNode) bool {
		return !slices.Contains(c.pools[r.pool].frees, r.step)
	})
	return c.retired[label]
}

// best returns the first, in placementOrder, of the accepted places that have room for one more node, or nil.
func (c *computation) best(places []*place, free map[string]*resources.Amounts, accept func(*place) bool) *place {
	var best *place
	for _, p := range places {
		if !accept(p) || c.refusal(p, free) != nil {
			continue
		}
		if best == nil || placementOrder(p.site, best.site, c.freeShare(p.site, free), c.freeShare(best.site, free)) < 0 {
			best = p
		}
	}
	return best
}
