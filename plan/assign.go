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
	if o.blocker = rp.world.unreachable(s.at.provider); o.blocker != nil {
		return o, ""
	}
	if !r.Fresh {
		if rp.reuse(o, r, have); rp.listedTooLongAgo(o, r) {
			rp.draft.relist[s.at.provider], o.blocker, o.blocked = true, tooOld, true
			return o, ""
		}
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

// listedTooLongAgo reports whether a newer listing must show that the ready nodes of an option still exist. A listing that started
// after the request was created is always new enough, however long it took.
func (rp *requestPlanner) listedTooLongAgo(o *option, r *resources.Request) bool {
	seen := &rp.world.seen
	view, looked := rp.world.view(o.at.provider)
	if seen.MaxListingAge == 0 || !looked || !slices.ContainsFunc(o.nodes, func(id string) bool { return id != "" }) {
		return false
	}
	since := r.Created
	if since.After(seen.Now) { // the clock of another host
		since = seen.Now
	}
	return view.ListedAt.Before(since.Add(-seen.MaxListingAge))
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
			all = all.Plus(at.each)
		}
		if o.nodes[i] != "" || have != nil && have[i] != "" {
			continue
		}
		o.missing++
		if at != nil {
			o.need = o.need.Plus(at.each)
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
	tooLarge := overLimits(&o.pool.Limits, resources.ResourceAmounts{}, all) // even if the pool and the project are empty
	if view, looked := rp.world.view(o.at.provider); tooLarge == nil && looked && !o.pool.IgnoreProviderQuota && all.Instances > 0 {
		tooLarge = overQuota(remaining(view.Quota.Limit, resources.ResourceAmounts{}), all)
	}
	if tooLarge != nil {
		return "the request is too large: " + tooLarge.String()
	}
	if limit := rp.tenants.limits[r.Tenant]; limit != nil && have == nil {
		if why := overLimits(limit, resources.ResourceAmounts{}, rp.tenants.requestAmounts(o)); why != nil {
			return fmt.Sprintf("the request is too large for tenant %s: %s", r.Tenant, why)
		}
	}
	if o.blocker == nil && o.missing > 0 {
		o.blocker = rp.capacityBlocker(o)
	}
	if o.blocker != nil && o.missing > 0 && have == nil && r.Requestor == MinReadyRequestor {
		return "a ready node in advance is not worth a wait: " + o.blocker.String()
	}
	return ""
}

// capacityBlocker returns the limit that leaves no capacity now for the nodes to launch, or nil.
func (rp *requestPlanner) capacityBlocker(o *option) *blocker {
	if rp.reserved[o.at] {
		return &blocker{text: "free capacity is reserved for a request that has waited longer"}
	}
	if why := overLimits(&o.pool.Limits, rp.capacity.pool(o.at.provider, o.at.pool).use, o.need); why != nil {
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
	use.use = use.use.Plus(o.need)
	if left := rp.capacity.free[o.at.provider]; left != nil {
		*left = left.Minus(o.need)
	}
}

// waitForCapacity makes a request wait for capacity. After reserveAfter its pool reserves capacity for it. If idle nodes
// fill the pool, evictIdleNodes removes them.
func (rp *requestPlanner) waitForCapacity(r *resources.Request, options []*option) {
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
		if rp.reserved[o.at] || !rp.world.reachable(o.at.provider) || o.blocker == tooOld {
			continue
		}
		rp.noteCapacityWaiter(r, o)
		rp.reserve(r, o)
		return
	}
}

// idleNodes is the ready, unassigned nodes of a pool.
type idleNodes struct {
	nodes  []*resources.Node // idle longest first
	labels map[string]int    // number of nodes with the label
}

// idleNodesOf lists the ready nodes that are assigned to no request and stay.
func idleNodesOf(w *world, d *draft) map[poolKey]*idleNodes {
	all := map[poolKey]*idleNodes{}
	for _, provider := range w.names {
		if !w.reachable(provider) {
			continue
		}
		for _, n := range w.nodes[provider] {
			if n.State == resources.StateReady && n.Request == "" && d.deletedBy[n.Key()] == "" && !w.busy(n.Key()) && !d.updatedRecords[n.Key()] {
				key := poolKey{provider, n.Pool}
				if all[key] == nil {
					all[key] = &idleNodes{labels: map[string]int{}}
				}
				all[key].nodes = append(all[key].nodes, n)
				for _, label := range n.Labels {
					all[key].labels[label]++
				}
			}
		}
	}
	for _, pool := range all {
		slices.SortFunc(pool.nodes, compareAge)
	}
	return all
}

// compareAge orders nodes by the time of their state, the oldest first.
func compareAge(a, b *resources.Node) int {
	return cmp.Or(a.StateTime.Compare(b.StateTime), cmp.Compare(a.ID, b.ID))
}

func (s *idleNodes) remove(n *resources.Node) {
	s.nodes = slices.DeleteFunc(s.nodes, func(other *resources.Node) bool { return other == n })
	for _, label := range n.Labels {
		s.labels[label]--
	}
}

// zones lists the zones to search: only the wanted one if it is set.
func (s *idleNodes) zones(wanted string) []string {
	if wanted != "" {
		return []string{wanted}
	}
	var zones []string
	for _, n := range s.nodes {
		if !slices.Contains(zones, n.Zone) {
			zones = append(zones, n.Zone)
		}
	}
	slices.Sort(zones)
	return zones
}

// match finds nodes for as many of the unserved labels as possible. The node that is idle longest goes first, unless
// it is the only one for another label.
func (s *idleNodes) match(labels, have []string, zone string, anywhere bool) (nodes []string, n int) {
	m := matching{labels: labels, nodes: make([]string, len(labels)), taken: map[string]int{}}
	for _, node := range s.nodes {
		if anywhere || node.Zone == zone {
			m.from = append(m.from, node)
		}
	}
	for k := range labels {
		if (have == nil || have[k] == "") && (m.take(k) || m.displace(k, map[string]bool{})) {
			n++
		}
	}
	return m.nodes, n
}

// matching assigns nodes to the labels of a request.
type matching struct {
	labels []string
	from   []*resources.Node
	nodes  []string       // by position in labels
	taken  map[string]int // position in labels, by node ID
}

// take gives a label an unassigned node.
func (m *matching) take(k int) bool {
	for _, node := range m.from {
		if _, taken := m.taken[node.ID]; !taken && slices.Contains(node.Labels, m.labels[k]) {
			m.nodes[k], m.taken[node.ID] = node.ID, k
			return true
		}
	}
	return false
}

// displace gives a label the node of another label that can use a different node.
func (m *matching) displace(k int, tried map[string]bool) bool {
	for _, node := range m.from {
		j, taken := m.taken[node.ID]
		if !taken || tried[node.ID] || !slices.Contains(node.Labels, m.labels[k]) {
			continue
		}
		tried[node.ID] = true
		if m.take(j) || m.displace(j, tried) {
			m.nodes[k], m.taken[node.ID] = node.ID, k
			return true
		}
	}
	return false
}

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
	if rp.reserved[o.at] || o.blocker == tooOld || rp.world.seen.Now.Sub(r.Created) < reserveAfter {
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
			rp.nodes.replanAsDeleted(n, ReasonCapacityNeeded, Fact{"request", c.request})
		}
	}
}

// nodesToEvict lists the idle nodes to remove: none if enough capacity is being released already, or if the removal
// of all of them is not enough.
func (rp *requestPlanner) nodesToEvict(c *capacityWaiter) []*resources.Node {
	use := rp.capacity.pool(c.at.provider, c.at.pool)
	gone := use.leaving.Plus(use.going)
	if c.counted {
		gone = gone.Plus(c.need)
	}
	fits := func() bool {
		left := rp.capacity.free[c.at.provider]
		return overLimits(&c.pool.Limits, use.use.Minus(gone), c.need) == nil &&
			(left == nil || c.pool.IgnoreProviderQuota || overQuota(left.Plus(gone), c.need) == nil)
	}
	var going []*resources.Node
	for _, n := range rp.idle[c.at].nodes {
		if fits() {
			return going
		}
		if !n.Static && !slices.Contains(c.nodes, n.ID) {
			going, gone = append(going, n), gone.Plus(Amounts(n))
		}
	}
	if !fits() {
		return nil
	}
	return going
}
