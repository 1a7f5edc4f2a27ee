package reconcile

import (
	"cmp"
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
