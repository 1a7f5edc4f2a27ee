package inspect

import (
	"maps"
	"slices"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
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

// LockHolder describes a process that holds the lock of the state, or returns nil for none.
func LockHolder(h *state.Holder) *plan.LockHolder {
	if h == nil {
		return nil
	}
	return &plan.LockHolder{Operation: h.Operation, Who: h.UserHost, Host: h.Host, PID: h.PID, Since: h.Since}
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
		quota := wire.Quota(w.Observed.Quota(p.Name))
		p.ListedAt, p.Quota = view.ListedAt, &quota
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
		r.Instances = max(r.Instances, 1)
		sum = sum.Plus(r)
	}
	return sum, states
}

// NodeViews returns a function that describes nodes with the steps that run on them.
func (w *Fleet) NodeViews(running []plan.Step) func(*resources.Node) wire.Node {
	steps := map[resources.Key]*plan.Step{}
	for i := range running {
		steps[running[i].Record] = &running[i]
	}
	return func(n *resources.Node) wire.Node {
		shown, step := wire.Node{Node: *n}, steps[n.Key()]
		switch {
		case step != nil:
			shown.Step = string(step.Action) + " (" + step.Reason.Text() + ")"
		case !w.Observed.Busy[n.Key()]:
		case n.State == resources.StateInit || n.State == resources.StateBuilding:
			shown.Step = string(plan.ActionLaunch)
		default:
			shown.Step = string(plan.ActionUpdate)
		}
		return shown
	}
}

// RequestViews returns a function that describes requests with the nodes that are assigned to them.
func (w *Fleet) RequestViews() func(*resources.Request) wire.Request {
	assigned := map[string][]string{}
	for _, n := range w.Observed.Records.Nodes {
		if n.Request != "" && IsAssigned(n) {
			assigned[n.Request] = append(assigned[n.Request], n.ID)
		}
	}
	return func(r *resources.Request) wire.Request { return wire.Request{Request: *r, Assigned: assigned[r.ID]} }
}

// IsAssigned reports whether a node with a request waits for that request.
func IsAssigned(n *resources.Node) bool {
	return n.State == resources.StateReady || n.State == resources.StateInit || n.State == resources.StateBuilding
}

// IsFree reports whether a node is ready and not assigned.
func IsFree(n *resources.Node) bool { return n.State == resources.StateReady && n.Request == "" }

// Status counts the requests and nodes and summarizes a plan. The caller adds what only a process knows.
func (w *Fleet) Status(p plan.Plan) wire.Status {
	s := wire.Status{Installation: w.Observed.Installation, Requests: map[resources.State]int{}, Nodes: map[resources.State]int{},
		Plan: p.Summary().String(), Cost: plan.CostOf(w.Desired, w.Observed), Problems: []string{}}
	for _, r := range w.Observed.Records.Requests {
		s.Requests[r.State]++
		if r.IsOpen() && (s.OldestRequest.IsZero() || r.Created.Before(s.OldestRequest)) {
			s.OldestRequest = r.Created
		}
	}
	for _, n := range w.Observed.Records.Nodes {
		s.Nodes[n.State]++
		if IsFree(n) {
			s.Free++
		}
	}
	for _, problem := range p.Problems {
		s.Problems = append(s.Problems, string(problem.Address)+": "+problem.Text)
	}
	for i := range w.Desired.Images {
		img := &w.Desired.Images[i]
		for _, failing := range imageFailures(ImageRecord(w.Observed.Records, img.Name), w.Observed.Now) {
			s.Problems = append(s.Problems, img.Ref().String()+": "+failing.Text)
		}
	}
	return s
}

// Labels lists the labels that requests can ask for, with the pools that offer them.
func (w *Fleet) Labels() []wire.Label {
	list := []wire.Label{}
	for _, name := range KnownLabels(w.Desired) {
		list = append(list, w.Label(name))
	}
	return list
}

// Label describes a label.
func (w *Fleet) Label(name string) wire.Label {
	l := wire.Label{Name: name, Offers: w.offers(name)}
	for _, declared := range w.Desired.Labels {
		if declared.Name == name {
			l.MinReady, l.MaxReadyAge = declared.MinReady, int64(declared.MaxReadyAge/time.Second)
		}
	}
	_, l.Nodes = w.use(func(n *resources.Node) bool { return slices.Contains(n.Labels, name) })
	for _, n := range w.Observed.Records.Nodes {
		if slices.Contains(n.Labels, name) && IsFree(n) {
			l.Free++
		}
	}
	for _, r := range w.Observed.Records.Requests {
		if r.IsOpen() && slices.Contains(r.Labels, name) {
			l.Waiting++
		}
	}
	return l
}

func (w *Fleet) offers(label string) []wire.Offer {
	offers := []wire.Offer{}
	for i := range w.Desired.Providers {
		p := &w.Desired.Providers[i]
		for j := range p.Pools {
			pool := &p.Pools[j]
			if offer := pool.Offer(label); offer != nil {
				offers = append(offers, w.offer(p.Name, pool.Name, offer))
			}
			if slots := slotsOf(pool, label); slots > 0 {
				offers = append(offers, wire.Offer{Provider: p.Name, Pool: pool.Name, Static: true, Slots: slots})
			}
		}
	}
	return offers
}

func (w *Fleet) offer(provider, pool string, o *resources.Offer) wire.Offer {
	view := w.Observed.Providers[provider].Offers[plan.OfferKey{Pool: pool, Label: o.Label}]
	shown := wire.Offer{Provider: provider, Pool: pool, Image: o.Image.String(), Flavor: view.Flavor, Resources: view.Resources,
		LaunchFailure: w.Observed.LaunchFailures[plan.OfferAddress(provider, pool, o.Label)]}
	if p, ok := w.Desired.Provider(provider); ok {
		shown.Price, _ = p.Price(view.FlavorNames)
	}
	for _, p := range view.Problems {
		shown.Problems = append(shown.Problems, p.Attribute+" = "+text.Quote(p.Value)+": "+p.Detail)
	}
	return shown
}

func slotsOf(pool *resources.Pool, label string) (slots int64) {
	for _, n := range pool.Nodes {
		if slices.Contains(n.Labels, label) {
			slots += n.Slots
		}
	}
	return slots
}

// KnownLabels lists the labels that are declared or that a pool offers.
func KnownLabels(want resources.Desired) []string {
	names := OfferedLabels(want)
	for _, l := range want.Labels {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// OfferedLabels lists the labels that pools offer.
func OfferedLabels(want resources.Desired) []string {
	var names []string
	for i := range want.Providers {
		for j := range want.Providers[i].Pools {
			names = append(names, want.Providers[i].Pools[j].LabelNames()...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// StepView describes a step.
func StepView(s *plan.Step) wire.Step {
	shown := wire.Step{ID: s.ID, Address: string(s.Address), Action: string(s.Action), Thing: string(s.Thing), Reason: string(s.Reason),
		Text: s.Reason.Text(), Image: s.Image, Provider: s.Provider, Pool: s.Pool, Label: s.Label, Request: s.Request, Needs: s.Needs, Estimate: s.Estimate}
	if s.Record.Kind != "" {
		shown.Record = s.Record.String()
	}
	return shown
}
