package watch

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// A shadow looks on while others serve. It makes the same passes as any daemon, as if the providers were its own, and begins
// nothing. What it would have done about a request is compared with what becomes of the request, once.

// shadow is the requests that a shadow compares.
type shadow struct {
	mu     sync.Mutex                    // guards what follows
	met    bool                          // a pass has been made
	open   map[string]*onlooked          // requests without an answer, by id
	done   map[string]bool               // those that were compared, as long as there is a record
	heard  map[string]*resources.Request // answers that no pass has seen yet: the requestor may be quick to remove them
	counts map[Result]int
}

// onlooked is a request that others serve, as it was known last.
type onlooked struct {
	*resources.Request
	choice Choice
}

func newShadow() *shadow {
	return &shadow{open: map[string]*onlooked{}, done: map[string]bool{}, heard: map[string]*resources.Request{}, counts: map[Result]int{}}
}

// meet takes down requests. What was answered before there was a shadow is no concern of it.
func (s *shadow) meet(requests []*resources.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[string]bool, len(requests))
	for _, r := range requests {
		there[r.ID] = true
		switch known := s.open[r.ID]; {
		case known != nil:
			known.Request = r
		case s.done[r.ID]:
		case r.Answered() && !s.met:
			s.done[r.ID] = true
		default:
			s.open[r.ID] = &onlooked{Request: r}
		}
	}
	for id, r := range s.heard {
		if s.open[id] == nil && !s.done[id] {
			s.open[id] = &onlooked{Request: r}
		}
	}
	s.met = true
	maps.DeleteFunc(s.done, func(id string, _ bool) bool { return !there[id] })
}

// undecided lists requests that npctl would not have begun with.
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

// note takes down what a plan does about requests.
func (s *shadow) note(p plan.Plan) {
	choices := choicesOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.open {
		if r.choice.final() {
			continue
		}
		r.choice = Choice{Do: DoLeave}
		if choice, ok := choices[id]; ok {
			r.choice = choice
		}
	}
}

// hear takes down an answer.
func (s *shadow) hear(r *resources.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Answered() && !s.done[r.ID] {
		s.heard[r.ID] = r
	}
}

// judge compares what has ended. ours tells which providers npctl would serve.
func (s *shadow) judge(seen plan.Observed, ours func(provider string) bool) (verdicts []Verdict) {
	there := make(map[string]bool, len(seen.Records.Requests))
	for _, r := range seen.Records.Requests {
		there[r.ID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.ended(there)
	nodes := nodesOf(seen.Records.Nodes, ended)
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		r := ended[id]
		live := outcomeOf(r.Request, nodes[id])
		live.Ours = live.Answer == AnswerFailed || ours(live.Place.Provider)
		v := Verdict{Time: seen.Now, Request: r.Request, Would: r.choice, Live: live, Result: compare(r.choice, live)}
		verdicts = append(verdicts, v)
		s.counts[v.Result]++
		delete(s.open, id)
		if there[id] {
			s.done[id] = true
		}
	}
	maps.DeleteFunc(s.heard, func(id string, _ *resources.Request) bool { return ended[id] != nil || s.done[id] })
	return verdicts
}

// ended are those that have an answer or are gone. The caller holds mu.
func (s *shadow) ended(there map[string]bool) map[string]*onlooked {
	ended := map[string]*onlooked{}
	for id, r := range s.open {
		if heard := s.heard[id]; heard != nil {
			r.Request = heard
		}
		if !there[id] || r.Answered() {
			ended[id] = r
		}
	}
	return ended
}

// nodesOf sorts out the nodes of requests.
func nodesOf(all []*resources.Node, requests map[string]*onlooked) map[string][]*resources.Node {
	nodes := map[string][]*resources.Node{}
	for _, n := range all {
		if len(requests) > 0 && requests[n.Request] != nil {
			nodes[n.Request] = append(nodes[n.Request], n)
		}
	}
	return nodes
}

// outcomeOf tells what became of a request that is answered or gone. A requestor removes a request as soon as it has taken the
// nodes, which tell then.
func outcomeOf(r *resources.Request, nodes []*resources.Node) Outcome {
	switch {
	case r.State == resources.StateFailed:
		return Outcome{Answer: AnswerFailed, Why: declines(r)}
	case r.State != resources.StateFulfilled && !complete(r, nodes):
		return Outcome{Answer: AnswerNone}
	case len(nodes) > 0:
		return Outcome{Answer: AnswerServed, Place: resources.Place{Provider: nodes[0].Provider, Pool: nodes[0].Pool}}
	default:
		return Outcome{Answer: AnswerServed, Place: r.Place}
	}
}

// complete reports whether every label has a node that was ready.
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

// declines says who has declined a request.
func declines(r *resources.Request) string {
	facts := make([]plan.Fact, 0, len(r.Declined))
	for _, d := range r.Declined {
		name := poolOf(resources.Place{Provider: d.Provider, Pool: d.Pool})
		if d.Provider == "" {
			name = d.By
		}
		facts = append(facts, plan.Fact{Name: name, Value: orDeclined(d.Reason)})
	}
	return evidence(facts)
}

func orDeclined(why string) string {
	if why == "" {
		return "declined"
	}
	return why
}

// decide makes the plan of a pass.
func (d *Daemon) decide(desired resources.Desired, seen plan.Observed) plan.Plan {
	if d.shadow == nil {
		return plan.Compute(desired, seen, d.options())
	}
	d.shadow.meet(seen.Records.Requests)
	p := plan.Compute(desired, d.Considered(desired, seen), plan.Options{Patient: true, Explain: true})
	d.shadow.note(p)
	return p
}

// Considered is what decisions are made from: what was seen or, of a shadow, what would be seen if it served.
func (d *Daemon) Considered(desired resources.Desired, seen plan.Observed) plan.Observed {
	if d.shadow == nil {
		return seen
	}
	own := d.poolsServed(Pass{Desired: desired, Seen: seen})
	return withOpen(withPools(seen, own, d.wouldServe(desired)), d.shadow.undecided())
}

// wouldServe tells which providers are npctl's in what a shadow decides.
func (d *Daemon) wouldServe(desired resources.Desired) func(provider string) bool {
	return func(provider string) bool {
		return d.serves(provider) && slices.ContainsFunc(desired.Providers, func(p resources.Provider) bool { return p.Name == provider })
	}
}

// compare tells of requests that have ended.
func (d *Daemon) compare(pass Pass) {
	if d.shadow == nil {
		return
	}
	for _, v := range d.shadow.judge(pass.Seen, d.wouldServe(pass.Desired)) {
		d.tell(v)
		if d.Compared != nil {
			d.Compared(v)
		}
	}
}

func (d *Daemon) tell(v Verdict) {
	level, text := slog.LevelInfo, "shadow: request compared"
	if v.Result.Differs() {
		level, text = slog.LevelWarn, "shadow: npctl would have done otherwise"
	}
	r := v.Request
	d.Log.LogAttrs(context.Background(), level, text, slog.String("request", r.ID), slog.Any("labels", r.Labels), slog.String("result", string(v.Result)),
		slog.Group("npctl", slog.String("do", string(v.Would.Do)), slog.String("provider", v.Would.Place.Provider),
			slog.String("pool", v.Would.Place.Pool), slog.String("why", v.Would.Why)),
		slog.Group("live", slog.String("answer", string(v.Live.Answer)), slog.String("provider", v.Live.Place.Provider),
			slog.String("pool", v.Live.Place.Pool), slog.String("why", v.Live.Why)),
		slog.Duration("age", v.Time.Sub(r.Created).Round(time.Millisecond)))
	d.Journal.add(resources.Event{Time: v.Time, Subject: r.Key().String(), EventID: r.Event, Related: labelSubjects(r.Labels), Code: "shadow-" + string(v.Result),
		Text: v.String()})
}

// WouldDo is what a shadow would do about a request that has no answer yet, or would have done; empty when it is no shadow, or
// does not know the request.
func (d *Daemon) WouldDo(request string) Choice {
	if d.shadow == nil {
		return Choice{}
	}
	d.shadow.mu.Lock()
	defer d.shadow.mu.Unlock()
	if r := d.shadow.open[request]; r != nil {
		return r.choice
	}
	return Choice{}
}

// Comparisons counts the requests that were compared, by result; nil when the daemon is no shadow.
func (d *Daemon) Comparisons() map[Result]int {
	if d.shadow == nil {
		return nil
	}
	d.shadow.mu.Lock()
	defer d.shadow.mu.Unlock()
	return maps.Clone(d.shadow.counts)
}

// sumUp tells how all comparisons have come out.
func (d *Daemon) sumUp() {
	counts := d.Comparisons()
	if counts == nil {
		return
	}
	attrs := []slog.Attr{slog.Int("open", len(d.shadow.undecided()))}
	for _, result := range Results() {
		if n := counts[result]; n > 0 {
			attrs = append(attrs, slog.Int(string(result), n))
		}
	}
	d.Log.LogAttrs(context.Background(), slog.LevelInfo, "shadow: requests compared", attrs...)
}
