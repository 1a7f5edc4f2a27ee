package watch

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// A shadow makes the same passes as any daemon, as if it led its providers, and starts no steps. It compares its
// decision about each request with the actual outcome, once.

// shadow holds the requests that a shadow compares.
type shadow struct {
	duties   duties
	log      *slog.Logger
	journal  *Journal
	compared func(Comparison) // may be nil

	mu             sync.Mutex                    // guards the fields below
	primed         bool                          // the first pass has tracked its requests
	open           map[string]*shadowedRequest   // requests without an answer, by ID
	done           map[string]bool               // compared requests that still have a record
	pendingAnswers map[string]*resources.Request // answers that no pass has compared yet; the requestor may delete its request before the next pass
	counts         map[Result]int
}

// shadowedRequest is the last known version of a request that other processes serve, with npctl's decision.
type shadowedRequest struct {
	*resources.Request
	choice Decision
}

func newShadow(duties duties, log *slog.Logger, journal *Journal, compared func(Comparison)) *shadow {
	return &shadow{duties: duties, log: log, journal: journal, compared: compared,
		open: map[string]*shadowedRequest{}, done: map[string]bool{}, pendingAnswers: map[string]*resources.Request{}, counts: map[Result]int{}}
}

// track adds and updates requests. It ignores requests that were answered before the first pass.
func (s *shadow) track(requests []*resources.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[string]bool, len(requests))
	for _, r := range requests {
		there[r.ID] = true
		switch known := s.open[r.ID]; {
		case known != nil:
			known.Request = r
		case s.done[r.ID]:
		case r.IsDone() && !s.primed:
			s.done[r.ID] = true
		default:
			s.open[r.ID] = &shadowedRequest{Request: r}
		}
	}
	for id, r := range s.pendingAnswers {
		if s.open[id] == nil && !s.done[id] {
			s.open[id] = &shadowedRequest{Request: r}
		}
	}
	s.primed = true
	maps.DeleteFunc(s.done, func(id string, _ bool) bool { return !there[id] })
}

// undecided returns the open requests without a final decision.
func (s *shadow) undecided() (open []*resources.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.open {
		if !r.choice.final() {
			open = append(open, r.Request)
		}
	}
	return open
}

// note records the decisions of a plan about requests.
func (s *shadow) note(p plan.Plan) {
	choices := choicesOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.open {
		if r.choice.final() {
			continue
		}
		r.choice = Decision{Do: DecideYield}
		if choice, ok := choices[id]; ok {
			r.choice = choice
		}
	}
}

// onAnswer records an answer for the next comparison.
func (s *shadow) onAnswer(r *resources.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.IsDone() && !s.done[r.ID] {
		s.pendingAnswers[r.ID] = r
	}
}

// compareEnded compares the requests that have ended. The function ours reports whether npctl would serve a provider.
func (s *shadow) compareEnded(seen plan.Observed, ours func(provider string) bool) (verdicts []Comparison) {
	there := make(map[string]*resources.Request, len(seen.Records.Requests))
	for _, r := range seen.Records.Requests {
		there[r.ID] = r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.endedRequests(there)
	nodes := nodesOf(seen.Records.Nodes, ended)
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		r := ended[id]
		live := outcomeOf(r.Request, nodes[id])
		live.Ours = live.Answer == AnswerFailed || ours(live.Place.Provider)
		v := Comparison{Time: seen.Now, Request: r.Request, Would: r.choice, Live: live, Result: compareDecision(r.choice, live)}
		verdicts = append(verdicts, v)
		s.counts[v.Result]++
		delete(s.open, id)
		if there[id] != nil {
			s.done[id] = true
		}
	}
	maps.DeleteFunc(s.pendingAnswers, func(id string, _ *resources.Request) bool { return ended[id] != nil || s.done[id] })
	return verdicts
}

// endedRequests returns the open requests that have an answer or no longer have a record. If a record was read before its
// answer, so were the nodes: then the next pass compares the request. The caller holds mu.
func (s *shadow) endedRequests(there map[string]*resources.Request) map[string]*shadowedRequest {
	ended := map[string]*shadowedRequest{}
	for id, r := range s.open {
		heard := s.pendingAnswers[id]
		if heard != nil && there[id] != nil && !there[id].IsDone() {
			continue
		}
		if heard != nil {
			r.Request = heard
		}
		if there[id] == nil || r.IsDone() {
			ended[id] = r
		}
	}
	return ended
}

// nodesOf groups the nodes of the given requests by request ID.
func nodesOf(all []*resources.Node, requests map[string]*shadowedRequest) map[string][]*resources.Node {
	nodes := map[string][]*resources.Node{}
	for _, n := range all {
		if len(requests) > 0 && requests[n.Request] != nil {
			nodes[n.Request] = append(nodes[n.Request], n)
		}
	}
	return nodes
}

// outcomeOf returns the outcome of a request that is answered or gone. A requestor deletes its request as soon as it
// has taken the nodes; then the nodes show the outcome.
func outcomeOf(r *resources.Request, nodes []*resources.Node) Outcome {
	switch {
	case r.State == resources.StateFailed:
		return Outcome{Answer: AnswerFailed, Why: declines(r)}
	case r.State != resources.StateFulfilled && !complete(r, nodes):
		return Outcome{Answer: AnswerNone}
	case len(nodes) > 0:
		return Outcome{Answer: AnswerServed, Place: resources.Placement{Provider: nodes[0].Provider, Pool: nodes[0].Pool}}
	default:
		return Outcome{Answer: AnswerServed, Place: r.Placement}
	}
}

// complete reports whether r has at least as many nodes that became ready as it has labels.
func complete(r *resources.Request, nodes []*resources.Node) bool {
	was := 0
	for _, n := range nodes {
		switch n.State {
		case resources.StateInit, resources.StateBuilding, resources.StateFailed, resources.StateAborted:
		default:
			was++
		}
	}
	return was >= len(r.Labels)
}

// declines lists the pools that declined a request, with their reasons.
func declines(r *resources.Request) string {
	facts := make([]plan.Fact, 0, len(r.Declined))
	for _, d := range r.Declined {
		name := poolOf(resources.Placement{Provider: d.Provider, Pool: d.Pool})
		if d.Provider == "" {
			name = d.PoolID
		}
		facts = append(facts, plan.Fact{Name: name, Value: cmp.Or(d.Reason, "declined")})
	}
	return evidence(facts)
}

// observed returns the observed state from which the shadow decides. own are the pools of this process.
func (s *shadow) observed(desired resources.Desired, seen plan.Observed, own []resources.RegisteredPool) plan.Observed {
	return withUndecidedRequests(withPools(seen, own, s.wouldServe(desired)), s.undecided())
}

// wouldServe returns a function that reports whether a provider would be npctl's if the shadow served.
func (s *shadow) wouldServe(desired resources.Desired) func(provider string) bool {
	return func(provider string) bool {
		return s.duties.hasProvider(provider) && hasProvider(desired, provider)
	}
}

// compare reports the comparisons of requests that have ended.
func (s *shadow) compare(pass Pass) {
	for _, v := range s.compareEnded(pass.Observed, s.wouldServe(pass.Desired)) {
		s.logComparison(v)
		if s.compared != nil {
			s.compared(v)
		}
	}
}

func (s *shadow) logComparison(v Comparison) {
	level, text := slog.LevelInfo, "shadow: request compared"
	if v.Result.differs() {
		level, text = slog.LevelWarn, "shadow: npctl would have decided differently"
	}
	r, age := v.Request, time.Duration(0)
	if !r.Created.IsZero() { // Nodepool's own requests, for min-ready, do not have a time
		age = v.Time.Sub(r.Created)
	}
	s.log.LogAttrs(context.Background(), level, text, slog.String("request", r.ID), slog.Any("labels", r.Labels), slog.String("result", string(v.Result)),
		slog.Group("npctl", slog.String("do", string(v.Would.Do)), slog.String("provider", v.Would.Place.Provider),
			slog.String("pool", v.Would.Place.Pool), slog.String("why", v.Would.Why)),
		slog.Group("live", slog.String("answer", string(v.Live.Answer)), slog.String("provider", v.Live.Place.Provider),
			slog.String("pool", v.Live.Place.Pool), slog.String("why", v.Live.Why)),
		slog.Duration("age", age.Round(time.Millisecond)))
	s.journal.add(resources.Event{Time: v.Time, Subject: r.Key().String(), EventID: r.EventID, Related: labelSubjects(r.Labels), Code: "shadow-" + string(v.Result),
		Text: v.String()})
}

// decision returns the decision about a request that is not compared yet, or the zero Decision.
func (s *shadow) decision(request string) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.open[request]; r != nil {
		return r.choice
	}
	return Decision{}
}

// comparisons returns the number of compared requests by result.
func (s *shadow) comparisons() map[Result]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// logSummary logs the number of comparisons by result.
func (s *shadow) logSummary() {
	counts := s.comparisons()
	attrs := []slog.Attr{slog.Int("open", len(s.undecided()))}
	for _, result := range Results() {
		if n := counts[result]; n > 0 {
			attrs = append(attrs, slog.Int(string(result), n))
		}
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "shadow: requests compared", attrs...)
}

// ShadowObserved returns the observed state from which the daemon decides: seen, or for a shadow the state that it
// would observe if it served.
func (d *Daemon) ShadowObserved(desired resources.Desired, seen plan.Observed) plan.Observed {
	if d.shadow == nil {
		return seen
	}
	return d.shadow.observed(desired, seen, d.pools(desired, seen, nil))
}

// ShadowDecision returns the decision of a shadow about a request that is not compared yet. It returns the zero
// Decision for other requests, and when the daemon is not a shadow.
func (d *Daemon) ShadowDecision(request string) Decision {
	if d.shadow == nil {
		return Decision{}
	}
	return d.shadow.decision(request)
}

// Comparisons returns the number of compared requests by result, or nil when the daemon is not a shadow.
func (d *Daemon) Comparisons() map[Result]int {
	if d.shadow == nil {
		return nil
	}
	return d.shadow.comparisons()
}

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
