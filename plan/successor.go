package plan

import (
	"encoding/json"
	"strings"

	"github.com/npctl/npctl/resources"
)

// retiredNode is a node that is to be replaced.
type retiredNode struct {
	pool   poolKey
	step   string // ID of its delete step
	node   *resources.Node
	forced []Change // what makes it unfit to stay
}

// Move says that the successor of a node is launched in another pool. Both halves of the replacement have it.
type Move struct {
	Node string `json:"node"` // id of the node that goes
	From Spot   `json:"from"`
	To   Spot   `json:"to"`
}

// Spot is a pool, with the flavor that a node has or gets there as far as it is known.
type Spot struct {
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Flavor   string `json:"flavor,omitempty"`
}

// retire plans the removal of a node that a launch may replace.
func (c *computation) retire(n *resources.Node, offer *resources.Offer, reason Reason, changes []Change, evidence ...Fact) {
	id := c.endNode(n, reason, evidence...)
	gone := c.step(id)
	for _, change := range changes { // nothing is replaced as long as there is no successor
		change.Forces = false
		gone.Changes = append(gone.Changes, change)
	}
	c.retired[offer.Label] = append(c.retired[offer.Label], &retiredNode{poolKey{n.Provider, n.Pool}, id, n, changes})
}

// replace pairs a launch with the removal of the node it replaces. That node goes after its successor is ready where
// there is room for both, and before the launch where there is not.
func (c *computation) replace(s *Step, old *retiredNode, at *place, use *poolUse, free map[string]*resources.Amounts) {
	gone := c.step(old.step)
	s.Replaces, gone.Replaces = true, true
	s.Reason = gone.Reason
	if old.pool == at.at {
		s.Changes, gone.Changes = old.forced, old.forced
		s.Evidence = append([]Fact{{"replaces", string(gone.Address)}}, s.Evidence...)
	} else {
		c.move(s, gone, old, at, free)
	}
	_, here := use.freed[old.step]
	if here && c.full(at, use, free) {
		s.Needs = append(s.Needs, old.step)
		use.release(old.step, free[s.Provider])
	} else {
		gone.Needs = append(gone.Needs, s.ID)
	}
}

// move marks both halves of a replacement whose successor is launched in another pool. Its changes are the differences
// between the two nodes.
func (c *computation) move(s, gone *Step, old *retiredNode, at *place, free map[string]*resources.Amounts) {
	move := &Move{Node: old.node.ID, From: Spot{old.pool.provider, old.pool.pool, c.flavorOf(old.node)},
		To: Spot{at.at.provider, at.at.pool, c.flavorAt(at)}}
	s.Move, gone.Move = move, move
	s.Changes = c.changes(old.node.Hash, at.offer.Static)
	for i := range s.Changes {
		s.Changes[i].Forces = false
	}
	if why := c.noSuccessorAt(old, s.Label, free); why != "" {
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

// noSuccessorAt says why the pool of a node that goes does not get its successor.
func (c *computation) noSuccessorAt(old *retiredNode, label string, free map[string]*resources.Amounts) string {
	here := c.placeOf(c.world.site[old.pool], label)
	if here == nil {
		return "the pool no longer offers the label"
	}
	if why := c.unable(here); why != "" {
		return why
	}
	if why := c.refusal(here, free); why != nil {
		return why.String()
	}
	return ""
}

// flavorOf is the flavor that a node has: as its configuration said when it was made, or else as the cloud shows it.
func (c *computation) flavorOf(n *resources.Node) string {
	if template := c.template(n.Hash); template != nil {
		if flavor := staticText(template.Static["flavor"]); flavor != "" {
			return flavor
		}
	}
	if instance := c.world.instances[n.ID]; instance != nil {
		return instance.Flavor
	}
	return ""
}

// flavorAt is the flavor that a node would get: as configured, or else as the cloud resolves it.
func (c *computation) flavorAt(at *place) string {
	if flavor := staticText(at.offer.Static["flavor"]); flavor != "" {
		return flavor
	}
	view, _ := c.view(at.at.provider)
	return view.Offers[OfferKey{at.at.pool, at.offer.Label}].Flavor
}

// staticText is a static attribute, which is kept as JSON, without its quotes.
func staticText(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}

// wholeMoves takes the other half's name from halves of moves that are left alone in a plan, such as by -target.
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
