package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

const (
	// reserveAfter is how long a request waits for capacity before smaller ones behind it may no longer take released
	// capacity.
	reserveAfter = 2 * time.Minute
	// takeTimeout is how long a fulfilled request waits for its requestor to take the nodes.
	takeTimeout = 10 * time.Minute
	// failedRetention is how long a failed request is kept for inspection.
	failedRetention = time.Hour
)

// requests plans the steps of the node requests, the most urgent one first.
func (c *computation) requests() {
	if c.opt.RefreshOnly || len(c.seen.Records.Requests) == 0 {
		return
	}
	d := &dispatch{computation: c, idle: c.idleNodes(), tenants: c.tenantUse(), reservedTenants: map[string]bool{}, blockedByCapacity: map[poolKey]*capacityWaiter{},
		permanentlyBlocked: map[string]bool{}}
	for _, r := range byUrgency(c.seen.Records.Requests) {
		switch {
		case c.busy(r.Key()):
		case c.seen.Shared:
			d.sharedRequest(r)
		case r.State == resources.StateFailed: // the reason of the failure stays, even with Options.Destroy
			c.forgetRequest(r)
		case c.opt.Destroy:
			d.fail(r, ReasonDestroy)
		case r.State == resources.StateFulfilled:
			d.fulfilled(r)
		case !r.Deadline.IsZero() && c.seen.Now.After(r.Deadline):
			d.fail(r, ReasonDeadline)
		case r.State == resources.StatePending:
			d.pending(r)
		default:
			d.requested(r)
		}
	}
	d.evictIdleNodes()
}

// dispatch is the state of one round of assignments.
type dispatch struct {
	*computation
	idle               map[poolKey]*idleNodes
	tenants            map[string]resources.ResourceAmounts
	reservedTenants    map[string]bool // tenants with a request that has waited long
	blockedByCapacity  map[poolKey]*capacityWaiter
	permanentlyBlocked map[string]bool // shapes of requests without capacity in this round: capacity only decreases
}

func byUrgency(requests []*resources.Request) []*resources.Request {
	sorted := slices.Clone(requests)
	slices.SortFunc(sorted, func(a, b *resources.Request) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.RelativePriority, b.RelativePriority), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return sorted
}

func requestAddress(id string) Address { return Address("request." + id) }

// requested finds a placement for a request, declines it, or makes it wait.
func (d *dispatch) requested(r *resources.Request) {
	shape := shapeOf(r)
	if d.permanentlyBlocked[shape] {
		return
	}
	options, declined := d.options(r)
	if len(options) == 0 {
		d.decline(r, declined)
		return
	}
	if why := d.overTenantLimit(r, options[0]); why != "" {
		d.explainWait(r, why)
		return
	}
	for _, o := range options {
		if o.blocker == nil {
			d.accept(r, o)
			return
		}
	}
	d.waitForRoom(r, options)
	d.permanentlyBlocked[shape] = shape != "" && !d.opt.Explain
}

// shapeOf returns the same string for requests that the same pools can serve, or "" for a request with declines.
func shapeOf(r *resources.Request) string {
	if len(r.Declined) > 0 {
		return ""
	}
	return strings.Join(r.Labels, "\x00") + "\x01" + r.Provider + "\x01" + strconv.FormatBool(r.Fresh)
}

// accept accepts the request: it assigns ready nodes at once and launches the missing ones.
func (d *dispatch) accept(r *resources.Request, o *option) {
	s := d.serveStep(r, o.place(), o.nodes)
	s.Reason = ReasonRequestWaiting
	id := d.add(s)
	d.allocate(o)
	d.charge(r, o)
	for i := range r.Labels {
		if o.nodes[i] == "" {
			d.launchFor(r, o, i, id)
		}
	}
}

func (d *dispatch) serveStep(r *resources.Request, at resources.Placement, nodes []string) Step {
	return Step{ID: "serve request " + r.ID, Address: requestAddress(r.ID), Action: ActionServe, Thing: ThingRequest, Provider: at.Provider,
		Pool: at.Pool, Zone: at.Zone, Label: strings.Join(r.Labels, ","), Nodes: nodes, Record: r.Key(), Request: r.ID}
}

func (d *dispatch) launchFor(r *resources.Request, o *option, i int, needs ...string) {
	at, label := o.offers[i], r.Labels[i]
	s := Step{ID: fmt.Sprintf("launch request %s #%d", r.ID, i+1), Address: OfferAddress(o.at.provider, o.at.pool, label),
		Action: ActionLaunch, Thing: ThingNode, Reason: ReasonRequestWaiting, Provider: o.at.provider, Pool: o.at.pool, Label: label,
		Zone: o.zone, Image: at.offer.Image.Name, Request: r.ID, Source: at.offer.Source, Needs: needs,
		Estimate: d.launchEstimate(o.at.provider, label), Evidence: []Fact{{"request", r.ID}}}
	d.imageOf(&s, at)
	d.planLaunch(&s, at)
	d.add(s)
}

// pending continues a request that a pool has accepted: it is fulfilled once all its nodes are ready.
func (d *dispatch) pending(r *resources.Request) {
	at := poolKey{r.Placement.Provider, r.Placement.Pool}
	if failed := d.failedNode(r); failed != nil {
		d.declinedNow(r, d.declineOf(at, r.Placement.Zone, "a node could not be launched: "+failed.Error))
		return
	}
	nodes, ready := d.nodesOf(r)
	if ready == len(r.Labels) {
		s := d.serveStep(r, r.Placement, nodes)
		s.Reason = ReasonNodesReady
		d.add(s)
		return
	}
	if why := d.reassignReason(r, nodes); why != "" {
		if d.reassign(r, why) {
			return
		}
		d.explainWait(r, why)
	}
	if !slices.Contains(nodes, "") {
		return // the missing nodes are being launched
	}
	o, why := d.optionFor(r, at, nodes)
	switch {
	case why != "":
		d.declinedNow(r, d.declineOf(at, "", why))
	case o.blocker != nil:
		d.poolHasWaiters[at] = true
		d.explainWait(r, o.blocker.String())
		d.noteCapacityWaiter(r, o)
		d.reserve(r, o)
	default:
		d.allocateMissing(r, o, nodes)
	}
}

// optionFor is like optionAt, for a pool that may no longer be configured.
func (d *dispatch) optionFor(r *resources.Request, at poolKey, have []string) (*option, string) {
	switch s := d.world.poolByKey[at]; {
	case s != nil:
		return d.optionAt(r, s, have)
	case d.world.providers[at.provider] == nil:
		return nil, "the provider is no longer configured"
	default:
		return nil, "the pool is no longer configured"
	}
}

// allocateMissing assigns or launches the nodes that a pending request still lacks.
func (d *dispatch) allocateMissing(r *resources.Request, o *option, have []string) {
	more := slices.Clone(o.nodes)
	for i := range have {
		if have[i] != "" {
			more[i] = have[i]
		}
	}
	if !slices.Equal(more, have) {
		s := d.serveStep(r, r.Placement, more)
		s.Reason = ReasonRequestWaiting
		d.add(s)
	}
	d.allocate(o)
	for i := range r.Labels {
		if more[i] == "" {
			d.launchFor(r, o, i)
		}
	}
}

// nodesOf matches the nodes of a request with its labels. A node that is being launched counts as present and not as
// ready.
func (d *dispatch) nodesOf(r *resources.Request) (nodes []string, ready int) {
	nodes = make([]string, len(r.Labels))
	for _, n := range d.world.requestNodes[r.ID] {
		if d.deletedBy[n.Key()] != "" || n.State == resources.StateFailed || n.State == resources.StateAborted || n.State == resources.StateDeleting {
			continue
		}
		for i, label := range r.Labels {
			if nodes[i] == "" && slices.Contains(n.Labels, label) {
				nodes[i] = n.ID
				if n.State == resources.StateReady && (!d.seen.Shared || !d.busy(n.Key())) { // the requestor will claim it
					ready++
				}
				break
			}
		}
	}
	return nodes, ready
}

func (d *dispatch) failedNode(r *resources.Request) *resources.Node {
	for _, n := range d.world.requestNodes[r.ID] {
		if n.State == resources.StateFailed && n.Provider == r.Placement.Provider && n.Pool == r.Placement.Pool {
			return n
		}
	}
	return nil
}

// fulfilled fails a fulfilled request if its requestor has not taken the nodes within takeTimeout.
func (d *dispatch) fulfilled(r *resources.Request) {
	if d.seen.Now.Sub(r.StateTime) > takeTimeout {
		d.fail(r, ReasonNeverTaken, Fact{"limit", takeTimeout.String()})
	}
}

// declinedNow declines a request that a pool had accepted.
func (d *dispatch) declinedNow(r *resources.Request, no resources.Decline) {
	if d.seen.Shared {
		d.declineShared(r, []resources.Decline{no})
		return
	}
	d.decline(r, append(slices.Clone(r.Declined), no))
}

// decline records that pools will not serve the request. If no other pool is left, the request fails with all
// reasons.
func (d *dispatch) decline(r *resources.Request, declined []resources.Decline) {
	s := Step{ID: "decline request " + r.ID, Address: requestAddress(r.ID), Action: ActionDecline, Thing: ThingRequest,
		Reason: ReasonDeclined, Label: strings.Join(r.Labels, ","), Record: r.Key(), Request: r.ID, Declined: declined}
	again := *r
	again.Declined = declined
	options, all := d.options(&again)
	if len(options) == 0 {
		s.ID, s.Reason, s.Declined = "fail request "+r.ID, ReasonAllDeclined, all
	}
	s.Evidence = declineFacts(s.Declined)
	if len(s.Declined) == 0 {
		s.Evidence = []Fact{{"pools", "none offers " + strings.Join(r.Labels, " and ")}}
	}
	d.add(s)
}

func (d *dispatch) fail(r *resources.Request, reason Reason, evidence ...Fact) {
	d.add(Step{ID: "fail request " + r.ID, Address: requestAddress(r.ID), Action: ActionDecline, Thing: ThingRequest, Reason: reason,
		Label: strings.Join(r.Labels, ","), Record: r.Key(), Request: r.ID, Declined: r.Declined, Evidence: evidence})
}

func (c *computation) forgetRequest(r *resources.Request) {
	if c.seen.Now.Sub(r.StateTime) > failedRetention {
		c.add(Step{ID: "forget request " + r.ID, Address: requestAddress(r.ID), Action: ActionForget, Thing: ThingRequest,
			Reason: ReasonFailed, Record: r.Key(), Request: r.ID})
	}
}

// waiting lists the pools that requests wait for.
func (c *computation) waiting() (pools []resources.Placement) {
	for _, s := range c.world.pools {
		if c.poolHasWaiters[s.at] {
			pools = append(pools, resources.Placement{Provider: s.at.provider, Pool: s.at.pool})
		}
	}
	return pools
}

// explainWait adds a note why a request is not served yet, if Options.Explain is set.
func (d *dispatch) explainWait(r *resources.Request, why string) {
	if d.opt.Explain {
		d.note(Info, "waiting", requestAddress(r.ID), resources.Source{}, "%s", why)
	}
}
