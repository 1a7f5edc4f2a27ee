package plan

import (
	"slices"

	"github.com/npctl/npctl/resources"
)

// capacityWaiter is the most urgent of the requests that lack only capacity in a pool.
type capacityWaiter struct {
	request string
	*option
	counted bool // its need is already counted as used
}

// noteCapacityWaiter records the first request that lacks only capacity in a pool.
func (rp *requestPlanner) noteCapacityWaiter(r *resources.Request, o *option) {
	if rp.blockedByCapacity[o.at] == nil && o.missing > 0 && !o.blocked && !rp.reserved[o.at] {
		rp.blockedByCapacity[o.at] = &capacityWaiter{request: r.ID, option: o}
	}
}

// reserve reserves capacity of the pool for the first request that has waited for reserveAfter.
func (rp *requestPlanner) reserve(r *resources.Request, o *option) {
	if rp.reserved[o.at] || rp.world.seen.Now.Sub(r.Created) < reserveAfter {
		return
	}
	rp.allocate(o)
	rp.reserved[o.at] = true
	if c := rp.blockedByCapacity[o.at]; c != nil && c.option == o {
		c.counted = true
	}
}

// evictIdleNodes removes idle nodes, those idle longest first, if they keep a request out of a full pool. It runs
// after all requests have received their nodes: no waiting request can use the nodes that are still idle, not even a
// request for such a node that lacks capacity for its other nodes.
func (rp *requestPlanner) evictIdleNodes() {
	for _, s := range rp.world.pools {
		c := rp.blockedByCapacity[s.at]
		if c == nil || rp.idle[s.at] == nil {
			continue
		}
		for _, n := range rp.nodesToEvict(c) {
			rp.idle[s.at].remove(n)
			rp.nodes.replanAsDeleted(n, ReasonRoomNeeded, Fact{"request", c.request})
		}
	}
}

// nodesToEvict lists the idle nodes to remove: none if enough capacity is being released already, or if the removal
// of all of them is not enough.
func (rp *requestPlanner) nodesToEvict(c *capacityWaiter) []*resources.Node {
	use := rp.capacity.pool(c.at.provider, c.at.pool)
	gone := Plus(use.leaving, use.going)
	if c.counted {
		gone = Plus(gone, c.need)
	}
	fits := func() bool {
		left := rp.capacity.free[c.at.provider]
		return overLimits(c.pool, minus(use.use, gone), c.need) == nil &&
			(left == nil || c.pool.IgnoreProviderQuota || overQuota(Plus(*left, gone), c.need) == nil)
	}
	var going []*resources.Node
	for _, n := range rp.idle[c.at].nodes {
		if fits() {
			return going
		}
		if !n.Static && !slices.Contains(c.nodes, n.ID) {
			going, gone = append(going, n), Plus(gone, Amounts(n))
		}
	}
	if !fits() {
		return nil
	}
	return going
}
