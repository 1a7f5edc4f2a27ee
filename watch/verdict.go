package watch

import (
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// Do is what is done about a request.
type Do string

// What npctl would do about a request; nothing of it while that is not decided.
const (
	DoServe   Do = "serve"
	DoDecline Do = "decline" // by all its pools: others may serve it
	DoWait    Do = "wait"    // for room
	DoLeave   Do = "leave"   // to others, who have it too and go first
)

// Choice is what npctl would do about a request.
type Choice struct {
	Do    Do
	Place resources.Place // of DoServe
	Why   string
}

// final reports whether npctl would have done it at once, so that nothing that comes later changes it.
func (c Choice) final() bool { return c.Do == DoServe || c.Do == DoDecline }

func (c Choice) String() string {
	switch c.Do {
	case DoServe:
		return "serve it from " + poolOf(c.Place) + " (" + c.Why + ")"
	case DoDecline:
		return "decline it (" + c.Why + ")"
	case DoWait:
		return "let it wait (" + c.Why + ")"
	case DoLeave:
		return "leave it to others"
	default:
		return "have to look at it first"
	}
}

func poolOf(p resources.Place) string { return p.Provider + "/" + p.Pool }

// Answer is how a request ended.
type Answer string

// How a request ends.
const (
	AnswerServed Answer = "served"
	AnswerFailed Answer = "failed"
	AnswerNone   Answer = "none" // that was seen: it was withdrawn, or removed right after its answer
)

// Outcome is what became of a request.
type Outcome struct {
	Answer Answer
	Place  resources.Place // of AnswerServed; nothing when nobody can tell any more
	Ours   bool            // it is one that npctl would serve with this configuration
	Why    string
}

func (o Outcome) String() string {
	switch {
	case o.Answer == AnswerServed && o.Place.Provider != "":
		return "it was served from " + poolOf(o.Place)
	case o.Answer == AnswerServed:
		return "it was served, nobody can tell from where"
	case o.Answer == AnswerFailed && o.Why != "":
		return "it has failed (" + o.Why + ")"
	case o.Answer == AnswerFailed:
		return "it has failed"
	default:
		return "it was gone before an answer was seen"
	}
}

// Result says how what npctl would have done compares with what was done.
type Result string

// The results. Those that begin with would_, and other_pool, are differences.
const (
	ResultAgree        Result = "agree"
	ResultOtherPool    Result = "other_pool"    // it was served, from another pool than npctl would have taken
	ResultWouldDecline Result = "would_decline" // it was served, and npctl would have declined it
	ResultWouldWait    Result = "would_wait"    // it was answered, and npctl would have had no room for it
	ResultWouldLeave   Result = "would_leave"   // it was served by what is npctl's here, and npctl would have left it to others
	ResultWouldServe   Result = "would_serve"   // it has failed, and npctl would have served it
	ResultElsewhere    Result = "elsewhere"     // somebody else was first: a provider that npctl does not serve here
	ResultGone         Result = "gone"          // it was removed before an answer was seen
	ResultUnknown      Result = "unknown"       // it was answered before npctl could look at it, or nobody can tell from where
)

// Results lists all results.
func Results() []Result {
	return []Result{ResultAgree, ResultOtherPool, ResultWouldDecline, ResultWouldWait, ResultWouldLeave, ResultWouldServe, ResultElsewhere,
		ResultGone, ResultUnknown}
}

// Differs reports whether the result is one that somebody should look at.
func (r Result) Differs() bool {
	return r == ResultOtherPool || strings.HasPrefix(string(r), "would_")
}

// Verdict is the comparison for one request.
type Verdict struct {
	Time    time.Time
	Request *resources.Request // as it was known last
	Would   Choice
	Live    Outcome
	Result  Result
}

func (v Verdict) String() string { return fmt.Sprintf("npctl would %s; %s", v.Would, v.Live) }

// compare gives the result.
func compare(would Choice, live Outcome) Result {
	passes := would.Do == DoDecline || would.Do == DoLeave
	switch {
	case live.Answer == AnswerNone:
		return ResultGone
	case would.Do == "" || live.Answer == AnswerServed && live.Place.Provider == "":
		return ResultUnknown
	case live.Answer == AnswerFailed && passes:
		return ResultAgree // whom it was left to has declined it
	case live.Answer == AnswerFailed && would.Do == DoServe:
		return ResultWouldServe
	case live.Answer == AnswerServed && !live.Ours && passes:
		return ResultAgree
	case live.Answer == AnswerServed && !live.Ours:
		return ResultElsewhere
	case would.Do == DoServe && poolOf(would.Place) == poolOf(live.Place):
		return ResultAgree
	case would.Do == DoServe:
		return ResultOtherPool
	default:
		return Result("would_" + would.Do)
	}
}

// choicesOf reads from a plan, in which what waits is explained, what it does about requests.
func choicesOf(p plan.Plan) map[string]Choice {
	choices := map[string]Choice{}
	for i := range p.Steps {
		switch s := &p.Steps[i]; {
		case s.Thing != plan.ThingRequest:
		case s.Action == plan.ActionServe:
			choices[s.Request] = Choice{Do: DoServe, Place: resources.Place{Provider: s.Provider, Pool: s.Pool, Zone: s.Zone}, Why: readyOf(s.Nodes)}
		case s.Action == plan.ActionDecline:
			choices[s.Request] = Choice{Do: DoDecline, Why: evidence(s.Evidence)}
		}
	}
	for i := range p.Notes {
		if id, ok := strings.CutPrefix(string(p.Notes[i].Address), "request."); ok && p.Notes[i].Code == "waiting" {
			choices[id] = Choice{Do: DoWait, Why: p.Notes[i].Text} // some pools may have declined it
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
