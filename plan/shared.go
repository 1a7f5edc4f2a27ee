package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// Where others work in the same store (Observed.Shared), the planner keeps to these rules, which are Nodepool's:
//
//   - What others have claimed is left alone, whatever its state and age. It counts for quotas and tenants.
//   - Nodes and uploads of providers that nothing here has ever known are others'. They count for tenants only.
//   - A request is looked at for each pool that this process has registered and that has not declined it. The candidates
//     are the registered pools, whosever, that serve all its labels and have not declined it. A pool leaves the request
//     to others when the provider it prefers has a candidate elsewhere, when a candidate of another process has a better
//     priority and is not paused, or when it lacks a label and there are candidates. Request.Provider is a preference
//     here and not a must: the others take it for one.
//   - A pool that never can serve the request declines it by the id that it is registered under, and by those of the
//     processes that stand by for it. With the declines of all registered pools the request has failed; otherwise it is
//     anybody's again. After the store was away, what nobody has registered for waits for a moment: they all may have to
//     register again.
//   - A pending request that nobody has claimed was lost by whoever had taken it, and begins anew.
//   - A node in use that nobody has claimed has lost its user, unless that one had asked for it through npctl.
//   - A request that was answered is its requestor's to remove, unless it was made through npctl (see OwnRequestor).

// OwnRequestor begins the requestor of requests that were made through npctl, where the store is shared. Their nodes have
// to be taken within some time, and they are forgotten when they have failed; those of others are theirs to end. It is in
// the requestor since that is kept by everybody who rewrites a request.
const OwnRequestor = "npctl:"

func madeHere(r *resources.Request) bool { return strings.HasPrefix(r.Who, OwnRequestor) }

// withPeers gives each pool what it is registered as, unless its provider is not this process's now.
func (w *world) withPeers(peers []resources.Peer, frozen map[string]bool) {
	for i := range peers {
		p := &peers[i]
		if s := w.site[poolKey{p.Provider, p.Pool}]; s != nil && p.Own && !frozen[p.Provider] {
			s.peer = p
		}
	}
}

// serving reports whether this process serves requests at all.
func (c *computation) serving() bool {
	return slices.ContainsFunc(c.seen.Peers, func(p resources.Peer) bool { return p.Own && !c.seen.Frozen[p.Provider] })
}

// abandoned reports whether a request was taken by somebody who is gone.
func (c *computation) abandoned(r *resources.Request) bool {
	return c.seen.Shared && r != nil && r.State == resources.StatePending && !c.seen.Held[r.Key()] && !c.busy(r.Key())
}

// userGone reports whether whoever uses a node is gone. Users claim what they use; those who came through npctl have a lease
// at most.
func (c *computation) userGone(n *resources.Node) bool {
	return c.seen.Shared && !c.seen.Held[n.Key()] && !strings.HasPrefix(n.Requestor, OwnRequestor)
}

// forsaken reports whether a node belongs to a request that begins anew, which frees it.
func (c *computation) forsaken(n *resources.Node) bool {
	switch n.State {
	case resources.StateInit, resources.StateBuilding, resources.StateReady:
		return n.Request != "" && c.abandoned(c.world.requests[n.Request]) && c.serving()
	default:
		return false
	}
}

// inTransit reports whether somebody has a node that does not say so yet: Zuul takes a node first and calls it in use only
// when it begins to work on it.
func (c *computation) inTransit(n *resources.Node) bool {
	return n.Request != "" && c.seen.Claimed[n.Key()]
}

// strange handles nodes in states that only others bring about, and reports whether this was one.
func (c *computation) strange(n *resources.Node) bool {
	switch {
	case !c.seen.Shared:
		return false
	case n.State == "testing":
		c.count(n)
	default:
		return false
	}
	return true
}

// sharedRequest is what is done about a request that nobody else works on.
func (d *dispatch) sharedRequest(r *resources.Request) {
	answered := r.Answered()
	switch {
	case answered && !madeHere(r) || !answered && !d.serving():
	case d.opt.Destroy:
		if madeHere(r) {
			d.fail(r, ReasonDestroy)
		}
	case r.State == resources.StateFailed:
		d.forgetRequest(r)
	case r.State == resources.StateFulfilled:
		d.fulfilled(r)
	case d.abandoned(r):
		d.restart(r)
	case !r.Deadline.IsZero() && d.seen.Now.After(r.Deadline):
		d.fail(r, ReasonDeadline)
	case r.State == resources.StatePending:
		d.pending(r)
	default:
		d.offeredToAll(r)
	}
}

// restart frees what was taken for an abandoned request, of whatever provider, and lets it be asked for anew.
func (d *dispatch) restart(r *resources.Request) {
	s := restartStep(r, ReasonAbandoned, Fact{"pending since", clock(r.StateTime)})
	for _, n := range d.seen.Records.Nodes {
		if n.Request == r.ID && d.forsaken(n) && !d.busy(n.Key()) {
			s.Nodes = append(s.Nodes, n.ID)
		}
	}
	d.add(s)
}

func restartStep(r *resources.Request, reason Reason, why Fact) Step {
	return Step{ID: "restart request " + r.ID, Address: requestAddress(r.ID), Action: ActionUpdate, Thing: ThingRequest,
		Reason: reason, Label: strings.Join(r.Labels, ","), Record: r.Key(), Request: r.ID, Evidence: []Fact{why}}
}

// offeredToAll finds a place for a request that other processes may serve as well.
func (d *dispatch) offeredToAll(r *resources.Request) {
	shape := d.sharedShape(r)
	if d.hopeless[shape] {
		return
	}
	options, declined := d.sharedOptions(r)
	switch {
	case len(options) > 0 && options[0].full == nil && d.overTenantLimit(r, options[0]) == "":
		d.accept(r, options[0])
		return
	case d.seen.Returning && len(d.candidates(r)) == 0:
		d.waits(r, "no pool is registered that could serve it, and the store was away until a moment ago")
		return
	case len(declined) > 0 || d.declinedByAll(r.Declined):
		d.declineShared(r, declined)
	}
	if len(options) == 0 {
		return
	}
	if why := d.overTenantLimit(r, options[0]); why != "" {
		d.waits(r, why)
		return
	}
	d.hold(r, options)
	d.hopeless[shape] = shape != "" && !d.opt.Explain
}

// sharedShape is shapeOf where it also matters who has declined.
func (d *dispatch) sharedShape(r *resources.Request) string {
	again := *r
	again.Declined = nil
	shape := shapeOf(&again)
	for _, n := range r.Declined {
		if n.By == "" {
			return ""
		}
		shape += "\x01" + n.By
	}
	return shape
}

// sharedOptions lists our pools that could serve a request and leave it to nobody else, those with room first and then the
// best one, and the declines of those that never will.
func (d *dispatch) sharedOptions(r *resources.Request) (options []*option, declined []resources.Decline) {
	candidates := d.candidates(r)
	for _, s := range d.world.sites {
		if s.peer == nil || declinedBy(r.Declined, s.peer.ID) || leaves(s.peer, candidates) {
			continue
		}
		o, why := d.optionAt(r, s, nil)
		if why != "" {
			declined = append(declined, d.declineOf(s.at, "", why))
			continue
		}
		options = append(options, o)
	}
	slices.SortStableFunc(options, func(a, b *option) int { return cmp.Or(fullLast(a, b), better(a, b)) })
	return options, declined
}

func fullLast(a, b *option) int {
	switch {
	case a.full == nil && b.full != nil:
		return -1
	case a.full != nil && b.full == nil:
		return 1
	default:
		return 0
	}
}

// candidates lists the registered pools that may serve a request: of the provider that it prefers when there is one.
func (d *dispatch) candidates(r *resources.Request) (candidates []*resources.Peer) {
	for i := range d.seen.Peers {
		if p := &d.seen.Peers[i]; servesAll(p, r.Labels) && !declinedBy(r.Declined, p.ID) {
			candidates = append(candidates, p)
		}
	}
	prefers := func(p *resources.Peer) bool { return p.Provider == r.Provider }
	if slices.ContainsFunc(candidates, prefers) {
		candidates = slices.DeleteFunc(candidates, func(p *resources.Peer) bool { return !prefers(p) })
	}
	return candidates
}

// leaves reports whether a pool leaves a request to one of the candidates.
func leaves(own *resources.Peer, candidates []*resources.Peer) bool {
	if !slices.Contains(candidates, own) {
		return len(candidates) > 0
	}
	return slices.ContainsFunc(candidates, func(p *resources.Peer) bool { return !p.Own && !p.Paused && p.Priority < own.Priority })
}

// Concerns reports whether a request waits for a pool of ours, of a provider that mine accepts, to serve it: nobody else has
// claimed it, and the pool has its labels and has not declined it.
func Concerns(seen Observed, r *resources.Request, mine func(provider string) bool) bool {
	return !seen.Claimed[r.Key()] && slices.ContainsFunc(seen.Peers, func(p resources.Peer) bool {
		return p.Own && mine(p.Provider) && servesAll(&p, r.Labels) && !declinedBy(r.Declined, p.ID)
	})
}

func servesAll(p *resources.Peer, labels []string) bool {
	return !slices.ContainsFunc(labels, func(label string) bool { return !slices.Contains(p.Labels, label) })
}

func declinedBy(declined []resources.Decline, id string) bool {
	return slices.ContainsFunc(declined, func(n resources.Decline) bool { return n.By == id && id != "" })
}

// declineOf is the decline of one of our pools, or of a zone of it, which is nobody else's business.
func (d *dispatch) declineOf(at poolKey, zone, why string) resources.Decline {
	n := resources.Decline{Provider: at.provider, Pool: at.pool, Zone: zone, Reason: why}
	if s := d.world.site[at]; s != nil && s.peer != nil && zone == "" {
		n.By = s.peer.ID
	}
	return n
}

// declinedByAll reports whether every registered pool is among those that have declined.
func (d *dispatch) declinedByAll(declined []resources.Decline) bool {
	return !slices.ContainsFunc(d.seen.Peers, func(p resources.Peer) bool { return !declinedBy(declined, p.ID) })
}

// declineShared adds declines of ours to those that the request has.
func (d *dispatch) declineShared(r *resources.Request, more []resources.Decline) {
	all := slices.Concat(r.Declined, more)
	all = append(all, d.alike(all)...)
	s := Step{ID: "decline request " + r.ID, Address: requestAddress(r.ID), Action: ActionDecline, Thing: ThingRequest,
		Reason: ReasonDeclined, Label: strings.Join(r.Labels, ","), Record: r.Key(), Request: r.ID, Declined: all}
	told := more
	if d.declinedByAll(all) {
		s.ID, s.Reason, told = "fail request "+r.ID, ReasonAllDeclined, all
	}
	s.Evidence = declineFacts(told)
	d.add(s)
}

// alike declines for processes that stand by for pools that have declined: they would say the same.
func (d *dispatch) alike(declined []resources.Decline) (alike []resources.Decline) {
	for _, p := range d.seen.Peers {
		i := slices.IndexFunc(declined, func(n resources.Decline) bool {
			return n.By != "" && n.Zone == "" && n.Provider == p.Provider && n.Pool == p.Pool
		})
		if i >= 0 && !declinedBy(declined, p.ID) {
			alike = append(alike, resources.Decline{By: p.ID, Provider: p.Provider, Pool: p.Pool, Reason: declined[i].Reason})
		}
	}
	return alike
}

func declineFacts(declined []resources.Decline) (facts []Fact) {
	for _, no := range declined {
		name := strings.TrimSuffix(no.Provider+"/"+no.Pool+"/"+no.Zone, "/")
		fact := Fact{cmp.Or(strings.Trim(name, "/"), no.By), cmp.Or(no.Reason, "declined by another process")}
		if !slices.Contains(facts, fact) { // of a holder and those who stand by
			facts = append(facts, fact)
		}
	}
	return facts
}
