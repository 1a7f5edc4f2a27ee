package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// poolState is a configured pool, with the data that does not depend on a request.
type poolState struct {
	at                 poolKey
	provider           *resources.Provider
	pool               *resources.Pool
	offers             map[string]*poolOffer     // by label, filled on demand; nil if the pool has no offer of the label
	slots              map[string]int64          // of static nodes, by label
	reservedForRequest bool                      // free capacity is reserved for a request that has waited long
	peer               *resources.RegisteredPool // its registration, in a shared store
}

// poolOffer is an offer of a pool, with its state in the cloud.
type poolOffer struct {
	*poolState
	offer    *resources.Offer
	each     resources.ResourceAmounts // resources of one node
	zones    []string                  // zones to choose from; none if the cloud chooses
	problems []resources.Problem
	launched int     // number of launches for min_ready in this plan
	blocker  *string // cached result of offerBlocker
}

// newPoolStates lists the pools in the order of the configuration.
func newPoolStates(want resources.Desired) (sites []*poolState, byKey map[poolKey]*poolState) {
	byKey = map[poolKey]*poolState{}
	for i := range want.Providers {
		p := &want.Providers[i]
		for j := range p.Pools {
			s := &poolState{at: poolKey{p.Name, p.Pools[j].Name}, provider: p, pool: &p.Pools[j], offers: map[string]*poolOffer{}, slots: map[string]int64{}}
			for k := range s.pool.Nodes {
				node := &s.pool.Nodes[k]
				for _, label := range node.Labels {
					s.slots[label] += node.Slots
				}
			}
			sites, byKey[s.at] = append(sites, s), s
		}
	}
	return sites, byKey
}

// offerIn returns the pool's offer of the label with its state in the cloud, or nil if the pool has none.
func (c *computation) offerIn(s *poolState, label string) *poolOffer {
	at, known := s.offers[label]
	if known {
		return at
	}
	if offer := s.pool.Offer(label); offer != nil {
		at = &poolOffer{poolState: s, offer: offer, each: resources.ResourceAmounts{Instances: 1}}
		if view, looked := c.view(s.at.provider); looked {
			seen := view.Offers[OfferKey{s.at.pool, label}]
			at.each, at.zones, at.problems = seen.Resources, seen.Zones, seen.Problems
			at.each.Instances = 1
			if offer.Image.Kind == resources.CloudImage {
				at.problems = slices.Concat(at.problems, view.CloudImages[offer.Image.Name].Problems)
			}
		}
	}
	s.offers[label] = at
	return at
}

// offersAny reports whether the pool has one of the labels.
func (c *computation) offersAny(s *poolState, labels []string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		_, exists := s.slots[label]
		return exists || c.offerIn(s, label) != nil
	})
}

// replanAsDeleted deletes a ready node that an earlier decision kept.
func (c *computation) replanAsDeleted(n *resources.Node, reason Reason, evidence ...Fact) {
	for _, label := range n.Labels {
		c.readyCount[label]--
	}
	use := c.pool(n.Provider, n.Pool)
	use.use = minus(use.use, amounts(n)) // endNode counts it again
	c.endNode(n, reason, evidence...)
}

// problemText describes the error in a name of the configuration.
func problemText(p resources.Problem) string {
	return fmt.Sprintf("%s = %q: %s", p.Attribute, p.Value, p.Detail)
}
