package watch

import (
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// DecisionKind is the kind of a Decision.
type DecisionKind string

// The decisions about a request; empty before a decision.
const (
	DecideServe   DecisionKind = "serve"
	DecideDecline DecisionKind = "decline" // in all its pools; other processes may serve it
	DecideWait    DecisionKind = "wait"    // for capacity
	DecideYield   DecisionKind = "yield"   // to pools of other processes that can serve it and go first
)

// Decision is what npctl would do about a request, and why.
type Decision struct {
	Do    DecisionKind
	Place resources.Placement // with DecideServe
	Why   string
}

// final reports whether npctl would have acted immediately, so that later passes do not change the decision.
func (c Decision) final() bool { return c.Do == DecideServe || c.Do == DecideDecline }

func (c Decision) String() string {
	switch c.Do {
	case DecideServe:
		return "serve it from " + poolOf(c.Place) + " (" + c.Why + ")"
	case DecideDecline:
		return "decline it (" + c.Why + ")"
	case DecideWait:
		return "let it wait (" + c.Why + ")"
	case DecideYield:
		return "yield to other pools"
	default:
		return "have made no decision yet"
	}
}

func poolOf(p resources.Placement) string { return p.Provider + "/" + p.Pool }

// Answer is the kind of an Outcome.
type Answer string

// The ways in which a request ends.
const (
	AnswerServed Answer = "served"
	AnswerFailed Answer = "failed"
	AnswerNone   Answer = "none" // no answer was seen: the request was withdrawn, or deleted right after its answer
)

// Outcome is how a request ended.
type Outcome struct {
	Answer Answer
	Place  resources.Placement // with AnswerServed; empty when it is unknown
	Ours   bool                // npctl would serve the request with this configuration
	Why    string
}

func (o Outcome) String() string {
	switch {
	case o.Answer == AnswerServed && o.Place.Provider != "":
		return "it was served from " + poolOf(o.Place)
	case o.Answer == AnswerServed:
		return "it was served from an unknown pool"
	case o.Answer == AnswerFailed && o.Why != "":
		return "it failed (" + o.Why + ")"
	case o.Answer == AnswerFailed:
		return "it failed"
	default:
		return "it was deleted before an answer was observed"
	}
}

// Result is how npctl's decision compares with the outcome.
type Result string

// The results. ResultOtherPool and the results that begin with would_ are differences.
const (
	ResultAgree         Result = "agree"
	ResultOtherPool     Result = "other_pool"     // served from another pool than npctl would have chosen
	ResultWouldDecline  Result = "would_decline"  // served; npctl would have declined it
	ResultWouldWait     Result = "would_wait"     // answered; npctl would have had no capacity for it
	ResultWouldYield    Result = "would_yield"    // served by a provider that is npctl's here; npctl would have yielded to other processes
	ResultWouldServe    Result = "would_serve"    // failed; npctl would have served it
	ResultOtherProvider Result = "other_provider" // served first by a provider that npctl does not serve here
	ResultWithdrawn     Result = "withdrawn"      // deleted before an answer was seen
	ResultUnknown       Result = "unknown"        // answered before npctl could decide, or by an unknown pool
)

// Results lists all results.
func Results() []Result {
	return []Result{ResultAgree, ResultOtherPool, ResultWouldDecline, ResultWouldWait, ResultWouldYield, ResultWouldServe, ResultOtherProvider,
		ResultWithdrawn, ResultUnknown}
}

// differs reports whether the result is a difference that an operator should check.
func (r Result) differs() bool {
	return r == ResultOtherPool || strings.HasPrefix(string(r), "would_")
}

// Comparison is the comparison of one request.
type Comparison struct {
	Time    time.Time
	Request *resources.Request // the last known version
	Would   Decision
	Live    Outcome
	Result  Result
}

func (v Comparison) String() string { return fmt.Sprintf("npctl would %s; %s", v.Would, v.Live) }

// compareDecision compares a decision with the outcome.
func compareDecision(would Decision, live Outcome) Result {
	passes := would.Do == DecideDecline || would.Do == DecideYield
	switch {
	case live.Answer == AnswerNone:
		return ResultWithdrawn
	case would.Do == "" || live.Answer == AnswerServed && live.Place.Provider == "":
		return ResultUnknown
	case live.Answer == AnswerFailed && passes:
		return ResultAgree // the processes that it was left to have declined it
	case live.Answer == AnswerFailed && would.Do == DecideServe:
		return ResultWouldServe
	case live.Answer == AnswerServed && !live.Ours && passes:
		return ResultAgree
	case live.Answer == AnswerServed && !live.Ours:
		return ResultOtherProvider
	case would.Do == DecideServe && poolOf(would.Place) == poolOf(live.Place):
		return ResultAgree
	case would.Do == DecideServe:
		return ResultOtherPool
	default:
		return Result("would_" + would.Do)
	}
}

// choicesOf returns the decisions of a plan by request ID. The plan must have notes that explain waiting requests.
func choicesOf(p plan.Plan) map[string]Decision {
	choices := map[string]Decision{}
	for i := range p.Steps {
		switch s := &p.Steps[i]; {
		case s.Thing != plan.ThingRequest:
		case s.Kind == plan.KindServe:
			choices[s.Request] = Decision{Do: DecideServe, Place: resources.Placement{Provider: s.Provider, Pool: s.Pool, Zone: s.Zone}, Why: readyOf(s.Nodes)}
		case s.Kind == plan.KindDecline:
			choices[s.Request] = Decision{Do: DecideDecline, Why: evidence(s.Evidence)}
		}
	}
	for i := range p.Notes {
		if id, ok := strings.CutPrefix(string(p.Notes[i].Address), "request."); ok && p.Notes[i].Code == "waiting" {
			choices[id] = Decision{Do: DecideWait, Why: p.Notes[i].Text} // some pools may have declined it
		}
	}
	return choices
}

func readyOf(nodes []string) string {
	ready := 0
	for _, id := range nodes {
		if id != "" {
			ready++
		}
	}
	return fmt.Sprintf("%d ready, %d to launch", ready, len(nodes)-ready)
}

func evidence(facts []plan.Fact) string {
	texts := make([]string, len(facts))
	for i, f := range facts {
		texts[i] = f.Name + ": " + f.Value
	}
	return strings.Join(texts, "; ")
}
