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
	// reserveAfter is how long a request without room waits before smaller ones behind it may no longer take what it needs.
	reserveAfter = 2 * time.Minute
	// takeWithin is how long a fulfilled request waits for its requestor to take the nodes.
	takeWithin = 10 * time.Minute
	// failedKept is how long a failed request is kept to be looked at.
	failedKept = time.Hour
)

// requests serves the node requests, the most urgent one first.
func (c *computation) requests() {
	if c.opt.RefreshOnly || len(c.seen.Records.Requests) == 0 {
		return
	}
	d := &dispatch{computation: c, idle: c.idleNodes(), tenants: c.tenantUse(), kept: map[string]bool{}, cramped: map[poolKey]*cramped{},
		hopeless: map[string]bool{}}
	for _, r := range byUrgency(c.seen.Records.Requests) {
		switch {
		case c.busy(r.Key()):
		case c.seen.Shared:
			d.sharedRequest(r)
		case r.State == resources.StateFailed: // why it failed stays, also when everything is destroyed
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
	d.makeRoom()
}

// dispatch is the state of one round of assignments.
type dispatch struct {
	*computation
	idle     map[poolKey]*stock
	tenants  map[string]resources.Amounts
	kept     map[string]bool // tenants of which a request has waited long
	cramped  map[poolKey]*cramped
	hopeless map[string]bool // shapes of requests that there is no room for in this round: room only gets less
}

func byUrgency(requests []*resources.Request) []*resources.Request {
	sorted := slices.Clone(requests)
	slices.SortFunc(sorted, func(a, b *resources.Request) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Relative, b.Relative), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return sorted
}

func requestAddress(id string) Address { return Address("request." + id) }

// requested finds a place for a request, or says why there can be none.
func (d *dispatch) requested(r *resources.Request) {
	shape := shapeOf(r)
	if d.hopeless[shape] {
		return
	}
	options, declined := d.options(r)
	if len(options) == 0 {
		d.decline(r, declined)
		return
	}
	if why := d.overTenantLimit(r, options[0]); why != "" {
		d.waits(r, why)
		return
	}
	for _, o := range options {
		if o.full == nil {
			d.accept(r, o)
			return
		}
	}
	d.hold(r, options)
	d.hopeless[shape] = shape != "" && !d.opt.Explain
}

// shapeOf is the same for requests that can be served in the same places; empty when there may be no other such request.
func shapeOf(r *resources.Request) string {
	if len(r.Declined) > 0 {
		return ""
	}
	return strings.Join(r.Labels, "\x00") + "\x01" + r.Provider + "\x01" + strconv.FormatBool(r.Fresh)
}

// accept takes the request on: ready nodes are its own at once, and the others are launched for it.
func (d *dispatch) accept(r *resources.Request, o *option) {
	s := d.serveStep(r, o.place(), o.nodes)
	s.Reason = ReasonRequestWaiting
	id := d.add(s)
	d.take(o)
	d.charge(r, o)
	for i := range r.Labels {
		if o.nodes[i] == "" {
			d.launchFor(r, o, i, id)
		}
	}
}

func (d *dispatch) serveStep(r *resources.Request, at resources.Place, nodes []string) Step {
	return Step{ID: "serve request " + r.ID, Address: requestAddress(r.ID), Action: ActionServe, Thing: ThingRequest, Provider: at.Provider,
		Pool: at.Pool, Zone: at.Zone, Label: strings.Join(r.Labels, ","), Nodes: nodes, Record: r.Key(), Request: r.ID}
}

func (d *dispatch) launchFor(r *resources.Request, o *option, i int, needs ...string) {
	at, label := o.places[i], r.Labels[i]
	s := Step{ID: fmt.Sprintf("launch request %s #%d", r.ID, i+1), Address: OfferAddress(o.at.provider, o.at.pool, label),
		Action: ActionLaunch, Thing: ThingNode, Reason: ReasonRequestWaiting, Provider: o.at.provider, Pool: o.at.pool, Label: label,
		Zone: o.zone, Image: at.offer.Image.Name, Request: r.ID, Source: at.offer.Source, Needs: needs,
		Estimate: d.launchEstimate(o.at.provider, label), Evidence: []Fact{{"request", r.ID}}}
	d.imageOf(&s, at)
	d.planLaunch(&s, at)
	d.add(s)
}

// pending sees a request through that a pool has taken: it is fulfilled once all its nodes are ready.
func (d *dispatch) pending(r *resources.Request) {
	at := poolKey{r.Place.Provider, r.Place.Pool}
	if failed := d.failedNode(r); failed != nil {
		d.declinedNow(r, d.declineOf(at, r.Place.Zone, "a node could not be launched: "+failed.Error))
		return
	}
	nodes, ready := d.nodesOf(r)
	if ready == len(r.Labels) {
		s := d.serveStep(r, r.Place, nodes)
		s.Reason = ReasonNodesReady
		d.add(s)
		return
	}
	if why := d.stuck(r, nodes); why != "" {
		if d.moveOn(r, why) {
			return
		}
		d.waits(r, why)
	}
	if !slices.Contains(nodes, "") {
		return // the rest is on its way
	}
	o, why := d.optionFor(r, at, nodes)
	switch {
	case why != "":
		d.declinedNow(r, d.declineOf(at, "", why))
	case o.full != nil:
		d.crowded[at] = true
		d.waits(r, o.full.String())
		d.cramp(r, o)
		d.reserve(r, o)
	default:
		d.gather(r, o, nodes)
	}
}

// optionFor is optionAt for a pool that may be configured no more.
func (d *dispatch) optionFor(r *resources.Request, at poolKey, have []string) (*option, string) {
	switch s := d.world.site[at]; {
	case s != nil:
		return d.optionAt(r, s, have)
	case d.world.providers[at.provider] == nil:
		return nil, "the provider is no longer configured"
	default:
		return nil, "the pool is no longer configured"
	}
}

// gather gives a pending request what it still lacks.
func (d *dispatch) gather(r *resources.Request, o *option, have []string) {
	more := slices.Clone(o.nodes)
	for i := range have {
		if have[i] != "" {
			more[i] = have[i]
		}
	}
	if !slices.Equal(more, have) {
		s := d.serveStep(r, r.Place, more)
		s.Reason = ReasonRequestWaiting
		d.add(s)
	}
	d.take(o)
	for i := range r.Labels {
		if more[i] == "" {
			d.launchFor(r, o, i)
		}
	}
}

// nodesOf matches a request's nodes with its labels. A node that is on its way counts as there and not as ready.
func (d *dispatch) nodesOf(r *resources.Request) (nodes []string, ready int) {
	nodes = make([]string, len(r.Labels))
	for _, n := range d.world.owned[r.ID] {
		if d.doomed[n.Key()] != "" || n.State == resources.StateFailed || n.State == resources.StateAborted || n.State == resources.StateDeleting {
			continue
		}
		for i, label := range r.Labels {
			if nodes[i] == "" && slices.Contains(n.Labels, label) {
				nodes[i] = n.ID
				if n.State == resources.StateReady && (!d.seen.Shared || !d.busy(n.Key())) { // its requestor is about to claim it
					ready++
				}
				break
			}
		}
	}
	return nodes, ready
}

func (d *dispatch) failedNode(r *resources.Request) *resources.Node {
	for _, n := range d.world.owned[r.ID] {
		if n.State == resources.StateFailed && n.Provider == r.Place.Provider && n.Pool == r.Place.Pool {
			return n
		}
	}
	return nil
}

// fulfilled gives up a request whose requestor never came for the nodes.
func (d *dispatch) fulfilled(r *resources.Request) {
	if d.seen.Now.Sub(r.StateTime) > takeWithin {
		d.fail(r, ReasonNeverTaken, Fact{"limit", takeWithin.String()})
	}
}

// declinedNow gives up a request that a pool had taken.
func (d *dispatch) declinedNow(r *resources.Request, no resources.Decline) {
	if d.seen.Shared {
		d.declineShared(r, []resources.Decline{no})
		return
	}
	d.decline(r, append(slices.Clone(r.Declined), no))
}

// decline notes that pools will not serve the request. When no other is left it fails with all their reasons.
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
	if c.seen.Now.Sub(r.StateTime) > failedKept {
		c.add(Step{ID: "forget request " + r.ID, Address: requestAddress(r.ID), Action: ActionForget, Thing: ThingRequest,
			Reason: ReasonFailed, Record: r.Key(), Request: r.ID})
	}
}

// waiting lists the pools that requests wait for.
func (c *computation) waiting() (pools []resources.Place) {
	for _, s := range c.world.sites {
		if c.crowded[s.at] {
			pools = append(pools, resources.Place{Provider: s.at.provider, Pool: s.at.pool})
		}
	}
	return pools
}

// waits explains, to who asks, why a request is not served yet.
func (d *dispatch) waits(r *resources.Request, why string) {
	if d.opt.Explain {
		d.note(Info, "waiting", requestAddress(r.ID), resources.Source{}, "%s", why)
	}
}
