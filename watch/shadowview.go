package watch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// What is decided about here is the world as it would be if npctl had the providers that others have: the pools are npctl's,
// and what others have begun for a request that npctl has not decided about yet, they have not. All else is as it is. No record
// is changed: those that look otherwise are copies.

// withPools puts pools of this process in the place of those that others have registered for its providers.
func withPools(seen plan.Observed, own []resources.Peer, ours func(provider string) bool) plan.Observed {
	seen.Peers = slices.DeleteFunc(slices.Clone(seen.Peers), func(p resources.Peer) bool { return ours(p.Provider) })
	for _, p := range own {
		p.ID, p.Own = "shadow of "+p.Provider+"/"+p.Pool, true
		seen.Peers = append(seen.Peers, p)
	}
	return seen
}

// withOpen shows requests as nobody had begun with them: what others have declined in the place of own pools they have not, nodes
// that they have taken are free, and those that were launched are not there.
func withOpen(seen plan.Observed, open []*resources.Request) plan.Observed {
	if len(open) == 0 {
		return seen
	}
	v := view{Observed: seen, open: make(map[string]*resources.Request, len(open))}
	v.Claimed = maps.Clone(seen.Claimed)
	for _, r := range open {
		v.open[r.ID] = r
		delete(v.Claimed, r.Key())
	}
	v.requests()
	v.nodes()
	return v.Observed
}

// view is an observation that is being changed.
type view struct {
	plan.Observed
	open map[string]*resources.Request
}

// requests opens requests, those that are gone already too.
func (v *view) requests() {
	requests := make([]*resources.Request, 0, len(v.Records.Requests)+len(v.open))
	for _, r := range v.Records.Requests {
		if v.open[r.ID] == nil {
			requests = append(requests, r)
		}
	}
	for _, r := range v.open {
		again := *r
		again.State, again.Place, again.Nodes, again.Error = resources.StateRequested, resources.Place{}, nil, ""
		again.Declined = slices.DeleteFunc(slices.Clone(r.Declined), func(d resources.Decline) bool { return !v.registered(d.By) })
		requests = append(requests, &again)
	}
	slices.SortFunc(requests, func(a, b *resources.Request) int { return cmp.Compare(a.ID, b.ID) })
	v.Records.Requests = requests
}

// registered reports whether a pool that has declined is there, which those are not that were replaced.
func (v *view) registered(id string) bool {
	return slices.ContainsFunc(v.Peers, func(p resources.Peer) bool { return p.ID == id })
}

func (v *view) nodes() {
	var nodes []*resources.Node
	for i, n := range v.Records.Nodes {
		r := v.open[n.Request]
		if r == nil {
			if nodes != nil {
				nodes = append(nodes, n)
			}
			continue
		}
		if nodes == nil {
			nodes = append(make([]*resources.Node, 0, len(v.Records.Nodes)), v.Records.Nodes[:i]...)
		}
		delete(v.Claimed, n.Key())
		if launchedFor(n, r) {
			v.gone(n)
			continue
		}
		free := *n
		free.State, free.Request, free.Tenant, free.Requestor, free.Lease = resources.StateReady, "", "", "", nil
		nodes = append(nodes, &free)
	}
	if nodes != nil {
		v.Records.Nodes = nodes
	}
}

// launchedFor reports whether a node of a request was launched for it, as far as clocks of several machines tell; the others
// were ready before.
func launchedFor(n *resources.Node, r *resources.Request) bool {
	switch {
	case n.Static:
		return false
	case n.State == resources.StateInit || n.State == resources.StateBuilding:
		return true
	default:
		return n.Created.After(r.Created)
	}
}

// gone gives back what the quota has for a node that is not to be there.
func (v *view) gone(n *resources.Node) {
	seen, looked := v.Providers[n.Provider]
	if !looked || n.ExternalID == "" {
		return
	}
	gone := maps.Clone(seen.Gone)
	if gone == nil {
		gone = map[string]bool{}
	}
	gone[n.ExternalID] = true
	seen.Gone = gone
	v.Providers = maps.Clone(v.Providers)
	v.Providers[n.Provider] = seen
}
