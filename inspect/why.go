package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// WhyInput is the input of an explanation.
type WhyInput struct {
	Fleet
	Plan    plan.Plan // of the current moment, with the reasons why requests wait
	Running []plan.Step
	Events  []wire.Event // of the subject
	Now     time.Time
	// Shadow is the decision of a shadow about the request, or "".
	Shadow string
}

// explanation is an answer under construction.
type explanation struct {
	wire.Why
	Fleet
	in WhyInput
}

// explainers lists the kinds of subjects.
var explainers = map[string]func(*explanation, string) error{"node": (*explanation).node, "request": (*explanation).request,
	"label": (*explanation).label, "image": (*explanation).image, "provider": (*explanation).provider}

// IsSubject reports whether Why can explain a subject.
func IsSubject(subject string) bool {
	kind, name, _ := strings.Cut(subject, "/")
	return explainers[kind] != nil && name != ""
}

// Why explains the state of a subject such as node/0000000017. It returns a NotFoundError if the subject neither exists
// nor has events.
func Why(subject string, in WhyInput) (wire.Why, error) {
	kind, name, _ := strings.Cut(subject, "/")
	e := &explanation{in: in, Fleet: in.Fleet}
	e.Subject, e.Events = subject, in.Events
	if kind == "provider" || kind == "label" {
		e.failing(name)
	}
	if err := explainers[kind](e, name); err != nil {
		if len(e.Events) == 0 {
			return wire.Why{}, err
		}
		e.deleted()
	}
	e.fillEmptyLists()
	return e.Why, nil
}

// NotFoundError states that an object does not exist.
type NotFoundError struct {
	Kind, Name string
	Known      []string // names of existing objects
	Hint       string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no %s %q", e.Kind, e.Name) }

// failing adds the recent launch failures of a provider or label.
func (e *explanation) failing(name string) {
	for _, at := range slices.Sorted(maps.Keys(e.Observed.LaunchFailures)) {
		f := e.Observed.LaunchFailures[at]
		if at == plan.ProviderAddress(name) || strings.HasPrefix(string(at), "provider."+name+".") || strings.HasSuffix(string(at), ".label."+name) {
			e.fact("launches at "+string(at), fmt.Sprintf("failed %s, last %s ago: %s", text.Count(f.Count, "time", "times"), e.since(f.Time), f.Error))
		}
	}
}

func (e *explanation) fact(name, value string) {
	if value != "" {
		e.Facts = append(e.Facts, wire.Fact{Name: name, Value: value})
	}
}

func (e *explanation) wait(code, format string, args ...any) {
	e.Waits = append(e.Waits, wire.Wait{Code: code, Text: fmt.Sprintf(format, args...)})
}

func (e *explanation) relate(subjects ...string) {
	for _, s := range subjects {
		if !strings.HasSuffix(s, "/") && s != e.Subject && !slices.Contains(e.Related, s) {
			e.Related = append(e.Related, s)
		}
	}
}

// since returns the time since t, rounded for people.
func (e *explanation) since(t time.Time) string { return rounded(e.in.Now.Sub(t)) }

func rounded(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}

// steps adds the running and the planned steps that of selects.
func (e *explanation) steps(of func(*plan.Step) bool) {
	begun := map[string]bool{}
	for i := range e.in.Running {
		if s := &e.in.Running[i]; of(s) {
			e.Running = append(e.Running, StepView(s))
			begun[s.ID] = true
		}
	}
	for i := range e.in.Plan.Steps {
		if s := &e.in.Plan.Steps[i]; of(s) && !begun[s.ID] {
			e.Planned = append(e.Planned, StepView(s))
		}
	}
}

// notes adds the notes and problems of the plan at the selected addresses.
func (e *explanation) notes(code string, at func(plan.Address) bool) (texts []string) {
	for _, n := range e.in.Plan.Notes {
		if at(n.Address) {
			texts = append(texts, n.Text)
			e.wait(cmp.Or(n.Code, code), "%s", n.Text)
		}
	}
	for _, p := range e.in.Plan.Problems {
		if at(p.Address) {
			texts = append(texts, p.Text)
			e.wait("problem", "%s", p.Text)
		}
	}
	return texts
}

// providerProblems adds why a provider cannot be used, and reports whether that is so.
func (e *explanation) providerProblems(provider string) bool {
	switch view := e.Observed.Providers[provider]; {
	case e.Observed.Frozen[provider]:
		e.wait("frozen", "provider %s is frozen; npctl thaw %s", provider, provider)
	case view.Err != "":
		e.wait("provider-error", "provider %s cannot be queried: %s", provider, view.Err)
	default:
		return false
	}
	return true
}

// deleted explains a deleted object from the events that the journal still has.
func (e *explanation) deleted() {
	e.State = "gone"
	last := e.Events[len(e.Events)-1]
	e.Summary = fmt.Sprintf("It no longer exists. Its last event, %s ago: %s.", e.since(last.Time), strings.TrimSuffix(last.Text, "."))
}

// fillEmptyLists replaces nil lists with empty ones, so that JSON has no null. It also sets a missing summary.
func (e *explanation) fillEmptyLists() {
	if e.Waits == nil {
		e.Waits = []wire.Wait{}
	}
	if e.Facts == nil {
		e.Facts = []wire.Fact{}
	}
	if e.Running == nil {
		e.Running = []wire.Step{}
	}
	if e.Planned == nil {
		e.Planned = []wire.Step{}
	}
	if e.Related == nil {
		e.Related = []string{}
	}
	if e.Events == nil {
		e.Events = []wire.Event{}
	}
	if e.Summary == "" && len(e.Waits) > 0 {
		e.Summary = "It waits: " + e.Waits[0].Text + "."
	}
}
