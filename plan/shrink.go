package plan

import (
	"slices"

	"github.com/npctl/npctl/resources"
)

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
		over := use.use.Instances - int64(len(use.frees)) - *pool.MaxServers
		if over <= 0 {
			continue
		}
		spare := np.spare(provider, pool.Name)
		for _, n := range spare[:min(int(over), len(spare))] {
			np.replanAsDeleted(n, ReasonAboveMaxServers)
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
	slices.SortStableFunc(spare, func(a, b *resources.Node) int { return a.StateTime.Compare(b.StateTime) })
	return spare
}

// replanAsDeleted deletes a ready node that an earlier decision kept.
func (np *nodePlanner) replanAsDeleted(n *resources.Node, reason Reason, evidence ...Fact) {
	for _, label := range n.Labels {
		np.capacity.readyCount[label]--
	}
	use := np.capacity.pool(n.Provider, n.Pool)
	use.use = minus(use.use, amounts(n)) // endNode counts it again
	np.endNode(n, reason, evidence...)
}
