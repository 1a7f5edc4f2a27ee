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
func (d *dispatch) noteCapacityWaiter(r *resources.Request, o *option) {
	if d.blockedByCapacity[o.at] == nil && o.missing > 0 && !o.blocked && !o.reservedForRequest {
		d.blockedByCapacity[o.at] = &capacityWaiter{request: r.ID, option: o}
	}
}

// reserve reserves capacity of the pool for the first request that has waited for reserveAfter.
func (d *dispatch) reserve(r *resources.Request, o *option) {
	if o.reservedForRequest || d.seen.Now.Sub(r.Created) < reserveAfter {
		return
	}
	d.allocate(o)
	o.reservedForRequest = true
	if c := d.blockedByCapacity[o.at]; c != nil && c.option == o {
		c.counted = true
	}
}

// evictIdleNodes removes idle nodes, those idle longest first, if they keep a request out of a full pool. It runs
// after all requests have received their nodes: no waiting request can use the nodes that are still idle, not even a
// request for such a node that lacks capacity for its other nodes.
func (d *dispatch) evictIdleNodes() {
	for _, s := range d.world.pools {
		c := d.blockedByCapacity[s.at]
		if c == nil || d.idle[s.at] == nil {
			continue
		}
		for _, n := range d.nodesToEvict(c) {
			d.idle[s.at].remove(n)
			d.replanAsDeleted(n, ReasonRoomNeeded, Fact{"request", c.request})
		}
	}
}

// nodesToEvict lists the idle nodes to remove: none if enough capacity is being released already, or if the removal
// of all of them is not enough.
func (d *dispatch) nodesToEvict(c *capacityWaiter) []*resources.Node {
	use := d.pool(c.at.provider, c.at.pool)
	gone := plus(use.leaving, use.going)
	if c.counted {
		gone = plus(gone, c.need)
	}
	fits := func() bool {
		left := d.free[c.at.provider]
		return overLimits(c.pool, minus(use.use, gone), c.need) == nil &&
			(left == nil || c.pool.IgnoreProviderQuota || overQuota(plus(*left, gone), c.need) == nil)
	}
	var going []*resources.Node
	for _, n := range d.idle[c.at].nodes {
		if fits() {
			return going
		}
		if !n.Static && !slices.Contains(c.nodes, n.ID) {
			going, gone = append(going, n), plus(gone, amounts(n))
		}
	}
	if !fits() {
		return nil
	}
	return going
}
