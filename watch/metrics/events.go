package metrics

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// Pass records a pass of the daemon. It is for watch.Options.Observe.
func (m *Metrics) Pass(p watch.Pass) {
	m.add("npctl_watch_passes_total", 1)
	m.fromZero(&p.Desired)
	m.time("npctl_watch_pass_seconds", p.Took.Seconds())
	m.mu.Lock()
	first := m.last.Observed.Now.IsZero()
	m.last = p
	launched := m.launched
	m.launched = nil
	answered := m.newlyAnswered(p)
	if first {
		answered = nil // an earlier daemon has counted them
	}
	noticed := m.firstSeen
	m.recordFirstSeen(p.Observed)
	m.mu.Unlock()
	for _, id := range launched {
		if n := nodeOf(p.Observed.Records.Nodes, id); n != nil {
			for part, seconds := range map[string]float64{"total": n.Seconds, "create": n.Phases.Create, "boot": n.Phases.Boot, "keyscan": n.Phases.Keyscan} {
				m.time("npctl_node_launch_seconds", seconds, n.Provider, part)
			}
			m.launchEnded(&p.Observed, n.Provider, n.Zone, n.Request, "ready")
		}
	}
	for _, r := range answered {
		m.finished(r, noticed[r.ID], p.Observed.Records.Nodes)
	}
}

// fromZero creates the counters of configured objects with the value 0, so that the first event is an increase.
func (m *Metrics) fromZero(want *resources.Desired) {
	for i := range want.Images {
		m.add("npctl_image_builds_total", 0, want.Images[i].Name, ready("done"))
		m.add("npctl_image_builds_total", 0, want.Images[i].Name, ready("failed"))
	}
	for i := range want.Providers {
		p := &want.Providers[i]
		if !slices.ContainsFunc(p.Pools, func(pool resources.Pool) bool { return len(pool.Offers) > 0 }) {
			continue // nothing is launched there
		}
		m.add("npctl_image_uploads_total", 0, p.Name, ready("done"))
		m.add("npctl_image_uploads_total", 0, p.Name, ready("failed"))
		m.add("npctl_node_launches_total", 0, p.Name, "ready", "")
		for _, reason := range Reasons {
			m.add("npctl_node_launches_total", 0, p.Name, "failed", reason)
		}
	}
}

// recordFirstSeen records when each request was first observed. It replaces the map and never changes the previous one.
// The caller holds mu.
func (m *Metrics) recordFirstSeen(seen plan.Observed) {
	noticed := make(map[string]time.Time, len(seen.Records.Requests))
	for _, r := range seen.Records.Requests {
		noticed[r.ID] = seen.Now
		if before, known := m.firstSeen[r.ID]; known {
			noticed[r.ID] = before
		}
	}
	m.firstSeen = noticed
}

// countedRetention is how long a request is remembered after a pass last observed it: RequestTaken may be called after
// a pass has observed that the request is gone.
const countedRetention = time.Minute

// newlyAnswered returns the requests that this process counts and that were fulfilled or failed since the previous
// pass. The caller holds mu.
func (m *Metrics) newlyAnswered(p watch.Pass) (fresh []*resources.Request) {
	seen := &p.Observed
	for _, r := range seen.Records.Requests {
		if !r.IsDone() {
			continue
		}
		if _, known := m.counted[r.ID]; !known && answeredHere(r, p) {
			fresh = append(fresh, r)
		}
		m.counted[r.ID] = seen.Now
	}
	maps.DeleteFunc(m.counted, func(_ string, last time.Time) bool { return seen.Now.Sub(last) > countedRetention })
	return fresh
}

// answeredHere reports whether this process counts a request. In a shared store the leader of the provider that the
// nodes are from counts it. Step counts failed requests there, in the process of the step that fails them.
func answeredHere(r *resources.Request, p watch.Pass) bool {
	return !p.Observed.Shared || r.State == resources.StateFulfilled && p.Leads[r.Placement.Provider]
}

// nodeOf returns the node with an ID from records that are sorted by ID, or nil.
func nodeOf(nodes []*resources.Node, id string) *resources.Node {
	i, found := slices.BinarySearchFunc(nodes, id, func(n *resources.Node, id string) int { return cmp.Compare(n.ID, id) })
	if !found {
		return nil
	}
	return nodes[i]
}

// RequestTaken records that a requestor has taken the nodes of its request. It is for watch.Options.Taken.
func (m *Metrics) RequestTaken(r *resources.Request, nodes []*resources.Node) {
	m.mu.Lock()
	_, known := m.counted[r.ID] // otherwise it was fulfilled and taken between two passes
	m.counted[r.ID] = m.last.Observed.Now
	noticed, here := m.firstSeen[r.ID], answeredHere(r, m.last)
	m.mu.Unlock()
	if !known && here {
		sorted := slices.SortedFunc(slices.Values(nodes), func(a, b *resources.Node) int { return cmp.Compare(a.ID, b.ID) })
		m.finished(r, noticed, sorted)
	}
	if len(nodes) > 0 {
		m.time("npctl_request_phase_seconds", max(0, nodes[0].StateTime.Sub(r.Ready).Seconds()), "accept")
	}
}

// finished counts an answered request.
func (m *Metrics) finished(r *resources.Request, noticed time.Time, nodes []*resources.Node) {
	if r.State == resources.StateFulfilled && r.Ready.IsZero() {
		return // another program has served it and recorded no times
	}
	m.add("npctl_requests_finished_total", 1, string(r.State))
	if r.State != resources.StateFulfilled {
		return
	}
	for i, label := range r.Labels {
		if !slices.Contains(r.Labels[:i], label) {
			m.time("npctl_request_ready_seconds", r.Ready.Sub(r.Created).Seconds(), label)
		}
	}
	own := make([]*resources.Node, 0, len(r.Nodes))
	for _, id := range r.Nodes {
		if n := nodeOf(nodes, id); n != nil {
			own = append(own, n)
		}
	}
	for _, p := range phases(r, noticed, own) {
		m.time("npctl_request_phase_seconds", p.took.Seconds(), p.name)
	}
}

// phase is a part of a request's time.
type phase struct {
	name string
	took time.Duration
}

// phases splits the time until a request was fulfilled. The nodes launch concurrently, so the node that was created
// last counts; nodes that were ready before took no time. A pass accepts an observed request at once when capacity is
// available, so the time between observation and launch is spent waiting for capacity.
func phases(r *resources.Request, noticed time.Time, nodes []*resources.Node) []phase {
	if noticed.IsZero() || noticed.After(r.PendingSince) {
		noticed = r.PendingSince
	}
	var last *resources.Node
	for _, n := range nodes {
		if !n.Static && n.Created.After(r.Created) && (last == nil || n.Created.After(last.Created)) {
			last = n
		}
	}
	rest := r.Ready.Sub(r.Created)
	var split []phase
	next := func(name string, took time.Duration) {
		took = max(0, min(took, rest))
		rest -= took
		split = append(split, phase{name, took})
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	next("queue", noticed.Sub(r.Created))
	if last == nil {
		next("quota", rest)
		return split
	}
	next("quota", last.Created.Sub(noticed))
	next("create", seconds(last.Phases.Create))
	next("boot", seconds(last.Phases.Boot))
	next("keyscan", seconds(last.Phases.Keyscan))
	next("other", rest)
	return split
}

// Compared counts a comparison by a shadow. It is for watch.Options.Compared.
func (m *Metrics) Compared(v watch.Comparison) {
	m.add("npctl_shadow_requests_total", 1, string(v.Result))
}

// Step counts the result of a step. It is for watch.Options.Step.
func (m *Metrics) Step(e reconcile.Event) {
	s := &e.Step
	result := "done"
	switch e.Kind {
	case reconcile.EventDone:
	case reconcile.EventFailed:
		result = "failed"
	default:
		return
	}
	m.add("npctl_steps_total", 1, string(s.Action), string(s.Thing), result)
	switch {
	case s.Kind == plan.KindLaunch && result == "failed":
		m.add("npctl_node_launches_total", 1, s.Provider, "failed", m.options.Classify(e.Err))
		m.mu.Lock()
		observed := m.last.Observed
		m.mu.Unlock()
		zone := ""
		if n := nodeOf(observed.Records.Nodes, e.ID); n != nil {
			zone = n.Zone
		}
		m.launchEnded(&observed, s.Provider, zone, s.Request, "failed")
	case s.Kind == plan.KindLaunch:
		m.add("npctl_node_launches_total", 1, s.Provider, "ready", "")
		m.mu.Lock()
		m.launched = append(m.launched, e.ID) // the next pass shows its record
		m.mu.Unlock()
	case s.Kind == plan.KindDecline && s.Reason != plan.ReasonDeclined && result == "done": // the step fails the request
		m.mu.Lock()
		shared := m.last.Observed.Shared
		m.mu.Unlock()
		if shared {
			m.add("npctl_requests_finished_total", 1, string(resources.StateFailed))
		}
	case s.Kind == plan.KindBuild:
		m.add("npctl_image_builds_total", 1, s.Image, ready(result))
		m.mu.Lock()
		m.exitCodes[s.Image] = e.ExitCode()
		m.mu.Unlock()
		if result == "done" {
			m.time("npctl_image_build_seconds", e.Took.Seconds(), s.Image)
		}
	case s.Kind == plan.KindUpload:
		m.add("npctl_image_uploads_total", 1, s.Provider, ready(result))
		if result == "done" {
			m.time("npctl_image_upload_seconds", e.Took.Seconds(), s.Provider)
		}
	case s.Action == plan.ActionDelete && s.Reason == plan.ReasonLeaked && result == "done":
		m.add("npctl_leaks_deleted_total", 1, s.Type)
	}
}

// maxRequestors bounds the values of the label requestor, which clients choose.
const maxRequestors = 50

// otherRequestor replaces requestors that are unknown or above maxRequestors.
const otherRequestor = "other"

// launchEnded counts a launch by zone and by requestor.
func (m *Metrics) launchEnded(o *plan.Observed, provider, zone, request, result string) {
	m.add("npctl_zone_launches_total", 1, provider, zone, result)
	requestor := cmp.Or(inspect.RequestorOf(o, request), otherRequestor)
	m.mu.Lock()
	if !m.requestors[requestor] && len(m.requestors) >= maxRequestors {
		requestor = otherRequestor
	}
	if requestor != otherRequestor {
		m.requestors[requestor] = true
	}
	m.mu.Unlock()
	m.add("npctl_requestor_launches_total", 1, requestor, result)
}

// ready returns the result of a step that creates an image: ready instead of done.
func ready(result string) string {
	if result == "done" {
		return "ready"
	}
	return result
}
