package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// minReadyPlanner launches nodes up to the min_ready of each label.
type minReadyPlanner struct {
	world     *world
	draft     *draft
	capacity  *capacity
	placement *placement
	nodes     *nodePlanner
	launched  map[*poolOffer]int // number of launches in this plan
}

func planMinReady(w *world, d *draft, use *capacity, place *placement, nodes *nodePlanner) {
	if w.opt.RefreshOnly {
		return
	}
	mp := &minReadyPlanner{world: w, draft: d, capacity: use, placement: place, nodes: nodes, launched: map[*poolOffer]int{}}
	for i := range mp.world.want.Labels {
		label := &mp.world.want.Labels[i]
		missing := label.MinReady - int64(mp.capacity.readyCount[label.Name])
		if missing > 0 {
			mp.fill(label, int(missing))
		}
	}
}

// fill launches missing nodes one by one, each with the best offer at that point.
func (mp *minReadyPlanner) fill(label *resources.Label, missing int) {
	places, refusals, mistaken := mp.candidateOffers(label)
	have := label.MinReady - int64(missing)
	for ; missing > 0; missing-- {
		at, old := mp.nextLaunch(places, label.Name)
		if at == nil {
			break
		}
		mp.launch(at, label, have, old)
	}
	if missing == 0 || mistaken || mp.world.seen.LockHolder != nil {
		return // launched; or reported as a problem; or the other process may be creating the missing nodes
	}
	for _, p := range places {
		refusals = append(refusals, fmt.Sprintf("%s: %s", p.at, mp.capacity.capacityBlocker(p)))
	}
	if len(refusals) == 0 {
		refusals = []string{"no pool offers it"}
	}
	mp.draft.note(Warning, "below-min-ready", Address("label."+label.Name), label.Source,
		"%d of %s of label %s cannot be launched: %s", missing, text.Count(label.MinReady, "node", "nodes"), label.Name, strings.Join(refusals, "; "))
}

// candidateOffers lists the offers of the label that can launch now, and why the others cannot. mistaken reports
// whether one of them has a problem in its configuration.
func (mp *minReadyPlanner) candidateOffers(label *resources.Label) (places []*poolOffer, refusals []string, mistaken bool) {
	for _, s := range mp.world.pools {
		at := s.offers[label.Name]
		if at == nil {
			continue
		}
		if len(at.problems) > 0 {
			mistaken = true
		} else if why := mp.placement.offerBlocker(at); why != nil {
			refusals = append(refusals, fmt.Sprintf("%s: %s", at.at, why))
		} else {
			places = append(places, at)
		}
	}
	return places, refusals, mistaken
}

// launch adds the step for one node, which replaces old unless old is nil.
func (mp *minReadyPlanner) launch(at *poolOffer, label *resources.Label, have int64, old *replacedNode) {
	mp.launched[at]++
	provider, pool := at.provider.Name, at.pool.Name
	use := mp.capacity.pool(provider, pool)
	address := OfferAddress(provider, pool, label.Name)
	s := Step{ID: fmt.Sprintf("launch %s #%d", address, mp.launched[at]), Address: address, Action: ActionLaunch,
		Thing: ThingNode, Reason: ReasonBelowMinReady, Provider: provider, Pool: pool, Label: label.Name,
		Image: at.offer.Image.Name, Source: at.offer.Source, Estimate: mp.world.launchEstimate(provider, label.Name),
		Evidence: []Fact{{"min_ready", fmt.Sprint(label.MinReady)}, {"ready", fmt.Sprint(have)}}}
	mp.placement.imageOf(&s, at)
	planLaunch(mp.world, &s, at, mp.placement.plannedUploads)
	if old != nil {
		mp.replace(&s, old, at, use)
	}
	for len(use.frees) > 0 && mp.capacity.needsRelease(at, use) {
		first := use.frees[0]
		s.Needs = append(s.Needs, first)
		use.claim(first)
		use.release(first, mp.capacity.free[provider])
	}
	use.use = Plus(use.use, at.each)
	if l := mp.capacity.free[provider]; l != nil {
		*l = minus(*l, at.each)
	}
	mp.draft.add(s)
}

// nextLaunch chooses the offer for the next node of a label, and the node that it replaces, if any. A successor stays
// in the pool of its predecessor while that pool has capacity, including the capacity that the predecessor frees.
// placementOrder decides about all other nodes.
func (mp *minReadyPlanner) nextLaunch(places []*poolOffer, label string) (*poolOffer, *replacedNode) {
	retired := mp.replaceable(label)
	stays := func(at *poolOffer) bool {
		return slices.ContainsFunc(retired, func(r *replacedNode) bool { return r.pool == at.at })
	}
	at := mp.placement.best(places, stays)
	if at == nil {
		at = mp.placement.best(places, func(*poolOffer) bool { return true })
	}
	if at == nil || len(retired) == 0 {
		return at, nil
	}
	i := slices.IndexFunc(retired, func(r *replacedNode) bool { return r.pool == at.at })
	old := retired[max(i, 0)]
	mp.nodes.replacedNodes[label] = slices.DeleteFunc(retired, func(r *replacedNode) bool { return r == old })
	mp.capacity.pools[old.pool].claim(old.step)
	return at, old
}

// replaceable lists the nodes of a label that a launch can replace: no other launch waits for their deletion.
func (mp *minReadyPlanner) replaceable(label string) []*replacedNode {
	mp.nodes.replacedNodes[label] = slices.DeleteFunc(mp.nodes.replacedNodes[label], func(r *replacedNode) bool {
		return !slices.Contains(mp.capacity.pools[r.pool].frees, r.step)
	})
	return mp.nodes.replacedNodes[label]
}
