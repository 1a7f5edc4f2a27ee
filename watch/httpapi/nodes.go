package httpapi

import (
	"slices"

	"github.com/npctl/npctl/inspect"
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
	w := n.fleet()
	filter := wire.NodeFilter{States: states, Label: c.values.Get("label"), Provider: c.values.Get("provider"), Pool: c.values.Get("pool"),
		Request: c.values.Get("request"), Tenant: c.values.Get("tenant")}
	chosen := slices.DeleteFunc(w.Observed.Records.Nodes, func(n *resources.Node) bool { return !filter.Matches(n) })
	chosen, next := page(c, chosen, func(n *resources.Node) string { return n.ID })
	view := w.NodeViews(n.daemon.Runner().Running())
	list := wire.Nodes{Nodes: make([]wire.Node, len(chosen)), Next: next}
	for i, node := range chosen {
		list.Nodes[i] = view(node)
	}
	return list, nil
}

// fleet returns the current records.
func (n nodeRoutes) fleet() (w inspect.Fleet) {
	w.Observed.Records, w.Observed.Busy = n.daemon.Runner().Records()
	return w
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
	w := n.fleet()
	return w.NodeViews(n.daemon.Runner().Running())(node), nil
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
