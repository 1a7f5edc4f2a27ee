package watch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// A shadow decides from the state that it would observe if npctl served the providers of the other processes: their
// pools are npctl's, and the work of other processes for requests that npctl has not decided about does not exist.
// Everything else is as observed. The functions change copies of records only.

// withPools replaces the registered pools of providers that are ours by the pools of this process.
func withPools(seen plan.Observed, own []resources.RegisteredPool, ours func(provider string) bool) plan.Observed {
	seen.RegisteredPools = slices.DeleteFunc(slices.Clone(seen.RegisteredPools), func(p resources.RegisteredPool) bool { return ours(p.Provider) })
	for _, p := range own {
		p.ID, p.Own = "shadow of "+p.Provider+"/"+p.Pool, true
		seen.RegisteredPools = append(seen.RegisteredPools, p)
	}
	return seen
}

// withUndecidedRequests returns seen as if no process had started work for the open requests: declines by replaced
// pools are removed, assigned nodes are idle, and nodes that were launched for the requests do not exist.
func withUndecidedRequests(seen plan.Observed, open []*resources.Request) plan.Observed {
	if len(open) == 0 {
		return seen
	}
	v := shadowObserved{Observed: seen, open: make(map[string]*resources.Request, len(open))}
	v.ForeignClaims = maps.Clone(seen.ForeignClaims)
	for _, r := range open {
		v.open[r.ID] = r
		delete(v.ForeignClaims, r.Key())
	}
	v.requests()
	v.nodes()
	return v.Observed
}

// shadowObserved is an observed state under modification.
type shadowObserved struct {
	plan.Observed
	open map[string]*resources.Request
}

// requests resets the open requests to requested, including those without a record.
func (v *shadowObserved) requests() {
	requests := make([]*resources.Request, 0, len(v.Records.Requests)+len(v.open))
	for _, r := range v.Records.Requests {
		if v.open[r.ID] == nil {
			requests = append(requests, r)
		}
	}
	for _, r := range v.open {
		again := *r
		again.State, again.Placement, again.Nodes, again.Error = resources.StateRequested, resources.Placement{}, nil, ""
		again.Declined = slices.DeleteFunc(slices.Clone(r.Declined), func(d resources.Decline) bool { return !v.registered(d.PoolID) })
		requests = append(requests, &again)
	}
	slices.SortFunc(requests, func(a, b *resources.Request) int { return cmp.Compare(a.ID, b.ID) })
	v.Records.Requests = requests
}

// registered reports whether a pool that declined a request is registered. Replaced pools are not.
func (v *shadowObserved) registered(id string) bool {
	return slices.ContainsFunc(v.RegisteredPools, func(p resources.RegisteredPool) bool { return p.ID == id })
}

func (v *shadowObserved) nodes() {
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
		delete(v.ForeignClaims, n.Key())
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

// launchedFor reports whether a node was launched for its request, as far as the clocks of several machines agree.
// Other nodes were ready before the request.
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

// gone marks the instance of an omitted node as deleted, which returns its share of the quota.
func (v *shadowObserved) gone(n *resources.Node) {
	seen, known := v.Providers[n.Provider]
	if !known || n.ExternalID == "" {
		return
	}
	gone := maps.Clone(seen.DeletedInstances)
	if gone == nil {
		gone = map[string]bool{}
	}
	gone[n.ExternalID] = true
	seen.DeletedInstances = gone
	v.Providers = maps.Clone(v.Providers)
	v.Providers[n.Provider] = seen
}
