package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

type poolKey struct{ provider, pool string }

func (k poolKey) String() string { return k.provider + "/" + k.pool }

// poolUse is the resources that the nodes of a pool use, and the steps that will free some of them.
type poolUse struct {
	use     resources.ResourceAmounts
	frees   []string                             // delete steps that no launch relies on yet
	leaving resources.ResourceAmounts            // the resources that those will free together
	going   resources.ResourceAmounts            // the resources of nodes that are being deleted or returned now
	freed   map[string]resources.ResourceAmounts // by delete step, including claimed ones: the resources that it will free
}

// nodes decides for each node that npctl launched whether it stays, is resumed, is replaced or is deleted.
func (c *computation) nodes() {
	c.pools = map[poolKey]*poolUse{}
	c.readyCount = map[string]int{}
	c.replacedNodes = map[string][]*replacedNode{}
	c.postponedNodes = map[string]string{}
	for _, provider := range c.world.names {
		for _, n := range c.world.nodes[provider] {
			switch {
			case n.Static: // see staticNodes
			case c.busy(n.Key()) || c.orphanedByRequest(n):
				c.countUnverified(n)
			case c.reachable(provider):
				c.node(n)
			default:
				c.countUnverified(n)
			}
		}
		c.shrink(provider)
	}
}

// countUnverified counts a node by its record if nothing can be planned for it: a node that was not listed may still
// exist.
func (c *computation) countUnverified(n *resources.Node) {
	c.count(n)
	switch n.State {
	case resources.StateUsed, resources.StateDeleting:
		pool := c.pool(n.Provider, n.Pool)
		pool.going = plus(pool.going, amounts(n))
	case resources.StateInit, resources.StateBuilding, resources.StateReady:
		if at, _ := c.placeOfNode(n); at != nil {
			c.countReady(n, at)
		}
	}
}

// countReady counts a node towards min_ready, unless it is reserved for a request.
func (c *computation) countReady(n *resources.Node, at *poolOffer) {
	if !c.world.owns(n) && !c.inTransit(n) {
		c.readyCount[at.offer.Label]++
	}
}

// placeOfNode returns the configured offer of a node, or the reason to delete the node.
func (c *computation) placeOfNode(n *resources.Node) (*poolOffer, Reason) {
	s := c.world.poolByKey[poolKey{n.Provider, n.Pool}]
	if s == nil {
		if c.world.providers[n.Provider] == nil {
			return nil, ReasonProviderRemoved
		}
		return nil, ReasonPoolRemoved
	}
	for _, label := range n.Labels {
		if at := c.offerIn(s, label); at != nil {
			return at, ""
		}
	}
	return nil, ReasonLabelRemoved
}

func (c *computation) node(n *resources.Node) {
	if c.handleForeignState(n) {
		return
	}
	at, removed := c.placeOfNode(n)
	if reason, evidence := c.broken(n); reason != "" {
		c.endNode(n, reason, evidence...)
		return
	}
	inService := n.State == resources.StateInUse || n.State == resources.StateHold
	switch {
	case inService && !c.opt.Destroy && c.useExpired(n) != "":
		c.endUse(n)
	case c.world.owns(n) && n.State == resources.StateReady && !c.opt.Destroy:
		c.count(n)
		c.kept.nodes = append(c.kept.nodes, n)
	case inService && !c.opt.Destroy:
		c.count(n)
		if removed != "" {
			c.note(Info, "in-use", nodeAddress(n.ID), resources.Source{},
				"node %s is %s and stays until it is returned, though %s", n.ID, n.State, removed.Text())
		}
	case removed != "":
		c.endNode(n, c.because(removed))
	case n.State == resources.StateInit || n.State == resources.StateBuilding:
		c.unfinishedNode(n, at)
	default:
		c.readyNode(n, at)
	}
}

// broken returns the reason to delete a node that is not usable any more, regardless of the configuration.
func (c *computation) broken(n *resources.Node) (Reason, []Fact) {
	view, looked := c.view(n.Provider)
	instance, found := c.world.instances[n.ID]
	switch n.State {
	case resources.StateDeleting:
		return ReasonUnfinished, nil
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
	switch {
	case looked && !found && n.StateTime.Before(view.ListedAt):
		return ReasonLost, facts("server", n.ExternalID)
	case found && instance.Status == resources.StatusFailed:
		return ReasonFailed, facts("fault", instance.Fault)
	case found && instance.Status == resources.StatusDeleting:
		return ReasonLost, facts("server", n.ExternalID)
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
func (c *computation) unfinishedNode(n *resources.Node, at *poolOffer) {
	if !at.offer.Hashes.Match(n.Hash) || len(at.problems) > 0 {
		c.endNode(n, ReasonConfigChanged)
		return
	}
	zone, external, label := "", n.ExternalID, at.offer.Label
	if instance := c.world.instances[n.ID]; instance != nil {
		external = instance.ID
	}
	why := c.breaker(at)
	if external == "" && !c.world.owns(n) { // no instance is lost
		switch {
		case n.Request != "":
			c.endNode(n, ReasonRequestGone)
			return
		case why != "" && c.offeredElsewhere(at):
			c.endNode(n, ReasonFailed, facts("error", n.Error)...)
			return
		}
	}
	c.count(n)
	c.countReady(n, at)
	if why != "" {
		c.postponedNodes[n.ID] = why
		if c.opt.Explain {
			c.note(Info, "postponed", nodeAddress(n.ID), resources.Source{}, "%s", why)
		}
		return
	}
	if c.world.owns(n) {
		zone = c.world.requests[n.Request].Placement.Zone
	}
	s := Step{ID: "launch node " + n.ID, Address: nodeAddress(n.ID), Action: ActionLaunch, Thing: ThingNode,
		Reason: ReasonUnfinished, Provider: n.Provider, Pool: n.Pool, Label: label, Record: n.Key(),
		Zone: zone, Request: n.Request, External: external, Estimate: c.launchEstimate(n.Provider, label), Source: at.offer.Source}
	c.planLaunch(&s, at)
	c.add(s)
}

func (c *computation) launchEstimate(provider, label string) float64 {
	return c.estimate("launch/" + provider + "/" + label)
}

func (c *computation) readyNode(n *resources.Node, at *poolOffer) {
	offer := at.offer
	label := c.label(offer.Label)
	age := c.seen.Now.Sub(n.StateTime)
	switch {
	case len(at.problems) > 0:
		c.countUnverified(n) // a replacement could not be launched
	case len(c.replaceAddresses) > 0 && c.isReplaceTarget(nodeAddress(n.ID)):
		c.planReplacement(n, offer, ReasonRequested, nil)
	case !offer.Hashes.Match(n.Hash):
		c.planReplacement(n, offer, ReasonConfigChanged, c.changes(n.Hash, offer.Static))
	case label != nil && label.MaxReadyAge > 0 && age >= label.MaxReadyAge:
		c.planReplacement(n, offer, ReasonMaxReadyAge, nil, Fact{"age", age.Truncate(time.Second).String()},
			Fact{"max_ready_age", label.MaxReadyAge.String()})
	default:
		c.count(n)
		c.readyCount[offer.Label]++
		c.releaseFromRequest(n)
	}
}

// releaseFromRequest releases a node from a request that is gone.
func (c *computation) releaseFromRequest(n *resources.Node) {
	if n.Request == "" {
		c.kept.nodes = append(c.kept.nodes, n)
		return
	}
	s := Step{ID: "free node " + n.ID, Address: nodeAddress(n.ID), Action: ActionUpdate, Thing: ThingNode, Reason: ReasonRequestGone,
		Provider: n.Provider, Pool: n.Pool, Label: n.Labels[0], Record: n.Key(), Request: n.Request, Evidence: []Fact{{"request", n.Request}}}
	if n.Static {
		s.Node, s.Slot = n.Hostname, n.Slot
	}
	c.add(s)
}

// useExpired returns the reason to end the use of a node: its lease or hold has expired, or its user is gone.
func (c *computation) useExpired(n *resources.Node) Reason {
	switch n.State {
	case resources.StateInUse:
		if n.Lease != nil && c.seen.Now.After(n.Lease.Until) || n.Lease == nil && c.userGone(n) {
			return ReasonLeaseExpired
		}
	case resources.StateHold:
		if !n.HoldUntil.IsZero() && c.seen.Now.After(n.HoldUntil) {
			return ReasonHoldExpired
		}
		if most := c.declared.Settings.MaxHoldAge; most > 0 && c.seen.Now.Sub(n.StateTime) > most {
			return ReasonHoldExpired
		}
	}
	return ""
}

// endUse plans to mark a node in use as used. The next plan deletes or returns it.
func (c *computation) endUse(n *resources.Node) {
	c.count(n)
	c.add(Step{ID: "end use of node " + n.ID, Address: nodeAddress(n.ID), Action: ActionUpdate, Thing: ThingNode, Reason: c.useExpired(n),
		Provider: n.Provider, Pool: n.Pool, Label: strings.Join(n.Labels, ","), Record: n.Key(),
		Evidence: []Fact{{"state", string(n.State)}, {"since", clock(n.StateTime)}}})
}

func (c *computation) label(name string) *resources.Label {
	i, found := slices.BinarySearchFunc(c.want.Labels, name, func(l resources.Label, s string) int { return cmp.Compare(l.Name, s) })
	if !found {
		return nil
	}
	return &c.want.Labels[i]
}

// endNode plans the deletion of a node, or the removal of its record alone if the cloud no longer has it.
func (c *computation) endNode(n *resources.Node, reason Reason, evidence ...Fact) string {
	s := Step{ID: "delete node " + n.ID, Address: nodeAddress(n.ID), Action: ActionDelete, Thing: ThingNode,
		Reason: reason, Provider: n.Provider, Pool: n.Pool, Record: n.Key(), External: n.ExternalID,
		Evidence: append([]Fact{{"state", string(n.State)}}, evidence...)}
	if len(n.Labels) > 0 {
		s.Label = n.Labels[0]
	}
	if instance, found := c.world.instances[n.ID]; found {
		s.External = instance.ID
	}
	if reason == ReasonLost {
		s.ID, s.Action = "forget node "+n.ID, ActionForget
		c.treatAsLeak(n)
	}
	s.Needs = c.orphans(n)
	id := c.add(s)
	if reason != ReasonLost {
		pool := c.pool(n.Provider, n.Pool)
		pool.frees = append(pool.frees, id)
		pool.leaving = plus(pool.leaving, amounts(n))
		pool.freed[id] = amounts(n)
		pool.use = plus(pool.use, amounts(n))
	}
	return id
}

// treatAsLeak makes the instance of a lost node a leak while the cloud still lists it as deleting.
func (c *computation) treatAsLeak(n *resources.Node) {
	if i, found := c.world.instances[n.ID]; found {
		c.world.leaks = append(c.world.leaks, leak{provider: n.Provider, kind: "server", id: i.ID, name: i.Name, marks: i.Marks})
	}
}

func (c *computation) pool(provider, pool string) *poolUse {
	key := poolKey{provider, pool}
	if c.pools[key] == nil {
		c.pools[key] = &poolUse{freed: map[string]resources.ResourceAmounts{}}
	}
	return c.pools[key]
}

// count adds a node that stays to the use of its pool.
func (c *computation) count(n *resources.Node) {
	pool := c.pool(n.Provider, n.Pool)
	pool.use = plus(pool.use, amounts(n))
}

func amounts(n *resources.Node) resources.ResourceAmounts {
	a := n.Resources
	a.Instances = max(a.Instances, 1)
	return a
}

func plus(a, b resources.ResourceAmounts) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: a.Instances + b.Instances, Cores: a.Cores + b.Cores, RAM: a.RAM + b.RAM,
		Volumes: a.Volumes + b.Volumes, VolumeGB: a.VolumeGB + b.VolumeGB, Addresses: a.Addresses + b.Addresses}
}

// shrink deletes ready nodes of pools with more nodes than max_servers, the oldest first.
func (c *computation) shrink(provider string) {
	p := c.world.providers[provider]
	if p == nil || !c.reachable(provider) {
		return
	}
	for i := range p.Pools {
		pool := &p.Pools[i]
		if pool.MaxServers == nil {
			continue
		}
		use := c.pool(provider, pool.Name)
		over := use.use.Instances - int64(len(use.frees)) - *pool.MaxServers
		if over <= 0 {
			continue
		}
		spare := c.spare(provider, pool.Name)
		for _, n := range spare[:min(int(over), len(spare))] {
			c.replanAsDeleted(n, ReasonAboveMaxServers)
		}
	}
}

func minus(a, b resources.ResourceAmounts) resources.ResourceAmounts {
	return resources.ResourceAmounts{Instances: a.Instances - b.Instances, Cores: a.Cores - b.Cores, RAM: a.RAM - b.RAM,
		Volumes: a.Volumes - b.Volumes, VolumeGB: a.VolumeGB - b.VolumeGB, Addresses: a.Addresses - b.Addresses}
}

// spare lists the ready, unassigned nodes of a pool that no earlier decision deletes, oldest first.
func (c *computation) spare(provider, pool string) []*resources.Node {
	var spare []*resources.Node
	for _, n := range c.world.nodes[provider] {
		if n.Pool == pool && !n.Static && n.State == resources.StateReady && c.deletedBy[n.Key()] == "" && !c.busy(n.Key()) && !c.world.owns(n) {
			spare = append(spare, n)
		}
	}
	slices.SortStableFunc(spare, func(a, b *resources.Node) int { return a.StateTime.Compare(b.StateTime) })
	return spare
}
