package plan

import (
	"encoding/json"
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
			mp.keepWithoutSuccessor(label.Name, mp.fill(label, int(missing)))
		}
		mp.awaitLaunches(label.Name)
	}
}

// awaitLaunches makes the deletion of a node without a new successor wait for a launch that is under way: an earlier plan may have
// paired them, and min_ready counts the launch already. The step of a launch that runs now is in no plan, and its end causes another one.
func (mp *minReadyPlanner) awaitLaunches(label string) {
	launches := mp.nodes.launches[label]
	for i, old := range mp.replaceable(label) {
		if i == len(launches) {
			return // one node more than min_ready and the launches need
		}
		gone := mp.draft.step(old.step)
		gone.Needs = append(gone.Needs, launches[i])
	}
}

// keepWithoutSuccessor keeps nodes under disruption budgets while their label lacks nodes that cannot be launched: otherwise each
// plan would take further nodes from it.
func (mp *minReadyPlanner) keepWithoutSuccessor(label string, missing int) {
	kept := map[string]bool{}
	for _, old := range mp.replaceable(label) {
		if len(kept) == missing {
			break
		}
		if len(mp.draft.step(old.step).Needs) == 0 && mp.nodes.disruption.keep(old.node) {
			mp.capacity.pools[old.pool].claim(old.step)
			kept[old.step] = true
		}
	}
	mp.draft.cancel(kept)
}

// fill launches missing nodes one by one, each with the best offer at that point. It returns how many cannot be launched.
func (mp *minReadyPlanner) fill(label *resources.Label, missing int) int {
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
		return missing // launched; or reported as a problem; or the other process may be creating the missing nodes
	}
	for _, p := range places {
		refusals = append(refusals, fmt.Sprintf("%s: %s", p.at, mp.capacity.capacityBlocker(p)))
	}
	if len(refusals) == 0 {
		refusals = []string{"no pool offers it"}
	}
	mp.draft.note(Warning, "below-min-ready", Address("label."+label.Name), label.Source,
		"%d of %s of label %s cannot be launched: %s", missing, text.Count(label.MinReady, "node", "nodes"), label.Name, strings.Join(refusals, "; "))
	return missing
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
	s := Step{ID: fmt.Sprintf("launch %s #%d", address, mp.launched[at]), Address: address, Kind: KindLaunch,
		Reason: ReasonBelowMinReady, Provider: provider, Pool: pool, Label: label.Name,
		Image: at.offer.Image.Name, Source: at.offer.Source, Estimate: mp.world.estimate("launch/" + provider + "/" + label.Name),
		Evidence: []Fact{{"min_ready", fmt.Sprint(label.MinReady)}, {"ready", fmt.Sprint(have)}}}
	mp.placement.imageOf(&s, at)
	planLaunch(mp.world, &s, at, mp.placement.plannedUploads)
	if old != nil {
		mp.replace(&s, old, at, use)
	}
	mp.capacity.take(&s, at)
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

// replacedNode is a node that is to be replaced.
type replacedNode struct {
	pool   poolKey
	step   string // ID of its delete step
	node   *resources.Node
	forced []Change // the changes that require a replacement
}

// Move states that the successor of a node is launched in another pool. Both halves of the replacement have it.
type Move struct {
	Node string        `json:"node"` // ID of the node to delete
	From NodePlacement `json:"from"`
	To   NodePlacement `json:"to"`
}

// NodePlacement is a pool, with the current or the future flavor of a node as far as it is known.
type NodePlacement struct {
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Flavor   string `json:"flavor,omitempty"`
}

// planReplacement plans the deletion of a node that a launch may replace.
func (np *nodePlanner) planReplacement(n *resources.Node, offer *resources.Offer, reason Reason, changes []Change, evidence ...Fact) {
	id := np.endNode(n, reason, evidence...)
	gone := np.draft.step(id)
	for _, change := range changes { // not a replacement until a launch is paired with it
		change.Forces = false
		gone.Changes = append(gone.Changes, change)
	}
	np.replacedNodes[offer.Label] = append(np.replacedNodes[offer.Label], &replacedNode{poolKey{n.Provider, n.Pool}, id, n, changes})
}

// replace pairs a launch with the deletion of the node that it replaces. The node is deleted after its successor is
// ready if both fit, else before the launch.
func (mp *minReadyPlanner) replace(s *Step, old *replacedNode, at *poolOffer, use *poolUse) {
	gone := mp.draft.step(old.step)
	s.Replaces, gone.Replaces, s.ReplacesNode = true, true, old.node.ID
	s.Reason = gone.Reason
	if old.pool == at.at {
		s.Changes, gone.Changes = old.forced, old.forced
		s.Evidence = append([]Fact{{"replaces", string(gone.Address)}}, s.Evidence...)
	} else {
		mp.move(s, gone, old, at)
	}
	_, here := use.freed[old.step]
	if here && mp.capacity.needsRelease(at, use) {
		s.Needs = append(s.Needs, old.step)
		use.release(old.step, mp.capacity.free[s.Provider])
	} else {
		gone.Needs = append(gone.Needs, s.ID)
	}
}

// move marks both halves of a replacement with a successor in another pool. Its changes are the differences between
// the two nodes.
func (mp *minReadyPlanner) move(s, gone *Step, old *replacedNode, at *poolOffer) {
	move := &Move{Node: old.node.ID, From: NodePlacement{old.pool.provider, old.pool.pool, mp.placement.flavorOf(old.node)},
		To: NodePlacement{at.at.provider, at.at.pool, mp.placement.flavorAt(at)}}
	s.Move, gone.Move = move, move
	s.Changes = mp.world.changes(old.node.Hash, at.offer.Static)
	for i := range s.Changes {
		s.Changes[i].Forces = false
	}
	if why := mp.noSuccessorAt(old, s.Label); why != "" {
		s.Evidence = append([]Fact{{old.pool.String(), why}}, s.Evidence...)
	}
	gone.Changes = nil
	if len(old.forced) > 0 {
		names := make([]string, len(old.forced))
		for i, change := range old.forced {
			names[i] = change.Attribute
		}
		gone.Evidence = append(gone.Evidence, Fact{"changed", strings.Join(names, ", ")})
	}
}

// noSuccessorAt returns why the pool of a replaced node does not get its successor, or "".
func (mp *minReadyPlanner) noSuccessorAt(old *replacedNode, label string) string {
	here := mp.world.poolByKey[old.pool].offers[label]
	if here == nil {
		return "the pool no longer offers the label"
	}
	if why := mp.placement.offerBlocker(here); why != nil {
		return why.String()
	}
	if why := mp.capacity.capacityBlocker(here); why != nil {
		return why.String()
	}
	return ""
}

// flavorOf returns the flavor of a node, from the configuration that it was created with or else from the cloud.
func (pl *placement) flavorOf(n *resources.Node) string {
	if template := pl.world.template(n.Hash); template != nil {
		if flavor := staticText(template.Static["flavor"]); flavor != "" {
			return flavor
		}
	}
	if instance := pl.world.instances[n.ID]; instance != nil {
		return instance.Flavor
	}
	return ""
}

// flavorAt returns the flavor of a new node, from the configuration or else from the cloud.
func (pl *placement) flavorAt(at *poolOffer) string {
	if flavor := staticText(at.offer.Static["flavor"]); flavor != "" {
		return flavor
	}
	view, _ := pl.world.view(at.at.provider)
	return view.Offers[OfferKey{at.at.pool, at.offer.Label}].Flavor
}

// staticText returns a replacing attribute, which is stored as JSON, without the quotes of a string.
func staticText(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}

// wholeMoves clears the move of a step if the plan has no step for the other half, for example because of -target.
func wholeMoves(steps []Step) {
	halves := map[string]int{}
	for i := range steps {
		if m := steps[i].Move; m != nil {
			halves[m.Node]++
		}
	}
	for i := range steps {
		if m := steps[i].Move; m != nil && halves[m.Node] == 1 {
			steps[i].Move, steps[i].Replaces, steps[i].ReplacesNode, steps[i].Changes = nil, false, "", nil
		}
	}
}
