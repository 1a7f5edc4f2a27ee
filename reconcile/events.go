package reconcile

import (
	"time"

	"github.com/npctl/npctl/plan"
)

// EventKind says what happened to a step.
type EventKind string

// The kinds of events.
const (
	EventStart    EventKind = "start"
	EventProgress EventKind = "progress"
	EventDone     EventKind = "done"
	EventFailed   EventKind = "failed"
	EventSkipped  EventKind = "skipped"
)

// Event tells about one step while a plan is executed.
type Event struct {
	Time  time.Time
	Kind  EventKind
	Step  plan.Step
	Phase string        // what is going on, such as "waiting for the server to become active"
	Done  int64         // bytes or percent, as Total
	Total int64         // 0 when unknown
	Took  time.Duration // of done and failed steps
	Err   error         // why it failed or was skipped
	ID    string        // of the record that was made
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
