package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// town is a store that two launchers and a requestor share. It enforces locks and revisions and nothing else: a
// launcher may act on an old plan.
type town struct {
	t        *rapid.T
	now      time.Time
	next     int
	requests map[string]*resources.Request
	nodes    map[string]*resources.Node
	revision map[resources.Key]int
	claims   map[resources.Key]string // name of the owner
	shops    []*shop
	served   map[string]string // request → the launcher that fulfilled it
	answers  map[string]string
	failing  *rapid.Generator[bool] // of launches
}

// shop is a launcher with its own provider.
type shop struct {
	name     string
	want     resources.Desired
	peer     resources.RegisteredPool
	starts   int
	plan     Plan
	revision map[resources.Key]int // revisions when the plan was computed
}

func (w *town) open(name string, labels []string) *shop {
	most := rapid.Int64Range(1, 3).Draw(w.t, "max_servers of "+name)
	pool := resources.Pool{Name: "main", Limits: resources.Limits{MaxServers: &most}, Priority: rapid.Int64Range(1, 2).Draw(w.t, "priority of "+name)}
	s := &shop{name: name}
	for _, label := range labels {
		s.want.Labels = append(s.want.Labels, resources.Label{Name: label})
		pool.Offers = append(pool.Offers, resources.Offer{Label: label, Image: resources.ImageRef{Kind: resources.CloudImage, Name: "debian"}})
	}
	slices.SortFunc(s.want.Labels, func(a, b resources.Label) int { return len(a.Name) - len(b.Name) })
	s.want.Providers = []resources.Provider{{Name: name, Pools: []resources.Pool{pool}}}
	s.peer = resources.RegisteredPool{Own: true, Provider: name, Pool: "main", Labels: labels, Priority: pool.Priority}
	s.register()
	return s
}

func (s *shop) register() {
	s.starts++
	s.peer.ID, s.peer.Paused = fmt.Sprintf("%s-%d", s.name, s.starts), false
}

func (w *town) put(r resources.Record) {
	w.revision[r.Key()]++
	switch r := r.(type) {
	case *resources.Request:
		w.requests[r.ID] = r
	case *resources.Node:
		w.nodes[r.ID] = r
	}
}

func (w *town) id() string { w.next++; return fmt.Sprintf("%010d", w.next) }

// look observes the store and computes the launcher's plan.
func (w *town) look(s *shop) {
	w.now = w.now.Add(time.Second)
	view := ProviderView{ListedAt: w.now, Quota: unlimited()}
	o := Observed{Now: w.now, Installation: "here", Shared: true, ForeignClaims: map[resources.Key]bool{}, OwnClaims: map[resources.Key]bool{},
		Providers: map[string]ProviderView{}}
	for _, id := range slices.Sorted(maps.Keys(w.requests)) {
		r := *w.requests[id]
		o.Records.Requests = append(o.Records.Requests, &r)
	}
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		n := *w.nodes[id]
		o.Records.Nodes = append(o.Records.Nodes, &n)
		if n.Provider == s.name && n.ExternalID != "" {
			view.Instances = append(view.Instances, instance(n.ID))
		}
	}
	o.Providers[s.name] = view
	for key, who := range w.claims {
		o.ForeignClaims[key], o.OwnClaims[key] = who != s.name, who == s.name
	}
	for _, other := range w.shops {
		p := other.peer
		p.Own = other == s
		o.RegisteredPools = append(o.RegisteredPools, p)
	}
	s.plan, s.revision = Compute(s.want, o, Options{}), maps.Clone(w.revision)
	if wrong := foreignField(s.plan.Steps); wrong != "" {
		w.t.Fatal(wrong)
	}
	s.peer.Paused = len(s.plan.Waiting) > 0
}

// may reports whether the launcher gets the lock of a record, which must be unchanged since its plan.
func (w *town) may(s *shop, key resources.Key) bool {
	by, taken := w.claims[key]
	return (!taken || by == s.name) && w.revision[key] == s.revision[key]
}

// act executes the launcher's plan, as far as locks and revisions still allow.
func (w *town) act(s *shop) {
	done := map[string]bool{}
	for _, step := range s.plan.Steps {
		needed := !slices.ContainsFunc(step.Needs, func(id string) bool { return !done[id] })
		if needed && (step.Record.Kind == "" || w.may(s, step.Record)) {
			done[step.ID] = w.do(s, step)
		}
	}
	s.plan = Plan{}
}

func (w *town) do(s *shop, step Step) bool {
	switch {
	case step.Kind == KindServe:
		return w.serve(s, step)
	case step.Kind == KindDecline:
		w.decline(step)
	case step.Reason == ReasonAbandoned:
		w.restart(s, step)
	case step.Kind == KindLaunch:
		return w.launch(s, step)
	case step.Kind == KindUpdateNode:
		n := *w.nodes[step.Record.ID]
		if step.Reason == ReasonRequestGone {
			n.Request = ""
		} else {
			n.State = resources.StateUsed
		}
		w.put(&n)
	case step.Thing == ThingNode && (step.Action == ActionDelete || step.Action == ActionForget):
		delete(w.nodes, step.Record.ID)
		delete(w.claims, step.Record)
	default:
		w.t.Fatalf("%s of %s is not a launcher's business", step.ID, s.name)
	}
	return true
}

func (w *town) serve(s *shop, step Step) bool {
	r := *w.requests[step.Request]
	var nodes []*resources.Node
	for _, id := range step.Nodes {
		if id == "" {
			continue
		}
		n := w.nodes[id]
		if n == nil || !w.may(s, n.Key()) || n.State != resources.StateReady || n.Provider != s.name {
			return false
		}
		taken := *n
		taken.Request = r.ID
		nodes = append(nodes, &taken)
	}
	w.claims[r.Key()] = s.name
	for _, n := range nodes {
		w.claims[n.Key()] = s.name
		w.put(n)
	}
	r.State, r.Placement = resources.StatePending, resources.Placement{Provider: step.Provider, Pool: step.Pool, Zone: step.Zone}
	if len(nodes) == len(r.Labels) {
		if before := w.served[r.ID]; before != "" {
			w.t.Fatalf("request %s is served by %s and was by %s", r.ID, s.name, before)
		}
		w.served[r.ID] = s.name
		r.State, r.Nodes = resources.StateFulfilled, step.Nodes
		for _, n := range nodes {
			delete(w.claims, n.Key())
		}
		delete(w.claims, r.Key())
	}
	w.put(&r)
	return true
}

func (w *town) decline(step Step) {
	r := *w.requests[step.Request]
	r.Declined, r.State, r.Placement = step.Declined, resources.StateRequested, resources.Placement{}
	if step.Reason == ReasonAllDeclined {
		r.State = resources.StateFailed
		for _, s := range w.shops {
			if !declinedBy(r.Declined, s.peer.ID) && s.starts == 1 {
				w.t.Fatalf("request %s failed without the decline of %s: %v", r.ID, s.peer.ID, r.Declined)
			}
		}
	}
	delete(w.claims, r.Key())
	for _, n := range w.nodes {
		if n.Request == r.ID {
			delete(w.claims, n.Key())
		}
	}
	w.put(&r)
}

func (w *town) restart(s *shop, step Step) {
	r := *w.requests[step.Request]
	if w.claims[r.Key()] != "" {
		w.t.Fatalf("request %s is restarted, and %s works on it", r.ID, w.claims[r.Key()])
	}
	for _, id := range step.Nodes {
		if n := w.nodes[id]; n != nil && w.may(s, n.Key()) {
			freed := *n
			freed.Request = ""
			w.put(&freed)
		}
	}
	r.State, r.Nodes, r.Placement = resources.StateRequested, nil, resources.Placement{}
	w.put(&r)
}

func (w *town) launch(s *shop, step Step) bool {
	if step.Request != "" && w.claims[resources.Key{Kind: resources.KindRequest, ID: step.Request}] != s.name {
		return false // the claim was lost
	}
	n := &resources.Node{ID: w.id(), Provider: s.name, Pool: step.Pool, Labels: []string{step.Label}, Request: step.Request, StateTime: w.now, Created: w.now}
	if step.Record.Kind != "" {
		again := *w.nodes[step.Record.ID]
		n = &again
	}
	n.State, n.ExternalID = resources.StateReady, "server-"+n.ID
	if w.failing.Draw(w.t, "launch fails") {
		n.State, n.Error = resources.StateFailed, "no valid host"
	}
	w.claims[n.Key()] = s.name
	if n.Request == "" || n.State == resources.StateFailed {
		delete(w.claims, n.Key())
	}
	w.put(n)
	running := 0
	for _, other := range w.nodes {
		if other.Provider == s.name {
			running++
		}
	}
	if most := *s.want.Providers[0].Pools[0].MaxServers; int64(running) > most {
		w.t.Fatalf("%s has %d nodes, max_servers is %d", s.name, running, most)
	}
	return true
}

// crash ends a launcher's session and starts a new one.
func (w *town) crash(s *shop) {
	maps.DeleteFunc(w.claims, func(_ resources.Key, who string) bool { return who == s.name })
	s.plan = Plan{}
	s.register()
}

// use is the requestor: it takes the nodes of fulfilled requests and removes fulfilled and failed ones.
func (w *town) use() {
	for _, id := range slices.Sorted(maps.Keys(w.requests)) {
		r := w.requests[id]
		if w.claims[r.Key()] != "" || r.State != resources.StateFulfilled && r.State != resources.StateFailed {
			continue
		}
		w.answers[id] = string(r.State)
		for _, node := range r.Nodes {
			n := w.nodes[node]
			if n == nil || n.Request != id || n.State != resources.StateReady || w.claims[n.Key()] != "" {
				w.t.Fatalf("node %s of request %s is %+v, claimed by %q", node, id, n, w.claims[resources.Key{Kind: resources.KindNode, ID: node}])
			}
			used := *n
			used.State = resources.StateInUse
			w.claims[n.Key()] = "requestor"
			w.put(&used)
		}
		delete(w.requests, id)
	}
}

func (w *town) giveBack() {
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		if n := *w.nodes[id]; w.claims[n.Key()] == "requestor" {
			n.State = resources.StateUsed
			w.put(&n)
			delete(w.claims, n.Key())
		}
	}
}

func TestConcurrentLaunchersServeEachRequestOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &town{t: t, now: now, requests: map[string]*resources.Request{}, nodes: map[string]*resources.Node{}, revision: map[resources.Key]int{},
			claims: map[resources.Key]string{}, served: map[string]string{}, answers: map[string]string{}, failing: rapid.Just(false)}
		w.shops = []*shop{w.open("one", []string{"both", "first"}), w.open("two", []string{"both", "second"})}
		var asked []string
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			r := &resources.Request{ID: "200-" + w.id(), State: resources.StateRequested, Created: now, StateTime: now, Priority: 200,
				Labels:   rapid.SliceOfN(rapid.SampledFrom([]string{"both", "both", "both", "first", "second", "none"}), 1, 4).Draw(t, "labels"),
				Provider: rapid.SampledFrom([]string{"", "", "one", "two", "three"}).Draw(t, "provider")}
			w.put(r)
			asked = append(asked, r.ID)
		}
		w.failing = rapid.Bool()
		for range rapid.IntRange(0, 30).Draw(t, "turbulence") {
			s := w.shops[rapid.IntRange(0, 1).Draw(t, "who")]
			[]func(){func() { w.look(s) }, func() { w.look(s) }, func() { w.act(s) }, func() { w.act(s) }, func() { w.crash(s) }, w.use, w.giveBack}[rapid.IntRange(0, 6).Draw(t, "what")]()
		}
		w.failing = rapid.Just(false)
		for range 60 {
			for _, s := range w.shops {
				w.look(s)
				w.act(s)
			}
			w.use()
			w.giveBack()
		}
		for _, id := range asked {
			if w.answers[id] == "" {
				t.Fatalf("request %s has no answer: %+v\nclaims %v, nodes %s", id, w.requests[id], w.claims, w.census())
			}
		}
	})
}

func (w *town) census() (all string) {
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		n := w.nodes[id]
		all += fmt.Sprintf("%s %s %v %s for %q; ", id, n.Provider, n.Labels, n.State, n.Request)
	}
	return all
}
