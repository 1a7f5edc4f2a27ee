package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// eventsOfWhy is the maximum number of events in an explanation.
const eventsOfWhy = 50

// explanation is a response to "why" under construction.
type explanation struct {
	snapshot
	wire.Why
	plan    plan.Plan // computed for this call, with the reasons why requests wait
	running []plan.Step
	now     time.Time
	would   watch.Decision // decision of a shadow about a request
}

// why explains the state of an object.
func (c *call) why() (any, error) {
	subject := c.values.Get("subject")
	kind, name, _ := strings.Cut(subject, "/")
	explain := map[string]func(*explanation, string) error{"node": (*explanation).node, "request": (*explanation).request,
		"label": (*explanation).label, "image": (*explanation).image, "provider": (*explanation).provider}[kind]
	if explain == nil || name == "" {
		return nil, withHint(invalid("%s is not a subject", quoted(subject)),
			"use node/ID, request/ID, label/NAME, image/NAME or provider/NAME")
	}
	e, err := c.explanation(subject)
	if err != nil {
		return nil, err
	}
	if err := explain(e, name); err != nil {
		if len(e.Events) == 0 {
			return nil, err
		}
		e.deleted()
	}
	e.fillEmptyLists()
	return e.Why, nil
}

// explanation computes a plan for the current moment. Only one call at a time does that.
func (c *call) explanation(subject string) (*explanation, error) {
	select {
	case c.explain <- struct{}{}:
		defer func() { <-c.explain }()
	case <-c.ctx().Done():
		return nil, c.ctx().Err()
	}
	e := &explanation{snapshot: c.world(), running: c.daemon.Runner().Running(), now: c.daemon.Engine.Now()}
	seen := e.pass.Observed
	seen.Providers = maps.Clone(seen.Providers) // FillFromRunner changes it
	c.daemon.Runner().FillFromRunner(&seen)
	seen.Now = e.now
	e.pass.Observed, e.records, e.busy = seen, seen.Records, seen.Busy
	e.plan = plan.Compute(e.pass.Desired, c.daemon.ShadowObserved(e.pass.Desired, seen), plan.Options{HonorBackoff: true, Explain: true})
	e.Subject = subject
	events := c.daemon.Journal.Since(0, subject)
	for _, one := range events[max(len(events)-eventsOfWhy, 0):] {
		e.Events = append(e.Events, shownEvent(one))
	}
	switch kind, name, _ := strings.Cut(subject, "/"); kind {
	case "provider", "label":
		e.failing(name)
	case "request":
		e.would = c.daemon.ShadowDecision(name)
	}
	return e, nil
}

// failing adds the recent launch failures of a provider or label.
func (e *explanation) failing(name string) {
	for _, at := range slices.Sorted(maps.Keys(e.pass.Observed.LaunchFailures)) {
		f := e.pass.Observed.LaunchFailures[at]
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
func (e *explanation) since(t time.Time) string { return rounded(e.now.Sub(t)) }

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
	for i := range e.running {
		if s := &e.running[i]; of(s) {
			e.Running = append(e.Running, shownStep(s))
			begun[s.ID] = true
		}
	}
	for i := range e.plan.Steps {
		if s := &e.plan.Steps[i]; of(s) && !begun[s.ID] {
			e.Planned = append(e.Planned, shownStep(s))
		}
	}
}

// notes adds the notes and problems of the plan at the selected addresses.
func (e *explanation) notes(code string, at func(plan.Address) bool) (texts []string) {
	for _, n := range e.plan.Notes {
		if at(n.Address) {
			texts = append(texts, n.Text)
			e.wait(cmp.Or(n.Code, code), "%s", n.Text)
		}
	}
	for _, p := range e.plan.Problems {
		if at(p.Address) {
			texts = append(texts, p.Text)
			e.wait("problem", "%s", p.Text)
		}
	}
	return texts
}

// providerProblems adds why a provider cannot be used, and reports whether that is so.
func (e *explanation) providerProblems(provider string) bool {
	switch view := e.pass.Observed.Providers[provider]; {
	case e.pass.Observed.Frozen[provider]:
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
