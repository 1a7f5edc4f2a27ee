package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// Some providers use nodes of other providers (drivers.NodeUser), which they request as clients do. Such a node is in use
// until its provider no longer needs it. Only the provider decides that: in its listing, and again when the step runs.

// SlotsOf returns the nodes of the provider that uses a node, as far as they run on it: the cloud ID of such a node starts
// with the ID of the request by which its provider obtained the other one.
func (r *Records) SlotsOf(backing *resources.Node) (slots []*resources.Node) {
	for _, n := range r.Nodes {
		if backing.State.IsInService() && isOn(n, backing.Request, backing.Requestor) {
			slots = append(slots, n)
		}
	}
	return slots
}

// BackingOf returns the node on which a node runs, or the request for it. Both are nil for a node that runs on no other.
func (r *Records) BackingOf(n *resources.Node) (*resources.Node, *resources.Request) {
	for _, q := range r.Requests {
		if isOn(n, q.ID, q.Requestor) {
			return nil, q
		}
	}
	for _, backing := range r.Nodes {
		if backing.State.IsInService() && isOn(n, backing.Request, backing.Requestor) {
			return backing, nil
		}
	}
	return nil, nil
}

func isOn(n *resources.Node, request, requestor string) bool {
	_, provider, ok := resources.SourceOf(requestor)
	return ok && n.Provider == provider && request != "" && backingRequest(n) == request
}

// backingRequest returns the ID of the request for the backing node of a slot. Of other nodes it is the ID of no request.
func backingRequest(slot *resources.Node) string {
	return slot.ExternalID[:max(strings.LastIndexByte(slot.ExternalID, '-'), 0)]
}

// backingNodes contains the backing nodes in service, by the name of the provider that uses them and its request.
type backingNodes map[string]*resources.Node

func backingNodesOf(nodes []*resources.Node) backingNodes {
	b := backingNodes{}
	for _, n := range nodes {
		if _, provider, ok := resources.SourceOf(n.Requestor); ok && n.State.IsInService() && n.Request != "" {
			b[provider+" "+n.Request] = n
		}
	}
	return b
}

// of returns the node on which a node runs, or nil.
func (b backingNodes) of(n *resources.Node) *resources.Node {
	return b[n.Provider+" "+backingRequest(n)]
}

// isUnusableBacking reports whether a listing after the given time shows that no job can use the slots of a backing node.
func (w *world) isUnusableBacking(backing *resources.Node, after time.Time) bool {
	view, looked := w.view(backing.Provider)
	if !looked || !after.Before(view.ListedAt) {
		return false
	}
	reason, _ := w.unusable(backing)
	return reason != "" || w.isGone(backing)
}

// IsSource reports whether a provider is the requestor, and not a client.
func (r *Records) IsSource(requestor string) bool {
	driver, provider, ok := resources.SourceOf(requestor)
	return ok && slices.ContainsFunc(r.Providers, func(p *resources.ProviderRecord) bool { return p.Name == provider && p.Driver == driver })
}

// isIdleBacking reports whether a node is in use by a provider that runs no node in service on it.
func (r *Records) isIdleBacking(n *resources.Node) bool {
	return r.IsSource(n.Requestor) && !slices.ContainsFunc(r.SlotsOf(n), func(slot *resources.Node) bool { return slot.State.IsInService() })
}

// planUnneeded returns the nodes that providers no longer need. planRequests ends the requests.
func planUnneeded(w *world, d *draft) {
	if w.opt.Destroy || w.opt.RefreshOnly {
		return
	}
	for _, name := range w.names {
		view, _ := w.view(name)
		for _, u := range view.Unneeded {
			n := w.node[u.Node]
			if n == nil || w.busy(n.Key()) || !w.isSourced(n, u.Request) {
				continue // it has changed since the listing
			}
			d.add(Step{ID: "return node " + n.ID, Address: nodeAddress(n.ID), Kind: KindUpdateNode, Reason: ReasonIdle,
				Provider: name, Label: u.Label, Request: u.Request, Record: n.Key(), Evidence: []Fact{{"because", u.Why}}})
		}
	}
}

// isSourced reports whether a node is the result of a request of a provider: in use, or ready to be taken.
func (w *world) isSourced(n *resources.Node, request string) bool {
	if n.Request != request {
		return false
	}
	r := w.requests[request]
	return n.State == resources.StateInUse || n.State == resources.StateReady && r != nil && slices.Contains(r.Nodes, n.ID)
}

// usedBy returns the nodes of other providers that a provider has requested and that exist.
func (w *world) usedBy(p *resources.ProviderRecord) (nodes []*resources.Node) {
	for _, n := range w.seen.Records.Nodes {
		if n.Requestor == resources.SourceRequestor(p.Driver, p.Name) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// requestsNodes reports whether a provider waits for a node of another provider.
func (w *world) requestsNodes(p *resources.ProviderRecord) bool {
	return !w.opt.Destroy && slices.ContainsFunc(w.seen.Records.Requests, func(r *resources.Request) bool {
		return r.State != resources.StateFailed && r.Requestor == resources.SourceRequestor(p.Driver, p.Name)
	})
}
