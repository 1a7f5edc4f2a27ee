package httpapi

import (
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// nodeRoutes answers the calls about nodes.
type nodeRoutes struct{ daemon *watch.Daemon }

func (n nodeRoutes) list(c *call) (any, error) {
	states, err := c.states(resources.KindNode)
	if err != nil {
		return nil, err
	}
	records, busy := currentRecords(n.daemon)
	filter := wire.NodeFilter{States: states, Label: c.values.Get("label"), Provider: c.values.Get("provider"), Pool: c.values.Get("pool"),
		Request: c.values.Get("request"), Tenant: c.values.Get("tenant")}
	chosen := slices.DeleteFunc(records.Nodes, func(n *resources.Node) bool { return !filter.Matches(n) })
	chosen, next := page(c, chosen, func(n *resources.Node) string { return n.ID })
	doing := runningOf(n.daemon)
	list := wire.Nodes{Nodes: make([]wire.Node, len(chosen)), Next: next}
	for i, node := range chosen {
		list.Nodes[i] = wire.Node{Node: *node, Step: doing.of(node, busy)}
	}
	return list, nil
}

// runningSteps holds the running steps by the record that they change.
type runningSteps map[resources.Key]plan.Step

func runningOf(daemon *watch.Daemon) runningSteps {
	d := runningSteps{}
	for _, step := range daemon.Runner().Running() {
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

func (n nodeRoutes) show(c *call) (any, error) {
	states, err := c.states(resources.KindNode)
	if err != nil {
		return nil, err
	}
	var node *resources.Node
	before := resources.State("")
	check := func() (done bool, err error) {
		if node, err = n.daemon.Clients.Node(c.id()); err != nil {
			return false, notFoundError("node", c.id(), err)
		}
		if before == "" {
			before = node.State
		}
		if len(states) == 0 {
			return node.State != before, nil
		}
		return slices.Contains(states, string(node.State)), nil
	}
	if err := c.await(n.daemon.Journal, "node/"+c.id(), check); err != nil {
		return nil, err
	}
	_, busy := currentRecords(n.daemon)
	return wire.Node{Node: *node, Step: runningOf(n.daemon).of(node, busy)}, nil
}

func (n nodeRoutes) renew(c *call) (any, error) {
	lease, err := body[wire.Renew](c)
	if err != nil {
		return nil, err
	}
	return changedNode(c)(n.daemon.Clients.Renew(c.ctx(), c.id(), lease.Holder))
}

func (n nodeRoutes) giveBack(c *call) (any, error) {
	return changedNode(c)(n.daemon.Clients.Return(c.ctx(), c.id()))
}

func (n nodeRoutes) hold(c *call) (any, error) {
	hold, err := body[wire.Hold](c)
	if err != nil {
		return nil, err
	}
	return changedNode(c)(n.daemon.Clients.Hold(c.ctx(), c.id(), hold.Reason, hold.Until))
}

func (n nodeRoutes) release(c *call) (any, error) {
	return changedNode(c)(n.daemon.Clients.Release(c.ctx(), c.id()))
}

func (n nodeRoutes) remove(c *call) (any, error) {
	return changedNode(c)(n.daemon.Clients.DeleteNode(c.ctx(), c.id(), c.values.Get("reason"), c.boolParam("force")))
}

// changedNode returns a function that converts a changed node into the response.
func changedNode(c *call) func(*resources.Node, error) (any, error) {
	return func(n *resources.Node, err error) (any, error) {
		if err != nil {
			return nil, notFoundError("node", c.id(), err)
		}
		return wire.Node{Node: *n}, nil
	}
}
