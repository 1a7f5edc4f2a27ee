package plan

import (
	"encoding/json"
	"strings"

	"github.com/npctl/npctl/resources"
)

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
	s.Replaces, gone.Replaces = true, true
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
			steps[i].Move, steps[i].Replaces, steps[i].Changes = nil, false, nil
		}
	}
}
