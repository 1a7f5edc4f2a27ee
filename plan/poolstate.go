package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

type poolKey struct{ provider, pool string }

func (k poolKey) String() string { return k.provider + "/" + k.pool }

// poolState is a configured pool, with the data that does not depend on a request.
type poolState struct {
	at       poolKey
	provider *resources.Provider
	pool     *resources.Pool
	offers   map[string]*poolOffer     // by label
	slots    map[string]int64          // of static nodes, by label
	peer     *resources.RegisteredPool // its registration, in a shared store
}

// poolOffer is an offer of a pool, with its state in the cloud.
type poolOffer struct {
	*poolState
	offer    *resources.Offer
	each     resources.ResourceAmounts // resources of one node
	zones    []string                  // zones to choose from; none if the cloud chooses
	problems []resources.Problem
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

// resolveOffers sets the offers of all pools with their state in the cloud.
func (w *world) resolveOffers() {
	for _, s := range w.pools {
		view, looked := w.view(s.at.provider)
		for i := range s.pool.Offers {
			offer := &s.pool.Offers[i]
			if s.offers[offer.Label] != nil {
				continue
			}
			at := &poolOffer{poolState: s, offer: offer, each: resources.ResourceAmounts{Instances: 1}}
			s.offers[offer.Label] = at
			if !looked {
				continue
			}
			seen := view.Offers[OfferKey{s.at.pool, offer.Label}]
			at.each, at.zones, at.problems = seen.Resources, seen.Zones, seen.Problems
			at.each.Instances = 1
			if offer.Image.Kind == resources.CloudImage {
				at.problems = slices.Concat(at.problems, view.CloudImages[offer.Image.Name].Problems)
			}
		}
	}
}

// offersAny reports whether the pool has one of the labels.
func (s *poolState) offersAny(labels []string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		_, exists := s.slots[label]
		return exists || s.offers[label] != nil
	})
}

// problemText describes the error in a name of the configuration.
func problemText(p resources.Problem) string {
	return fmt.Sprintf("%s = %q: %s", p.Attribute, p.Value, p.Detail)
}
