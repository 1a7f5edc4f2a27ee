package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// In a shared store (Observed.Shared) the planner follows these rules, which are those of Nodepool:
//
//   - It skips records that other processes have claimed, whatever their state and age. They count for quotas and
//     tenant limits.
//   - Nodes and uploads of providers that are neither configured nor recorded here belong to other processes. They
//     count for tenant limits only.
//   - It checks a request against each pool that this process has registered and that has not declined it. The
//     candidates are the registered pools of all processes that offer all its labels and have not declined it. A pool
//     leaves the request to the candidates if the preferred provider of the request has candidates elsewhere, if a
//     candidate of another process has a better priority and is not paused, or if the pool lacks a label and there
//     are candidates. Request.Provider is a preference here and not a requirement, as it is for the other programs.
//   - A pool that can never serve the request declines it with its own registered ID and with those of its standbys.
//     A request that all registered pools have declined fails; until then it is open to all processes again. Shortly
//     after a store outage, a request without candidates waits, because all processes may have to register again.
//   - A pending request without a claim has lost the process that accepted it, and is restarted.
//   - A node in use without a claim has lost its user, unless it was requested through npctl.
//   - The requestor removes a fulfilled or failed request, unless it was made through npctl (see OwnRequestor).
//
// A local store is a shared store with one member. Therefore the same code plans its requests, with three differences: all
// configured pools are members; Request.Provider is a requirement; and declines are recorded when no pool is left, because
// nobody else needs them before.

// OwnRequestor is the prefix of the requestor of requests that were made through npctl in a shared store. Their nodes
// must be taken within a limited time, and npctl removes them after they fail; other requests are ended by their
// requestors. The prefix is part of the requestor because every program preserves the requestor when it rewrites a
// request.
const OwnRequestor = "npctl:"

// MinReadyRequestor is the requestor of the requests with which Nodepool launches nodes for min_ready. A pool that would have to wait,
// or to remove a ready node, declines such a request, as Nodepool does.
const MinReadyRequestor = "NodePool:min-ready"

// serving reports whether this process has a registered pool in a provider that is not frozen. In a local store it always
// serves.
func (w *world) serving() bool {
	return !w.seen.Shared || slices.ContainsFunc(w.seen.RegisteredPools, func(p resources.RegisteredPool) bool { return p.Own && !w.seen.Frozen[p.Provider] })
}

// abandoned reports whether a pending request has lost the process that accepted it.
func (w *world) abandoned(r *resources.Request) bool {
	return w.seen.Shared && r != nil && r.State == resources.StatePending && !w.seen.OwnClaims[r.Key()] && !w.busy(r.Key())
}

// userGone reports whether the user of a node is gone. Users claim the nodes that they use; users that came through
// npctl have a lease at most.
func (w *world) userGone(n *resources.Node) bool {
	return w.seen.Shared && !w.seen.OwnClaims[n.Key()] && !strings.HasPrefix(n.Requestor, OwnRequestor)
}

// orphanedByRequest reports whether a node belongs to an abandoned request. The restart of the request frees it.
func (w *world) orphanedByRequest(n *resources.Node) bool {
	switch n.State {
	case resources.StateInit, resources.StateBuilding, resources.StateReady:
		return n.Request != "" && w.abandoned(w.requests[n.Request]) && w.serving()
	default:
		return false
	}
}

// inTransit reports whether a requestor has taken a node that is not in state in-use yet: Zuul locks a node first and
// sets the state when it starts to work on it.
func (w *world) inTransit(n *resources.Node) bool {
	return n.Request != "" && w.seen.ForeignClaims[n.Key()]
}

// restart frees the nodes of an abandoned request, in all providers, and opens the request to all pools again.
func (rp *requestPlanner) restart(r *resources.Request) {
	s := restartStep(r, ReasonAbandoned, Fact{"pending since", clock(r.StateTime)})
	for _, n := range rp.world.seen.Records.Nodes {
		if n.Request == r.ID && rp.world.orphanedByRequest(n) && !rp.world.busy(n.Key()) {
			s.Nodes = append(s.Nodes, n.ID)
		}
	}
	rp.draft.add(s)
}

func restartStep(r *resources.Request, reason Reason, why Fact) Step {
	return Step{ID: "restart request " + r.ID, Address: requestAddress(r.ID), Kind: KindRestartRequest,
		Reason: reason, Label: strings.Join(r.Labels, ","), Record: r.Key(), Request: r.ID, Evidence: []Fact{why}}
}

// candidates lists the registered pools that may serve a request, only those of the preferred provider if it has any.
func (rp *requestPlanner) candidates(r *resources.Request) (candidates []*resources.RegisteredPool) {
	for i := range rp.world.seen.RegisteredPools {
		if p := &rp.world.seen.RegisteredPools[i]; servesAll(p, r.Labels) && !declinedBy(r.Declined, p.ID) {
			candidates = append(candidates, p)
		}
	}
	prefers := func(p *resources.RegisteredPool) bool { return p.Provider == r.Provider }
	if slices.ContainsFunc(candidates, prefers) {
		candidates = slices.DeleteFunc(candidates, func(p *resources.RegisteredPool) bool { return !prefers(p) })
	}
	return candidates
}

// leavesTo reports whether a pool leaves a request to one of the candidates.
func leavesTo(own *resources.RegisteredPool, candidates []*resources.RegisteredPool) bool {
	if !slices.Contains(candidates, own) {
		return len(candidates) > 0
	}
	return slices.ContainsFunc(candidates, func(p *resources.RegisteredPool) bool { return !p.Own && !p.Paused && p.Priority < own.Priority })
}

// Concerns reports whether a request waits for one of our pools in a provider that mine accepts: no other process has
// claimed the request, and the pool offers its labels and has not declined it.
func Concerns(seen Observed, r *resources.Request, mine func(provider string) bool) bool {
	return !seen.ForeignClaims[r.Key()] && slices.ContainsFunc(seen.RegisteredPools, func(p resources.RegisteredPool) bool {
		return p.Own && mine(p.Provider) && servesAll(&p, r.Labels) && !declinedBy(r.Declined, p.ID)
	})
}

func servesAll(p *resources.RegisteredPool, labels []string) bool {
	return !slices.ContainsFunc(labels, func(label string) bool { return !slices.Contains(p.Labels, label) })
}

func declinedBy(declined []resources.Decline, id string) bool {
	return slices.ContainsFunc(declined, func(n resources.Decline) bool { return n.PoolID == id && id != "" })
}

// declineOf returns the decline of one of our pools or zones. That of a zone has no pool ID: it does not concern
// other processes.
func (rp *requestPlanner) declineOf(at poolKey, zone, why string) resources.Decline {
	n := resources.Decline{Provider: at.provider, Pool: at.pool, Zone: zone, Reason: why}
	if s := rp.world.poolByKey[at]; s != nil && s.peer != nil && zone == "" {
		n.PoolID = s.peer.ID
	}
	return n
}

// declinedByAll reports whether every registered pool has declined.
func (rp *requestPlanner) declinedByAll(declined []resources.Decline) bool {
	return !slices.ContainsFunc(rp.world.seen.RegisteredPools, func(p resources.RegisteredPool) bool { return !declinedBy(declined, p.ID) })
}

// standbyDeclines declines for the standbys of pools that have declined: they would decline for the same reason.
func (rp *requestPlanner) standbyDeclines(declined []resources.Decline) (alike []resources.Decline) {
	for _, p := range rp.world.seen.RegisteredPools {
		i := slices.IndexFunc(declined, func(n resources.Decline) bool {
			return n.PoolID != "" && n.Zone == "" && n.Provider == p.Provider && n.Pool == p.Pool
		})
		if i >= 0 && !declinedBy(declined, p.ID) {
			alike = append(alike, resources.Decline{PoolID: p.ID, Provider: p.Provider, Pool: p.Pool, Reason: declined[i].Reason})
		}
	}
	return alike
}

func declineFacts(declined []resources.Decline) (facts []Fact) {
	for _, no := range declined {
		name := strings.TrimSuffix(no.Provider+"/"+no.Pool+"/"+no.Zone, "/")
		fact := Fact{cmp.Or(strings.Trim(name, "/"), no.PoolID), cmp.Or(no.Reason, "declined by another process")}
		if !slices.Contains(facts, fact) { // the standbys of a pool decline for the same reason
			facts = append(facts, fact)
		}
	}
	return facts
}

// Where several processes share a store (Observed.Shared), each builder keeps the files of its own builds. While the
// builder of the newest ready build of an image is registered, it builds, uploads and deletes for that image, and
// other builders skip the image. Builds and uploads of images that are not configured here are deleted only by the
// builder that made them, since the others may have another configuration.

// OtherBuilder returns the newest ready build of an image if another npctl process made it and is registered as a builder;
// else nil.
func OtherBuilder(seen Observed, image string) *resources.Build {
	var newest *resources.Build
	for _, b := range seen.Records.Builds {
		if b.Image == image && b.State == resources.StateReady && (newest == nil || resources.CompareBuilds(b, newest) < 0) {
			newest = b
		}
	}
	if !ofOtherBuilder(seen, newest) || !seen.OtherBuilders[newest.HostID] {
		return nil
	}
	return newest
}

// ofOtherBuilder reports whether the files of a build are on another builder, registered or not.
func ofOtherBuilder(seen Observed, b *resources.Build) bool {
	return seen.Shared && b != nil && !b.Remote && b.HostID != "" && b.HostID != seen.BuilderID
}

// ownedByOtherBuilder reports whether a build of an image that is not configured here is left to the builder that made it.
func (ip *imagePlanner) ownedByOtherBuilder(b *resources.Build) bool {
	return !ip.world.opt.Destroy && ofOtherBuilder(ip.world.seen, b)
}

// leftToOtherBuilder reports whether another registered builder manages the image. The upload of a given build is not
// left to it: the files of that build are here.
func (ip *imagePlanner) leftToOtherBuilder(img *resources.Image) bool {
	if !ip.world.seen.Shared || ip.world.opt.Destroy || len(ip.world.opt.Upload) > 0 {
		return false
	}
	newest := OtherBuilder(ip.world.seen, img.Name)
	if newest == nil {
		return false
	}
	at := imageAddress(img.Kind, img.Name)
	addresses := []Address{at}
	for _, p := range ip.users(img) {
		addresses = append(addresses, uploadAddress(p.Name, img.Name))
	}
	if ip.draft.isReplaceTarget(addresses...) {
		ip.draft.problems = append(ip.draft.problems, Problem{Address: at, Source: img.Source, Text: "npctl on " + newest.Host + " manages this image, because it has the newest build",
			Hint: "run the command there, or request a build from it with npctl image build " + img.Name})
	}
	return true
}
