package inspect

import (
	"github.com/npctl/npctl/resources"
)

// backing adds the node on which a node runs, and the nodes that run on it.
func (e *explanation) backing(n *resources.Node) {
	records := &e.Observed.Records
	node, request := records.BackingOf(n)
	switch {
	case node != nil:
		e.fact("backing node", "node/"+node.ID)
		e.relate("node/" + node.ID)
	case request != nil:
		e.fact("backing node", "of request/"+request.ID+", which is "+string(request.State))
		e.relate("request/" + request.ID)
	}
	if n.State != resources.StateInUse || n.Requestor == "" {
		return
	}
	for _, slot := range records.SlotsOf(n) {
		e.fact("slot", "node/"+slot.ID+", "+string(slot.State))
		e.relate("node/" + slot.ID)
	}
}
