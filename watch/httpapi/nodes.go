package httpapi

import (
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

func (c *call) listNodes() (any, error) {
	states, err := c.states(resources.KindNode)
	if err != nil {
		return nil, err
	}
	records, busy := c.records()
	filter := wire.NodeFilter{States: states, Label: c.values.Get("label"), Provider: c.values.Get("provider"), Pool: c.values.Get("pool"),
		Request: c.values.Get("request"), Tenant: c.values.Get("tenant")}
	chosen := slices.DeleteFunc(records.Nodes, func(n *resources.Node) bool { return !filter.Matches(n) })
	chosen, next := page(c, chosen, func(n *resources.Node) string { return n.ID })
	doing := c.doing()
	list := wire.Nodes{Nodes: make([]wire.Node, len(chosen)), Next: next}
	for i, n := range chosen {
		list.Nodes[i] = wire.Node{Node: *n, Step: doing.of(n, busy)}
	}
	return list, nil
}

// runningSteps holds the running steps by the record that they change.
type runningSteps map[resources.Key]plan.Step

func (s *Server) doing() runningSteps {
	d := runningSteps{}
	for _, step := range s.daemon.Runner().Running() {
		if step.Record.Kind != "" {
			d[step.Record] = step
		}
	}
	return d
}

// of describes the step that runs on a node. It is empty if none does.
func (d runningSteps) of(n *resources.Node, busy map[resources.Key]bool) string {
	if step, ok := d[n.Key()]; ok {
		return string(step.Action) + " (" + step.Reason.Text() + ")"
	}
	if !busy[n.Key()] {
		return ""
	}
	if n.State == resources.StateInit || n.State == resources.StateBuilding {
		return string(plan.ActionLaunch)
	}
	return string(plan.ActionUpdate)
}

func (c *call) showNode() (any, error) {
	states, err := c.states(resources.KindNode)
	if err != nil {
		return nil, err
	}
	var n *resources.Node
	before := resources.State("")
	look := func() (done bool, err error) {
		if n, err = c.daemon.Clients.Node(c.id()); err != nil {
			return false, notFoundError("node", c.id(), err)
		}
		if before == "" {
			before = n.State
		}
		if len(states) == 0 {
			return n.State != before, nil
		}
		return slices.Contains(states, string(n.State)), nil
	}
	if err := c.await("node/"+c.id(), c.wait(), look); err != nil {
		return nil, err
	}
	return c.shown(n), nil
}

// shown returns a node with its running step.
func (c *call) shown(n *resources.Node) wire.Node {
	_, busy := c.records()
	return wire.Node{Node: *n, Step: c.doing().of(n, busy)}
}

// changed returns the response for a changed node.
func (c *call) changed(n *resources.Node, err error) (any, error) {
	if err != nil {
		return nil, notFoundError("node", c.id(), err)
	}
	return wire.Node{Node: *n}, nil
}

func (c *call) renewNode() (any, error) {
	who, err := body[wire.Renew](c)
	if err != nil {
		return nil, err
	}
	return c.changed(c.daemon.Clients.Renew(c.ctx(), c.id(), who.Holder))
}

func (c *call) returnNode() (any, error) { return c.changed(c.daemon.Clients.Return(c.ctx(), c.id())) }

func (c *call) holdNode() (any, error) {
	why, err := body[wire.Hold](c)
	if err != nil {
		return nil, err
	}
	return c.changed(c.daemon.Clients.Hold(c.ctx(), c.id(), why.Reason, why.Until))
}

func (c *call) releaseNode() (any, error) {
	return c.changed(c.daemon.Clients.Release(c.ctx(), c.id()))
}

func (c *call) deleteNode() (any, error) {
	return c.changed(c.daemon.Clients.DeleteNode(c.ctx(), c.id(), c.values.Get("reason"), c.boolParam("force")))
}
