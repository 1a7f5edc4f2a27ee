package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
)

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	EventStart    EventKind = "start"
	EventProgress EventKind = "progress"
	EventRetry    EventKind = "retry" // a launch attempt failed, and another one follows
	EventDone     EventKind = "done"
	EventFailed   EventKind = "failed"
	EventSkipped  EventKind = "skipped"
)

// Event reports the progress of one step while a plan is executed.
type Event struct {
	Time  time.Time
	Kind  EventKind
	Step  plan.Step
	Phase string        // the current activity, such as "waiting for the server to become active"
	Done  int64         // bytes or percent, as Total; of a retry, the number of the attempt that failed
	Total int64         // 0 when unknown
	Took  time.Duration // of done and failed steps
	Err   error         // why it failed, was skipped or is retried
	ID    string        // of the record that the step created
}

func (e *Engine) report(event Event) {
	if e.Report == nil {
		return
	}
	event.Time = e.Now()
	e.reporting.Lock()
	defer e.reporting.Unlock()
	e.Report(event)
}

// about returns the log attributes of a step. id is the ID of the record that the step created.
func about(s plan.Step, id string) []any {
	attrs := []any{"step", s.ID}
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, name, value)
		}
	}
	node := cmp.Or(id, s.Record.ID) // a resumed launch may end with another record than it started with
	switch s.Thing {
	case plan.ThingNode:
		add("node", node)
	case plan.ThingRequest:
	default:
		add("id", id)
	}
	add("request", s.Request)
	add("event_id", s.EventID)
	add("nodes", strings.Join(slices.DeleteFunc(slices.Clone(s.Nodes), func(id string) bool { return id == "" }), ","))
	add("provider", s.Provider)
	add("image", s.Image)
	add("reason", string(s.Reason))
	return attrs
}

// reportEnd logs and reports the end of a step. If a step fails repeatedly, only the first failure is logged as an error.
func (x *execution) reportEnd(s plan.Step, id string, err error, took time.Duration, failures int) {
	if err != nil {
		level := slog.LevelError
		switch {
		case errors.Is(err, ErrInterrupted):
			level = slog.LevelInfo
		case errors.Is(err, ErrProviderUnreachable) && x.continuous, failures > 1:
			level = slog.LevelDebug
		}
		x.Log.Log(context.Background(), level, "step failed", append(about(s, id), "took", took, "error", err)...)
		x.report(Event{Kind: EventFailed, Step: s, Err: err, Took: took, ID: id})
		return
	}
	attrs := append(about(s, id), "took", took)
	if failures > 0 {
		attrs = append(attrs, "failures", failures)
	}
	x.Log.Info("step done", attrs...)
	x.report(Event{Kind: EventDone, Step: s, Took: took, ID: id})
}

// progress returns a function that reports a phase of a step.
func (x *execution) progress(s plan.Step) func(phase string, done, total int64) {
	return func(phase string, done, total int64) {
		x.report(Event{Kind: EventProgress, Step: s, Phase: phase, Done: done, Total: total})
	}
}
