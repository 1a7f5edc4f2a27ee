package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// nodePlanner decides for each node that npctl launched whether it stays, is resumed, is replaced or is deleted.
type nodePlanner struct {
	world          *world
	draft          *draft
	capacity       *capacity
	replacedNodes  map[string][]*replacedNode // label → nodes to be replaced
	launches       map[string][]string        // label → IDs of the steps of unfinished launches that count towards min_ready, also of running ones
	postponedNodes map[string]*blocker        // unfinished node → why its launch is postponed
	disruption     *disruption
	lost           []leak // instances of lost nodes that the cloud still lists as deleting
}

func planNodes(w *world, d *draft, use *capacity) *nodePlanner {
	np := &nodePlanner{world: w, draft: d, capacity: use, replacedNodes: map[string][]*replacedNode{}, launches: map[string][]string{},
		postponedNodes: map[string]*blocker{}, disruption: newDisruption(w)}
	for _, provider := range np.world.names {
		for _, n := range np.world.nodes[provider] {
			switch {
			case n.Static: // see staticPlanner
			case np.world.busy(n.Key()) || np.world.orphanedByRequest(n):
				np.countUnverified(n)
			case np.world.reachable(provider):
				np.node(n)
			default:
				np.countUnverified(n)
			}
		}
		np.shrink(provider)
	}
	return np
}

// countUnverified counts a node by its record if nothing can be planned for it: a node that was not listed may still
// exist.
func (np *nodePlanner) countUnverified(n *resources.Node) {
	np.capacity.count(n)
	switch n.State {
	case resources.StateUsed, resources.StateDeleting:
		pool := np.capacity.pool(n.Provider, n.Pool)
		pool.going = pool.going.Plus(Amounts(n))
	case resources.StateInit, resources.StateBuilding, resources.StateReady:
		if at, _ := np.world.placeOfNode(n); at != nil {
			np.countReady(n, at)
		}
	}
}

// countReady counts a node towards min_ready, unless it is reserved for a request.
func (np *nodePlanner) countReady(n *resources.Node, at *poolOffer) {
	if np.world.owns(n) || np.world.inTransit(n) || n.Validates != "" {
		return
	}
	np.capacity.readyCount[at.offer.Label]++
	if n.State != resources.StateReady {
		np.launches[at.offer.Label] = append(np.launches[at.offer.Label], launchID(n))
	}
}

// launchID returns the ID of the step that resumes the launch of a node.
func launchID(n *resources.Node) string { return "launch node " + n.ID }

// placeOfNode returns the configured offer of a node, or the reason to delete the node.
func (w *world) placeOfNode(n *resources.Node) (*poolOffer, Reason) {
	s := w.poolByKey[poolKey{n.Provider, n.Pool}]
	if s == nil {
		if w.providers[n.Provider] == nil {
			return nil, ReasonProviderRemoved
		}
		return nil, ReasonPoolRemoved
	}
	for _, label := range n.Labels {
		if at := s.offers[label]; at != nil {
			return at, ""
		}
	}
	return nil, ReasonLabelRemoved
}

func (np *nodePlanner) node(n *resources.Node) {
	if np.world.seen.Shared && n.State == "testing" { // only other programs set this state
		np.capacity.count(n)
		return
	}
	at, removed := np.world.placeOfNode(n)
	if n.Importing != "" {
		np.unfinishedImport(n)
		return
	}
	if removed != "" && np.removed(n) {
		return
	}
	if reason, evidence := np.world.broken(n); reason != "" {
		np.endNode(n, reason, evidence...)
		return
	}
	inService := n.State.IsInService()
	switch {
	case n.Validates != "": // its test was interrupted, and another node repeats it
		np.endNode(n, ReasonUnfinished)
	case inService && !np.world.opt.Destroy && np.world.useExpired(n) != "":
		np.endUse(n)
	case inService && !np.world.opt.Destroy && np.world.mustRetire(n):
		np.retire(n)
	case np.world.owns(n) && n.State == resources.StateReady && !np.world.opt.Destroy:
		np.capacity.count(n)
		np.draft.kept.nodes = append(np.draft.kept.nodes, n)
	case inService && !np.world.opt.Destroy:
		np.capacity.count(n)
		if removed != "" {
			after := "stays until it is returned, though " + removed.Text()
			if np.world.declared.Removed.HasNode(n) {
				after = "is forgotten when it is returned: a removed block names it"
			}
			np.draft.note(Info, "in-use", nodeAddress(n.ID), resources.Source{}, "node %s is %s and %s", n.ID, n.State, after)
		}
	case removed != "":
		np.endNode(n, np.world.because(removed))
	case n.State == resources.StateInit || n.State == resources.StateBuilding:
		np.unfinishedNode(n, at)
	default:
		np.readyNode(n, at)
	}
}

// broken returns the reason to delete a node that is not usable any more, regardless of the configuration.
func (w *world) broken(n *resources.Node) (Reason, []Fact) {
	instance, found := w.instances[n.ID]
	switch n.State {
	case resources.StateDeleting:
		if n.Error == "" {
			return ReasonUnfinished, nil
		}
		return ReasonFailed, facts("error", n.Error) // such as the server of a failed attempt
	case resources.StateUsed:
		return ReasonUsed, nil
	case resources.StateFailed, resources.StateAborted:
		return ReasonFailed, facts("error", n.Error)
	case resources.StateInit, resources.StateBuilding:
		if found && instance.Status == resources.StatusFailed {
			return ReasonFailed, facts("fault", instance.Fault)
		}
		return "", nil
	}
	if w.isGone(n) {
		return ReasonLost, facts("server", n.ExternalID)
	}
	if n.State != resources.StateReady { // its user may have stopped it, and returns it
		return "", nil
	}
	if reason, evidence := w.unusable(n); reason != "" {
		return reason, evidence
	}
	if backing := w.backing.of(n); backing != nil && w.isUnusableBacking(backing, n.StateTime) {
		return ReasonNotReady, facts("backing node", backing.ID)
	}
	return "", nil
}

// isGone reports whether the listing shows that the server of a launched node does not exist, or is being deleted.
func (w *world) isGone(n *resources.Node) bool {
	if instance, found := w.instances[n.ID]; found {
		return instance.Status == resources.StatusDeleting
	}
	view, looked := w.view(n.Provider)
	return looked && n.StateTime.Before(view.ListedAt)
}

// settleTime is the time for which a ready node may be listed without the addresses that it has.
const settleTime = 2 * time.Minute

// unusable returns why a job could not use a launched node, or "".
func (w *world) unusable(n *resources.Node) (Reason, []Fact) {
	i, found := w.instances[n.ID]
	view, _ := w.view(n.Provider)
	listed := view.ListedAt
	switch {
	case !found:
		return "", nil
	case i.Status == resources.StatusFailed:
		return ReasonFailed, facts("fault", i.Fault)
	case !n.StateTime.Before(listed):
		return "", nil
	}
	noAddress := n.Addresses.Interface != "" && i.Addresses.Interface == "" // a launch waits for it, too
	if i.Status == resources.StatusPending || noAddress {
		if (i.AddressLate || noAddress) && listed.Sub(n.StateTime) < settleTime {
			return "", nil
		}
		return ReasonNotReady, facts("server", i.ID)
	}
	if recorded, listed, changed := n.Addresses.ChangedTo(i.Addresses); changed {
		return ReasonAddressChanged, []Fact{{"recorded", recorded}, {"listed", listed}}
	}
	return "", nil
}

func facts(name, value string) []Fact {
	if value == "" {
		return nil
	}
	return []Fact{{name, value}}
}

// unfinishedNode resumes an interrupted launch, or deletes the node if it is no longer wanted.
func (np *nodePlanner) unfinishedNode(n *resources.Node, at *poolOffer) {
	if !at.offer.Hashes.Match(n.Hash) || len(at.problems) > 0 {
		np.endNode(n, ReasonConfigChanged)
		return
	}
	zone, external, label := "", n.ExternalID, at.offer.Label
	if instance := np.world.instances[n.ID]; instance != nil {
		external = instance.ID
	}
	why := np.world.breaker(at)
	if external == "" && !np.world.owns(n) { // no instance is lost
		switch {
		case n.Request != "":
			np.endNode(n, ReasonRequestGone)
			return
		case why != nil && np.world.offeredElsewhere(at):
			np.endNode(n, ReasonFailed, facts("error", n.Error)...)
			return
		}
	}
	np.capacity.count(n)
	np.countReady(n, at)
	if why != nil {
		np.postponedNodes[n.ID] = why
		if np.world.opt.Explain {
			np.draft.note(Info, "postponed", nodeAddress(n.ID), resources.Source{}, "%s", why)
		}
		return
	}
	if np.world.owns(n) {
		zone = np.world.requests[n.Request].Placement.Zone
	}
	s := Step{ID: launchID(n), Address: nodeAddress(n.ID), Kind: KindLaunch,
		Reason: reasonToResume(n), Provider: n.Provider, Pool: n.Pool, Label: label, Record: n.Key(),
		Zone: zone, Request: n.Request, External: external, Estimate: np.world.estimate("launch/" + n.Provider + "/" + label), Source: at.offer.Source}
	planLaunch(np.world, &s, at, nil) // images are not planned yet
	np.draft.add(s)
}

// reasonToResume returns why a launch is resumed.
func reasonToResume(n *resources.Node) Reason {
	switch {
	case n.Error == "":
		return ReasonUnfinished
	case n.UnansweredAttempts > 0:
		return ReasonUnanswered
	default:
		return ReasonAttemptFailed
	}
}

func (np *nodePlanner) readyNode(n *resources.Node, at *poolOffer) {
	offer, reason := at.offer, np.world.outdated(n, at)
	switch {
	case len(at.problems) > 0:
		np.countUnverified(n) // a replacement could not be launched
	case len(np.draft.replaceAddresses) > 0 && np.draft.isReplaceTarget(nodeAddress(n.ID)):
		np.planReplacement(n, offer, ReasonRequested, nil)
	case reason != "" && !np.disruption.allows(n, at): // it waits, and serves requests until then
		np.capacity.count(n)
		np.capacity.readyCount[offer.Label]++
		if n.Request != "" {
			np.releaseFromRequest(n)
		}
	case reason == ReasonConfigChanged:
		np.planReplacement(n, offer, reason, np.world.changes(n.Hash, offer.Static))
	case reason == ReasonMaxReadyAge:
		np.planReplacement(n, offer, reason, nil, Fact{"age", np.world.seen.Now.Sub(n.StateTime).Truncate(time.Second).String()},
			Fact{"max_ready_age", np.world.label(offer.Label).MaxReadyAge.String()})
	default:
		np.capacity.count(n)
		np.capacity.readyCount[offer.Label]++
		np.releaseFromRequest(n)
	}
}

// releaseFromRequest releases a node from a request that is gone.
func (np *nodePlanner) releaseFromRequest(n *resources.Node) {
	if n.Request == "" {
		np.draft.kept.nodes = append(np.draft.kept.nodes, n)
		return
	}
	s := Step{ID: "free node " + n.ID, Address: nodeAddress(n.ID), Kind: KindUpdateNode, Reason: ReasonRequestGone,
		Provider: n.Provider, Pool: n.Pool, Label: n.Labels[0], Record: n.Key(), Request: n.Request, Evidence: []Fact{{"request", n.Request}}}
	if n.Static {
		s.Node, s.Slot = n.Hostname, n.Slot
	}
	np.draft.add(s)
}

// useExpired returns the reason to end the use of a node: its lease or hold has expired, or its user is gone.
func (w *world) useExpired(n *resources.Node) Reason {
	switch n.State {
	case resources.StateInUse:
		if n.Lease != nil && w.seen.Now.After(n.Lease.Until) || n.Lease == nil && w.userGone(n) {
			return ReasonLeaseExpired
		}
	case resources.StateHold:
		if !n.HoldUntil.IsZero() && w.seen.Now.After(n.HoldUntil) {
			return ReasonHoldExpired
		}
		if most := w.declared.Settings.MaxHoldAge; most > 0 && w.seen.Now.Sub(n.StateTime) > most {
			return ReasonHoldExpired
		}
	}
	return ""
}

// endUse plans to mark a node in use as used. The next plan deletes or returns it.
func (np *nodePlanner) endUse(n *resources.Node) {
	np.capacity.count(n)
	np.draft.add(Step{ID: "end use of node " + n.ID, Address: nodeAddress(n.ID), Kind: KindUpdateNode, Reason: np.world.useExpired(n),
		Provider: n.Provider, Pool: n.Pool, Label: strings.Join(n.Labels, ","), Record: n.Key(),
		Evidence: []Fact{{"state", string(n.State)}, {"since", clock(n.StateTime)}}})
}

// mustRetire reports whether the provider that uses a node must launch no further nodes on it. It returns the node when the others
// have ended.
func (w *world) mustRetire(n *resources.Node) bool {
	return !n.Retired && w.seen.Records.IsSource(n.Requestor) && w.isUnusableBacking(n, n.StateTime)
}

func (np *nodePlanner) retire(n *resources.Node) {
	np.capacity.count(n)
	np.draft.add(Step{ID: "retire node " + n.ID, Address: nodeAddress(n.ID), Kind: KindUpdateNode, Reason: ReasonNotReady,
		Provider: n.Provider, Pool: n.Pool, Label: strings.Join(n.Labels, ","), Record: n.Key(), Evidence: []Fact{{"server", n.ExternalID}}})
}

func (w *world) label(name string) *resources.Label {
	i, found := slices.BinarySearchFunc(w.want.Labels, name, func(l resources.Label, s string) int { return cmp.Compare(l.Name, s) })
	if !found {
		return nil
	}
	return &w.want.Labels[i]
}

// endNode plans the deletion of a node, or the removal of its record alone if the cloud no longer has it.
func (np *nodePlanner) endNode(n *resources.Node, reason Reason, evidence ...Fact) string {
	s := Step{ID: "delete node " + n.ID, Address: nodeAddress(n.ID), Kind: KindDeleteNode,
		Reason: reason, Provider: n.Provider, Pool: n.Pool, Record: n.Key(), External: n.ExternalID,
		Evidence: append([]Fact{{"state", string(n.State)}}, evidence...)}
	if len(n.Labels) > 0 {
		s.Label = n.Labels[0]
	}
	if instance, found := np.world.instances[n.ID]; found {
		s.External = instance.ID
	}
	if reason == ReasonLost {
		s.ID, s.Kind = "forget node "+n.ID, KindForgetNode
		if i, found := np.world.instances[n.ID]; found { // the cloud still lists it as deleting
			np.lost = append(np.lost, leak{provider: n.Provider, kind: "server", id: i.ID, name: i.Name, marks: i.Marks})
		}
	}
	s.Needs = np.orphans(n)
	id := np.draft.add(s)
	if reason != ReasonLost {
		pool := np.capacity.pool(n.Provider, n.Pool)
		pool.willFree(id, Amounts(n))
		pool.use = pool.use.Plus(Amounts(n))
	}
	return id
}

// shrink deletes ready nodes of pools with more nodes than max_servers, the oldest first.
func (np *nodePlanner) shrink(provider string) {
	p := np.world.providers[provider]
	if p == nil || !np.world.reachable(provider) {
		return
	}
	for i := range p.Pools {
		pool := &p.Pools[i]
		if pool.MaxServers == nil {
			continue
		}
		use := np.capacity.pool(provider, pool.Name)
		over := use.use.Instances - int64(len(use.frees)) - use.going.Instances - *pool.MaxServers
		if over <= 0 {
			continue
		}
		spare := np.spare(provider, pool.Name)
		for _, n := range spare[:min(int(over), len(spare))] {
			if np.disruption.allowsSurplus(n) {
				np.replanAsDeleted(n, ReasonAboveMaxServers)
			}
		}
	}
}

// spare lists the ready, unassigned nodes of a pool that no earlier decision deletes, oldest first.
func (np *nodePlanner) spare(provider, pool string) []*resources.Node {
	var spare []*resources.Node
	for _, n := range np.world.nodes[provider] {
		if n.Pool == pool && !n.Static && n.State == resources.StateReady && np.draft.deletedBy[n.Key()] == "" && !np.world.busy(n.Key()) && !np.world.owns(n) {
			spare = append(spare, n)
		}
	}
	slices.SortFunc(spare, compareAge)
	return spare
}

// replanAsDeleted deletes a ready node that an earlier decision kept.
func (np *nodePlanner) replanAsDeleted(n *resources.Node, reason Reason, evidence ...Fact) {
	for _, label := range n.Labels {
		np.capacity.readyCount[label]--
	}
	use := np.capacity.pool(n.Provider, n.Pool)
	use.use = use.use.Minus(Amounts(n)) // endNode counts it again
	np.endNode(n, reason, evidence...)
}
