package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// nodeRoutes answers the calls about nodes.
type nodeRoutes struct{ daemon *watch.Daemon }

func (n nodeRoutes) list(_ context.Context, in *listNodes) (wire.Nodes, error) {
	w := fleetOf(n.daemon)
	filter := wire.NodeFilter{States: in.State, Label: in.Label, Provider: in.Provider, Pool: in.Pool, Request: in.Request, Tenant: in.Tenant}
	chosen := slices.DeleteFunc(w.Observed.Records.Nodes, func(n *resources.Node) bool { return !filter.Matches(n) })
	chosen, next := page(in.Page, chosen, func(n *resources.Node) string { return n.ID })
	view := w.NodeViews(n.daemon.Runner().Running())
	list := wire.Nodes{Nodes: make([]wire.Node, len(chosen)), Next: next}
	for i, node := range chosen {
		list.Nodes[i] = view(node)
	}
	return list, nil
}

// fleetOf returns the current records.
func fleetOf(daemon *watch.Daemon) (w inspect.Fleet) {
	w.Observed.Records, w.Observed.Busy = daemon.Runner().Records()
	return w
}

func (n nodeRoutes) show(ctx context.Context, in *showNode) (wire.Node, error) {
	var node *resources.Node
	before := resources.State("")
	check := func() (done bool, err error) {
		if node, err = n.daemon.Clients.Node(in.ID); err != nil {
			return false, notFoundError("node", in.ID, err)
		}
		before = cmp.Or(before, node.State)
		if len(in.State) == 0 {
			return node.State != before, nil
		}
		return slices.Contains(in.State, string(node.State)), nil
	}
	if err := await(ctx, in.Wait.Duration, n.daemon.Journal, "node/"+in.ID, check); err != nil {
		return wire.Node{}, err
	}
	w := fleetOf(n.daemon)
	return w.NodeViews(n.daemon.Runner().Running())(node), nil
}

func (n nodeRoutes) access(ctx context.Context, in *nodeAccess) (wire.Access, error) {
	node, credentials, err := n.daemon.Clients.Access(ctx, in.ID, in.Holder)
	if err != nil {
		return wire.Access{}, notFoundError("node", in.ID, err)
	}
	return wire.Access{Node: node.ID, ConnectionType: node.Login.ConnectionType, Credentials: json.RawMessage(credentials)}, nil
}

func (n nodeRoutes) renew(ctx context.Context, in *with[wire.Renew]) (wire.Node, error) {
	return changedNode(in.ID)(n.daemon.Clients.Renew(ctx, in.ID, in.Body.Holder))
}

func (n nodeRoutes) giveBack(ctx context.Context, in *Named) (wire.Node, error) {
	return changedNode(in.ID)(n.daemon.Clients.Return(ctx, in.ID))
}

func (n nodeRoutes) hold(ctx context.Context, in *with[wire.Hold]) (wire.Node, error) {
	return changedNode(in.ID)(n.daemon.Clients.Hold(ctx, in.ID, in.Body.Reason, in.Body.Until))
}

func (n nodeRoutes) release(ctx context.Context, in *Named) (wire.Node, error) {
	return changedNode(in.ID)(n.daemon.Clients.Release(ctx, in.ID))
}

func (n nodeRoutes) remove(ctx context.Context, in *deleteNode) (wire.Node, error) {
	return changedNode(in.ID)(n.daemon.Clients.DeleteNode(ctx, in.ID, in.Reason, in.Force))
}

// changedNode returns a function that converts a changed node into the response.
func changedNode(id string) func(*resources.Node, error) (wire.Node, error) {
	return func(n *resources.Node, err error) (wire.Node, error) {
		if err != nil {
			return wire.Node{}, notFoundError("node", id, err)
		}
		return wire.Node{Node: *n}, nil
	}
}
