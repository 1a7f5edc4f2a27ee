package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// option is a pool that can serve a request, now or later.
type option struct {
	*poolState
	zone    string
	nodes   []string     // IDs of ready nodes by position in the request; empty for a node to launch
	offers  []*poolOffer // by position in the request; nil if only static nodes have the label
	missing int
	need    resources.ResourceAmounts // of the nodes to launch
	blocker *blocker                  // why the pool cannot serve the request now; nil: it can
	share   float64                   // free part of the pool, from 0 to 1

	blocked bool // regardless of capacity
}

func (o *option) place() resources.Placement {
	return resources.Placement{Provider: o.at.provider, Pool: o.at.pool, Zone: o.zone}
}

// better orders pools that can serve a request: first pools that can serve it now, then ready nodes before launches, then
// placementOrder.
func better(a, b *option) int {
	switch {
	case a.blocker == nil && b.blocker != nil:
		return -1
	case a.blocker != nil && b.blocker == nil:
		return 1
	}
	return cmp.Or(cmp.Compare(min(a.missing, 1), min(b.missing, 1)), placementOrder(a.poolState, b.poolState, a.share, b.share))
}

// options lists our pools that could serve a request and do not leave it to another process, pools with capacity first and
// then the best one first, and the declines of pools that never can. In a local store these include the declines that the
// request has.
func (rp *requestPlanner) options(r *resources.Request) (options []*option, declined []resources.Decline) {
	shared, candidates := rp.world.seen.Shared, rp.candidates(r)
	for _, s := range rp.world.pools {
		if shared && (s.peer == nil || declinedBy(r.Declined, s.peer.ID) || leavesTo(s.peer, candidates)) || !shared && !s.offersAny(r.Labels) {
			continue
		}
		inPool := func(n resources.Decline) bool { return !shared && n.Provider == s.at.provider && n.Pool == s.at.pool }
		if k := slices.IndexFunc(r.Declined, func(n resources.Decline) bool { return inPool(n) && n.Zone == "" }); k >= 0 {
			declined = append(declined, r.Declined[k])
			continue
		}
		switch o, why := rp.optionAt(r, s, nil); {
		case why == "":
			options = append(options, o)
		case why == zonesDeclined && !shared:
			for _, n := range r.Declined {
				if inPool(n) && !slices.Contains(declined, n) {
					declined = append(declined, n)
				}
			}
		default:
			declined = append(declined, rp.declineOf(s.at, "", why))
		}
	}
	slices.SortStableFunc(options, better)
	return options, declined
}

// optionAt checks one pool. have lists the nodes that the request already has there. why is set if the pool never
// can.
func (rp *requestPlanner) optionAt(r *resources.Request, s *poolState, have []string) (o *option, why string) {
	if r.Provider != "" && r.Provider != s.at.provider && !rp.world.seen.Shared {
		return nil, "the request wants provider " + r.Provider
	}
	o = &option{poolState: s, zone: r.Placement.Zone, nodes: make([]string, len(r.Labels)), offers: make([]*poolOffer, len(r.Labels))}
	if why := rp.offered(o, r); why != "" {
		return nil, why
	}
	if slices.ContainsFunc(o.offers, func(at *poolOffer) bool { return at != nil }) {
		o.share = rp.capacity.freeShare(s)
	}
	if !rp.world.reachable(s.at.provider) {
		o.blocker = notResponding
		return o, ""
	}
	if !r.Fresh {
		rp.reuse(o, r, have)
	}
	if o.zone == "" && len(r.Labels) > 1 {
		zones, known := zonesLeft(o, r)
		if known && len(zones) == 0 {
			return nil, zonesDeclined
		}
		if len(zones) > 0 {
			h := fnv.New32a() // the requests spread over the zones
			_, _ = h.Write([]byte(r.ID))
			o.zone = zones[uint64(h.Sum32())%uint64(len(zones))]
		}
	}
	return o, rp.missing(o, r, have)
}

// zonesDeclined is the reason why a pool cannot serve a request that all its zones have declined.
const zonesDeclined = "every zone has declined"

// zonesLeft lists the zones in which every label can be launched and that have not declined the request. known is
// false if the cloud chooses the zone.
func zonesLeft(o *option, r *resources.Request) (zones []string, known bool) {
	for _, at := range o.offers {
		switch {
		case at == nil || len(at.zones) == 0:
		case !known:
			zones, known = slices.Clone(at.zones), true
		default:
			zones = slices.DeleteFunc(zones, func(zone string) bool { return !slices.Contains(at.zones, zone) })
		}
	}
	return slices.DeleteFunc(zones, func(zone string) bool { return declinedZone(r, o.at, zone) }), known
}

func declinedZone(r *resources.Request, at poolKey, zone string) bool {
	return zone != "" && slices.ContainsFunc(r.Declined, func(n resources.Decline) bool {
		return n.Provider == at.provider && n.Pool == at.pool && n.Zone == zone
	})
}

// offered finds the pool's offer of each label, or returns why the pool cannot serve a label.
func (rp *requestPlanner) offered(o *option, r *resources.Request) string {
	for i, label := range r.Labels {
		at := o.poolState.offers[label]
		switch {
		case at == nil && o.slots[label] < countOf(r.Labels[:i+1], label):
			return fmt.Sprintf("it has no label %s, or fewer machines than are asked for", label)
		case at != nil && len(at.problems) > 0:
			return problemText(at.problems[0])
		}
		o.offers[i] = at
	}
	return ""
}

func countOf(labels []string, label string) (n int64) {
	for _, l := range labels {
		if l == label {
			n++
		}
	}
	return n
}

// reuse selects ready nodes of the pool, all from one zone: the zone that serves most of the request.
func (rp *requestPlanner) reuse(o *option, r *resources.Request, have []string) {
	idle := rp.idle[o.at]
	if idle == nil || !slices.ContainsFunc(r.Labels, func(label string) bool { return idle.labels[label] > 0 }) {
		return
	}
	best, most := []string(nil), 0
	for _, zone := range idle.zones(o.zone) {
		if declinedZone(r, o.at, zone) {
			continue
		}
		if nodes, n := idle.match(r.Labels, have, zone, len(r.Labels) == 1); n > most && o.launchesIn(zone, nodes, have) {
			best, most = nodes, n
			if len(r.Labels) > 1 {
				o.zone = zone
			}
		}
	}
	if most > 0 {
		o.nodes = best
	}
}

// launchesIn reports whether the zone can launch the nodes that the request lacks in addition to nodes and have.
func (o *option) launchesIn(zone string, nodes, have []string) bool {
	for i, at := range o.offers {
		lacks := nodes[i] == "" && (have == nil || have[i] == "")
		if lacks && len(nodes) > 1 && zone != "" && at != nil && len(at.zones) > 0 && !slices.Contains(at.zones, zone) {
			return false
		}
	}
	return true
}

// missing adds up the nodes to launch. It returns why the pool can never launch them, and sets the blocker if it
// cannot now.
func (rp *requestPlanner) missing(o *option, r *resources.Request, have []string) (never string) {
	var all resources.ResourceAmounts
	for i, at := range o.offers {
		if at != nil {
			all = Plus(all, at.each)
		}
		if o.nodes[i] != "" || have != nil && have[i] != "" {
			continue
		}
		o.missing++
		if at != nil {
			o.need = Plus(o.need, at.each)
		}
		if o.blocker == nil {
			if at != nil {
				o.blocker = rp.placement.offerBlocker(at)
			} else {
				o.blocker = &blocker{text: fmt.Sprintf("all machines with label %s are taken", r.Labels[i])}
			}
			o.blocked = o.blocker != nil
		}
	}
	if why := rp.oversizeBlocker(o, all); why != nil {
		return "the request is too large: " + why.String()
	}
	if why := rp.tenants.beyondTenant(r, o); why != nil && have == nil {
		return why.String()
	}
	if o.blocker == nil && o.missing > 0 {
		o.blocker = rp.roomBlocker(o)
	}
	return ""
}

// oversizeBlocker returns why the nodes do not fit into the pool, or into the quota of its provider, even if both are
// empty, or nil.
func (rp *requestPlanner) oversizeBlocker(o *option, all resources.ResourceAmounts) *blocker {
	if why := overLimits(o.pool, resources.ResourceAmounts{}, all); why != nil {
		return why
	}
	view, looked := rp.world.view(o.at.provider)
	if !looked || o.pool.IgnoreProviderQuota || all.Instances == 0 {
		return nil
	}
	return overQuota(remaining(view.Quota.Limit, resources.ResourceAmounts{}), all)
}

// roomBlocker returns the limit that leaves no capacity now for the nodes to launch, or nil.
func (rp *requestPlanner) roomBlocker(o *option) *blocker {
	if rp.reserved[o.at] {
		return &blocker{text: "free capacity is reserved for a request that has waited longer"}
	}
	if why := overLimits(o.pool, rp.capacity.pool(o.at.provider, o.at.pool).use, o.need); why != nil {
		return why
	}
	if left := rp.capacity.free[o.at.provider]; left != nil && !o.pool.IgnoreProviderQuota {
		return overQuota(*left, o.need)
	}
	return nil
}

// allocate counts the nodes and the capacity of an option as used, so that no other request gets them.
func (rp *requestPlanner) allocate(o *option) {
	for _, id := range o.nodes {
		if id == "" {
			continue
		}
		n := rp.world.node[id]
		rp.idle[o.at].remove(n)
		for _, label := range n.Labels {
			rp.capacity.readyCount[label]--
		}
	}
	use := rp.capacity.pool(o.at.provider, o.at.pool)
	use.use = Plus(use.use, o.need)
	if left := rp.capacity.free[o.at.provider]; left != nil {
		*left = minus(*left, o.need)
	}
}

// waitForRoom makes a request wait for capacity. After reserveAfter its pool reserves capacity for it. If idle nodes
// fill the pool, evictIdleNodes removes them.
func (rp *requestPlanner) waitForRoom(r *resources.Request, options []*option) {
	if rp.world.opt.Explain {
		var reasons []string
		for _, o := range options {
			reasons = append(reasons, fmt.Sprintf("%s: %s", o.at, o.blocker))
		}
		rp.explainWait(r, &blocker{text: strings.Join(reasons, "; ")})
	}
	for _, o := range options {
		rp.poolHasWaiters[o.at] = true
	}
	for _, o := range options {
		if rp.reserved[o.at] || !rp.world.reachable(o.at.provider) {
			continue
		}
		rp.noteCapacityWaiter(r, o)
		rp.reserve(r, o)
		return
	}
}
