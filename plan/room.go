package plan

import (
	"slices"

	"github.com/npctl/npctl/resources"
)

// cramped is the most urgent of the requests that lack nothing but room in a pool.
type cramped struct {
	request string
	*option
	counted bool // what it needs is counted as used already
}

// cramp remembers that the request lacks room in a pool.
func (d *dispatch) cramp(r *resources.Request, o *option) {
	if d.cramped[o.at] == nil && o.missing > 0 && !o.hindered && !o.reserved {
		d.cramped[o.at] = &cramped{request: r.ID, option: o}
	}
}

// reserve keeps the pool's room for the first of the requests that have waited long.
func (d *dispatch) reserve(r *resources.Request, o *option) {
	if o.reserved || d.seen.Now.Sub(r.Created) < reserveAfter {
		return
	}
	d.take(o)
	o.reserved = true
	if c := d.cramped[o.at]; c != nil && c.option == o {
		c.counted = true
	}
}

// makeRoom removes idle nodes, those that have waited longest, where they are what keeps a request out of a full pool. It
// comes when all requests have taken what they can: nobody who waits can use what is idle then, also one who asks for
// such a node but lacks room for others.
func (d *dispatch) makeRoom() {
	for _, s := range d.world.sites {
		c := d.cramped[s.at]
		if c == nil || d.idle[s.at] == nil {
			continue
		}
		for _, n := range d.inTheWay(c) {
			d.idle[s.at].remove(n)
			d.dismiss(n, ReasonRoomNeeded, Fact{"request", c.request})
		}
	}
}

// inTheWay lists the idle nodes that have to go to make room: none when room is on its way, or when all of them are not
// enough.
func (d *dispatch) inTheWay(c *cramped) []*resources.Node {
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
