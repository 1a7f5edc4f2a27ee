package httpapi

import (
	"maps"
	"net/http"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// snapshot is the input for responses about providers and labels.
type snapshot struct {
	pass    watch.Pass
	records plan.Records
	busy    map[resources.Key]bool
}

func (s *Server) world() snapshot {
	w := snapshot{pass: s.daemon.Last()}
	w.pass.Desired = s.daemon.Desired()
	w.records, w.busy = s.records()
	return w
}

// providers merges the configured providers with the records of providers.
func (s *Server) providers() []wire.Provider {
	w := s.world()
	byName := map[string]*wire.Provider{}
	for i := range w.pass.Desired.Providers {
		p := &w.pass.Desired.Providers[i]
		byName[p.Name] = &wire.Provider{Name: p.Name, Driver: p.Driver, Configured: true, Priority: p.Priority, Pools: w.pools(p)}
	}
	for _, r := range w.records.Providers {
		if byName[r.Name] == nil {
			byName[r.Name] = &wire.Provider{Name: r.Name, Driver: r.Driver, Pools: []wire.Pool{}}
		}
	}
	frozen, unseen := s.daemon.Frozen(), s.daemon.ProvidersNotListed()
	list := []wire.Provider{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		p.Served = len(s.daemon.Providers) == 0 || slices.Contains(s.daemon.Providers, name)
		p.Frozen, p.Queried = slices.Contains(frozen, name), p.Served && !slices.Contains(unseen, name)
		if other, standsBy := s.daemon.Leader(name); standsBy {
			p.Leader = &other
		}
		w.addObserved(p)
		p.Use, p.Nodes = w.use(func(n *resources.Node) bool { return n.Provider == name })
		list = append(list, *p)
	}
	return list
}

// addObserved adds the observed state of the provider.
func (w *snapshot) addObserved(p *wire.Provider) {
	view := w.pass.Observed.Providers[p.Name]
	p.Location, p.Instances, p.Leftovers = view.Location, len(view.Instances), len(view.Leftovers)
	p.LaunchFailure = w.pass.Observed.LaunchFailures[plan.ProviderAddress(p.Name)]
	if p.Queried {
		p.Error = view.Err
	}
	if !view.ListedAt.IsZero() {
		p.ListedAt, p.Quota = view.ListedAt, &wire.Quota{Limit: view.Quota.Limit, Used: view.Quota.Used}
	}
}

func (w *snapshot) pools(p *resources.Provider) []wire.Pool {
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
func (w *snapshot) use(of func(*resources.Node) bool) (sum resources.ResourceAmounts, states map[resources.State]int) {
	states = map[resources.State]int{}
	for _, n := range w.records.Nodes {
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

func (c *call) listProviders() (any, error) { return wire.Providers{Providers: c.providers()}, nil }

func (c *call) showProvider() (any, error) {
	all := c.providers()
	names := make([]string, len(all))
	for i := range all {
		if all[i].Name == c.id() {
			return all[i], nil
		}
		names[i] = all[i].Name
	}
	return nil, unknown("provider", c.id(), names)
}

func (c *call) freezeProvider() (any, error) { return c.freeze(true) }
func (c *call) thawProvider() (any, error)   { return c.freeze(false) }

func (c *call) freeze(frozen bool) (any, error) {
	found, err := c.showProvider()
	if err != nil {
		return nil, err
	}
	before := found.(wire.Provider)
	if !before.Configured {
		return nil, withHint(notFound("provider %s is no longer configured", quoted(c.id())), "only providers of the configuration can be frozen")
	}
	if !before.Served {
		return nil, &apiError{status: http.StatusConflict, code: wire.CodeInvalidState, detail: "provider " + before.Name + " is not served by this daemon",
			hint: "npctl watch runs with -provider and does not include it"}
	}
	if err = c.daemon.Freeze(c.ctx(), before.Name, frozen); err != nil {
		return nil, err
	}
	if before.Frozen != frozen {
		code, text := "thawed", "managed again"
		if frozen {
			code, text = "frozen", "not managed until it is thawed"
		}
		c.daemon.Journal.Add(resources.Event{Time: c.daemon.Engine.Now(), Subject: "provider/" + before.Name, Code: code, Text: text})
	}
	return c.showProvider()
}
