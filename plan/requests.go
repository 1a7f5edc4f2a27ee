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

// requestPlanner plans the steps of the node requests, the most urgent one first.
type requestPlanner struct {
	world              *world
	draft              *draft
	capacity           *capacity
	placement          *placement
	nodes              *nodePlanner
	tenants            *tenants
	idle               map[poolKey]*idleNodes
	reserved           map[poolKey]bool // pools with capacity that is reserved for a request that has waited long
	blockedByCapacity  map[poolKey]*capacityWaiter
	permanentlyBlocked map[string]bool  // shapes of requests without capacity in this plan: capacity only decreases
	poolHasWaiters     map[poolKey]bool // pools that requests wait for
}

// planRequests returns the pools that requests wait for.
func planRequests(w *world, d *draft, use *capacity, place *placement, nodes *nodePlanner) (awaited []resources.Placement) {
	if w.opt.RefreshOnly || len(w.seen.Records.Requests) == 0 {
		return nil
	}
	rp := &requestPlanner{world: w, draft: d, capacity: use, placement: place, nodes: nodes, tenants: newTenants(w), idle: idleNodesOf(w, d),
		reserved: map[poolKey]bool{}, blockedByCapacity: map[poolKey]*capacityWaiter{}, permanentlyBlocked: map[string]bool{},
		poolHasWaiters: map[poolKey]bool{}}
	byUrgency := slices.SortedFunc(slices.Values(w.seen.Records.Requests), func(a, b *resources.Request) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.RelativePriority, b.RelativePriority), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range byUrgency {
		own := !w.seen.Shared || strings.HasPrefix(r.Requestor, OwnRequestor)
		switch {
		case w.busy(r.Key()) || r.IsDone() && !own || !r.IsDone() && !w.serving():
		case r.State == resources.StateFailed: // the reason of the failure stays, even with Options.Destroy
			if w.seen.Now.Sub(r.StateTime) > failedRetention {
				d.add(Step{ID: "forget request " + r.ID, Address: requestAddress(r.ID), Kind: KindForgetRequest,
					Reason: ReasonFailed, Record: r.Key(), Request: r.ID})
			}
		case w.opt.Destroy:
			if own {
				rp.fail(r, ReasonDestroy)
			}
		case w.unneeded[r.ID] != nil && r.State == resources.StateRequested:
			rp.fail(r, ReasonIdle, Fact{"because", w.unneeded[r.ID].Why})
		case w.unneeded[r.ID] != nil && r.State == resources.StateFulfilled: // its node is returned
		case r.State == resources.StateFulfilled:
			if w.seen.Now.Sub(r.StateTime) > takeTimeout {
				rp.fail(r, ReasonNeverTaken, Fact{"limit", takeTimeout.String()})
			}
		case w.abandoned(r):
			rp.restart(r)
		case !r.Deadline.IsZero() && w.seen.Now.After(r.Deadline):
			rp.fail(r, ReasonDeadline)
		case r.State == resources.StatePending:
			rp.pending(r)
		default:
			rp.requested(r)
		}
	}
	rp.evictIdleNodes()
	for _, s := range w.pools {
		if rp.poolHasWaiters[s.at] {
			awaited = append(awaited, resources.Placement{Provider: s.at.provider, Pool: s.at.pool})
		}
	}
	return awaited
}

func requestAddress(id string) Address { return Address("request." + id) }

// requested finds a placement for a request, declines it, or makes it wait.
func (rp *requestPlanner) requested(r *resources.Request) {
	shape := shapeOf(r)
	if rp.permanentlyBlocked[shape] {
		return
	}
	options, declined := rp.options(r)
	hopeless := len(options) == 0
	if rp.world.seen.Shared { // others learn of declines at once, and may serve the request
		hopeless = len(declined) > 0 || rp.declinedByAll(r.Declined)
	}
	var overTenant *blocker
	if len(options) > 0 {
		overTenant = rp.tenants.overTenantLimit(r, options[0])
	}
	switch {
	case len(options) > 0 && options[0].blocker == nil && overTenant == nil:
		o := options[0]
		rp.accept(r, o, resources.Placement{Provider: o.at.provider, Pool: o.at.pool, Zone: o.zone}, nil)
		if r.Tenant != "" {
			rp.tenants.use[r.Tenant] = rp.tenants.use[r.Tenant].Plus(rp.tenants.requestAmounts(o))
		}
		return
	case rp.world.seen.StoreReconnected && len(rp.candidates(r)) == 0:
		rp.explainWait(r, &blocker{text: "no registered pool can serve it, and the store recovered just now"})
		return
	case hopeless:
		rp.decline(r, declined)
	}
	switch {
	case overTenant != nil:
		rp.explainWait(r, overTenant)
	case len(options) > 0:
		rp.waitForCapacity(r, options)
		rp.permanentlyBlocked[shape] = shape != "" && !rp.world.opt.Explain
	}
}

// shapeOf returns the same string for requests that the same pools can serve, or "" for a request with declines of zones.
func shapeOf(r *resources.Request) string {
	shape := strings.Join(r.Labels, "\x00") + "\x01" + r.Provider + "\x01" + strconv.FormatBool(r.Fresh) + strconv.FormatBool(r.Requestor == MinReadyRequestor)
	for _, n := range r.Declined {
		if n.PoolID == "" {
			return ""
		}
		shape += "\x01" + n.PoolID
	}
	return shape
}

// accept assigns ready nodes to a request and launches the missing ones. have lists the nodes of a request that the pool has
// accepted before.
func (rp *requestPlanner) accept(r *resources.Request, o *option, at resources.Placement, have []string) {
	nodes := slices.Clone(o.nodes)
	for i := range have {
		nodes[i] = cmp.Or(have[i], nodes[i])
	}
	var needs []string
	if have == nil || !slices.Equal(nodes, have) {
		s := serveStep(r, at, nodes, ReasonRequestWaiting)
		if id := rp.draft.add(s); have == nil {
			needs = []string{id}
		}
	}
	rp.allocate(o)
	if have == nil && slices.ContainsFunc(rp.world.formerNodes[r.ID], func(n *resources.Node) bool { return n.Provider == o.at.provider && n.Pool == o.at.pool }) {
		return // they become nodes of the request again; the next plan launches the missing ones
	}
	for i := range r.Labels {
		if nodes[i] == "" {
			rp.launchFor(r, o, i, needs)
		}
	}
}

// FulfillStep returns the step that fulfills a pending request with its nodes, which are ready.
func FulfillStep(r *resources.Request, nodes []string) Step {
	return serveStep(r, r.Placement, nodes, ReasonNodesReady)
}

func serveStep(r *resources.Request, at resources.Placement, nodes []string, reason Reason) Step {
	return Step{ID: "serve request " + r.ID, Address: requestAddress(r.ID), Kind: KindServe, Reason: reason,
		Provider: at.Provider, Pool: at.Pool, Zone: at.Zone, Label: strings.Join(r.Labels, ","), Nodes: nodes, Record: r.Key(), Request: r.ID,
		EventID: r.EventID}
}

func (rp *requestPlanner) launchFor(r *resources.Request, o *option, i int, needs []string) {
	at, label := o.offers[i], r.Labels[i]
	s := Step{ID: fmt.Sprintf("launch request %s #%d", r.ID, i+1), Address: OfferAddress(o.at.provider, o.at.pool, label),
		Kind: KindLaunch, Reason: ReasonRequestWaiting, Provider: o.at.provider, Pool: o.at.pool, Label: label,
		Zone: o.zone, Image: at.offer.Image.Name, Request: r.ID, Source: at.offer.Source, Needs: needs,
		Estimate: rp.world.estimate("launch/" + o.at.provider + "/" + label), Evidence: []Fact{{"request", r.ID}}}
	rp.placement.imageOf(&s, at)
	planLaunch(rp.world, &s, at, rp.placement.plannedUploads)
	rp.draft.add(s)
}

// pending continues a request that a pool has accepted: it is fulfilled once all its nodes are ready.
func (rp *requestPlanner) pending(r *resources.Request) {
	at := poolKey{r.Placement.Provider, r.Placement.Pool}
	for _, n := range rp.world.requestNodes[r.ID] {
		if n.State == resources.StateFailed && n.Provider == at.provider && n.Pool == at.pool {
			rp.decline(r, []resources.Decline{rp.declineOf(at, r.Placement.Zone, "a node could not be launched: "+n.Error)})
			return
		}
	}
	nodes, ready := rp.nodesOf(r)
	if ready == len(r.Labels) {
		rp.draft.add(FulfillStep(r, nodes))
		return
	}
	if why := rp.noProgress(r, nodes); why != nil {
		if rp.reassign(r, why) {
			return
		}
		rp.explainWait(r, why)
	}
	if !slices.Contains(nodes, "") {
		return // the missing nodes are being launched
	}
	var o *option
	why := "the pool is no longer configured"
	if s := rp.world.poolByKey[at]; s != nil {
		o, why = rp.optionAt(r, s, nodes)
	} else if rp.world.providers[at.provider] == nil {
		why = "the provider is no longer configured"
	}
	switch {
	case why != "":
		rp.decline(r, []resources.Decline{rp.declineOf(at, "", why)})
	case o.blocker != nil:
		rp.poolHasWaiters[at] = true
		rp.explainWait(r, o.blocker)
		rp.noteCapacityWaiter(r, o)
		rp.reserve(r, o)
	default:
		rp.accept(r, o, r.Placement, nodes)
	}
}

// nodesOf matches the nodes of a request with its labels. A node that is being launched counts as present and not as
// ready.
func (rp *requestPlanner) nodesOf(r *resources.Request) (nodes []string, ready int) {
	nodes = make([]string, len(r.Labels))
	staying := slices.DeleteFunc(slices.Clone(rp.world.requestNodes[r.ID]), func(n *resources.Node) bool { return rp.draft.deletedBy[n.Key()] != "" })
	for i, n := range MatchLabels(r.Labels, staying) {
		if n == nil {
			continue
		}
		nodes[i] = n.ID
		if n.State == resources.StateReady && (!rp.world.seen.Shared || !rp.world.busy(n.Key())) { // the requestor will claim it
			ready++
		}
	}
	return nodes, ready
}

// MatchLabels returns for each label of a request one of the request's nodes, or nil. It leaves out nodes that failed or are being
// deleted.
func MatchLabels(labels []string, nodes []*resources.Node) []*resources.Node {
	matched := make([]*resources.Node, len(labels))
	for _, n := range nodes {
		if n.State == resources.StateFailed || n.State == resources.StateAborted || n.State == resources.StateDeleting {
			continue
		}
		for i, label := range labels {
			if matched[i] == nil && slices.Contains(n.Labels, label) {
				matched[i] = n
				break
			}
		}
	}
	return matched
}

// decline records that further pools will not serve the request. If no other pool is left, the request fails with all
// reasons.
func (rp *requestPlanner) decline(r *resources.Request, more []resources.Decline) {
	all := slices.Concat(r.Declined, more)
	all = append(all, rp.standbyDeclines(all)...)
	reasons, isLast := more, rp.declinedByAll(all)
	if !rp.world.seen.Shared {
		again := *r
		again.Declined = all
		options, everywhere := rp.options(&again)
		if isLast = len(options) == 0; isLast {
			all = everywhere
		}
		reasons = all
	}
	s := Step{ID: "decline request " + r.ID, Address: requestAddress(r.ID), Kind: KindDecline,
		Reason: ReasonDeclined, Label: strings.Join(r.Labels, ","), Record: r.Key(), Request: r.ID, Declined: all}
	if isLast {
		s.ID, s.Reason, reasons = "fail request "+r.ID, ReasonAllDeclined, all
	}
	s.Evidence = declineFacts(reasons)
	if len(all) == 0 {
		s.Evidence = []Fact{{"pools", "none offers " + strings.Join(r.Labels, " and ")}}
	}
	rp.draft.add(s)
}

func (rp *requestPlanner) fail(r *resources.Request, reason Reason, evidence ...Fact) {
	rp.draft.add(Step{ID: "fail request " + r.ID, Address: requestAddress(r.ID), Kind: KindDecline, Reason: reason,
		Label: strings.Join(r.Labels, ","), Record: r.Key(), Request: r.ID, Declined: r.Declined, Evidence: evidence})
}

// explainWait adds a note why a request is not served yet, if Options.Explain is set.
func (rp *requestPlanner) explainWait(r *resources.Request, why *blocker) {
	if rp.world.opt.Explain {
		rp.draft.note(Info, "waiting", requestAddress(r.ID), resources.Source{}, "%s", why)
	}
}

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
