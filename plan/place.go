package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// site is a configured pool, with what of it does not depend on who asks for nodes.
type site struct {
	at       poolKey
	provider *resources.Provider
	pool     *resources.Pool
	places   map[string]*place // by label, as far as somebody has asked; nil where the pool makes no nodes of it
	slots    map[string]int64  // of machines that exist, by label
	reserved bool              // what is free is kept for a request that has waited long
	peer     *resources.Peer   // how it has been made known, where others serve the same requests
}

// place is a pool that makes nodes of a label.
type place struct {
	*site
	offer    *resources.Offer
	each     resources.Amounts // what one node takes
	zones    []string          // to choose from; none where the cloud chooses
	problems []resources.Problem
	launched int     // for min_ready, by this plan
	obstacle *string // what unable has found
}

// newSites lists the pools in the order of the configuration.
func newSites(want resources.Desired) (sites []*site, byKey map[poolKey]*site) {
	byKey = map[poolKey]*site{}
	for i := range want.Providers {
		p := &want.Providers[i]
		for j := range p.Pools {
			s := &site{at: poolKey{p.Name, p.Pools[j].Name}, provider: p, pool: &p.Pools[j], places: map[string]*place{}, slots: map[string]int64{}}
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

// placeOf is the pool's way of making nodes of the label with what the cloud says of it, or nil when it has none.
func (c *computation) placeOf(s *site, label string) *place {
	at, known := s.places[label]
	if known {
		return at
	}
	if offer := s.pool.Offer(label); offer != nil {
		at = &place{site: s, offer: offer, each: resources.Amounts{Instances: 1}}
		if view, looked := c.view(s.at.provider); looked {
			seen := view.Offers[OfferKey{s.at.pool, label}]
			at.each, at.zones, at.problems = seen.Resources, seen.Zones, seen.Problems
			at.each.Instances = 1
			if offer.Image.Kind == resources.CloudImage {
				at.problems = slices.Concat(at.problems, view.CloudImages[offer.Image.Name].Problems)
			}
		}
	}
	s.places[label] = at
	return at
}

// offersAny reports whether the pool has one of the labels.
func (c *computation) offersAny(s *site, labels []string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		_, exists := s.slots[label]
		return exists || c.placeOf(s, label) != nil
	})
}

// dismiss removes a ready node that was to stay.
func (c *computation) dismiss(n *resources.Node, reason Reason, evidence ...Fact) {
	for _, label := range n.Labels {
		c.usable[label]--
	}
	if c.dismissed == nil {
		c.dismissed = map[Address]bool{}
	}
	c.dismissed[nodeAddress(n.ID)] = true
	use := c.pool(n.Provider, n.Pool)
	use.use = minus(use.use, amounts(n)) // endNode counts it again
	c.endNode(n, reason, evidence...)
}

// problemText says what is wrong with a name in the configuration.
func problemText(p resources.Problem) string {
	return fmt.Sprintf("%s = %q: %s", p.Attribute, p.Value, p.Detail)
}
