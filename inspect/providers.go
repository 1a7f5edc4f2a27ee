package inspect

import (
	"maps"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// Fleet is the input of views of labels, providers, nodes and requests.
type Fleet struct {
	Desired  resources.Desired
	Observed plan.Observed
}

// Service states how a process serves the providers.
type Service struct {
	Only      []string // the providers that the process serves; empty: all
	Frozen    []string
	NotListed []string                                   // since the start of the process
	Leader    func(provider string) (state.Holder, bool) // returns the leader of a provider while this process is a standby; may be nil
}

// Providers describes the configured and recorded providers, sorted by name.
func (w *Fleet) Providers(by Service) []wire.Provider {
	byName := map[string]*wire.Provider{}
	for i := range w.Desired.Providers {
		p := &w.Desired.Providers[i]
		byName[p.Name] = &wire.Provider{Name: p.Name, Driver: p.Driver, Configured: true, Priority: p.Priority, Pools: w.pools(p)}
	}
	for _, r := range w.Observed.Records.Providers {
		if byName[r.Name] == nil {
			byName[r.Name] = &wire.Provider{Name: r.Name, Driver: r.Driver, Pools: []wire.Pool{}}
		}
	}
	list := []wire.Provider{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		p.Served = len(by.Only) == 0 || slices.Contains(by.Only, name)
		p.Frozen, p.Queried = slices.Contains(by.Frozen, name), p.Served && !slices.Contains(by.NotListed, name)
		if by.Leader != nil {
			if other, standsBy := by.Leader(name); standsBy {
				p.Leader = &other
			}
		}
		w.addObserved(p)
		p.Use, p.Nodes = w.use(func(n *resources.Node) bool { return n.Provider == name })
		list = append(list, *p)
	}
	return list
}

// addObserved adds the observed state of the provider.
func (w *Fleet) addObserved(p *wire.Provider) {
	view := w.Observed.Providers[p.Name]
	p.Location, p.Instances, p.Leftovers = view.Location, len(view.Instances), len(view.Leftovers)
	p.LaunchFailure = w.Observed.LaunchFailures[plan.ProviderAddress(p.Name)]
	if p.Queried {
		p.Error = view.Err
	}
	if !view.ListedAt.IsZero() {
		p.ListedAt, p.Quota = view.ListedAt, &wire.Quota{Limit: view.Quota.Limit, Used: view.Quota.Used}
	}
}

func (w *Fleet) pools(p *resources.Provider) []wire.Pool {
	pools := []wire.Pool{}
	for i := range p.Pools {
		pool := &p.Pools[i]
		use, _ := w.use(func(n *resources.Node) bool { return n.Provider == p.Name && n.Pool == pool.Name })
		pools = append(pools, wire.Pool{Name: pool.Name, MaxServers: pool.MaxServers, MaxCores: pool.MaxCores, MaxRAM: pool.MaxRAM, Use: use,
			Labels: pool.LabelNames(), Machines: len(pool.Nodes)})
	}
	return pools
}

// use sums the resources that the selected nodes use and counts the nodes by state. Static nodes use no resources.
func (w *Fleet) use(of func(*resources.Node) bool) (sum resources.ResourceAmounts, states map[resources.State]int) {
	states = map[resources.State]int{}
	for _, n := range w.Observed.Records.Nodes {
		if !of(n) {
			continue
		}
		states[n.State]++
		if n.Static {
			continue
		}
		r := n.Resources
		sum = resources.ResourceAmounts{Instances: sum.Instances + max(r.Instances, 1), Cores: sum.Cores + r.Cores, RAM: sum.RAM + r.RAM,
			Volumes: sum.Volumes + r.Volumes, VolumeGB: sum.VolumeGB + r.VolumeGB, Addresses: sum.Addresses + r.Addresses}
	}
	return sum, states
}
