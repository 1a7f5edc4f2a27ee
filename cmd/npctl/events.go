package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/reconcile"
)

// The events of apply -json are a format of their own, described in docs/json.md: one JSON object per line. The format
// only gets additions. Every line has type and time; step_* lines name the step by its ID in the plan line.

// eventWriter writes events. Its zero value writes nothing.
type eventWriter struct {
	mu    sync.Mutex // one line at a time
	to    io.Writer
	file  *os.File // nil without -json-into
	phase map[string]string
}

type eventLine struct {
	Type     string                  `json:"type"`
	Time     time.Time               `json:"time"`
	Version  string                  `json:"npctl_version,omitempty"`
	Format   string                  `json:"format_version,omitempty"`
	Plan     json.RawMessage         `json:"plan,omitempty"`
	Step     string                  `json:"step,omitempty"`
	Address  plan.Address            `json:"address,omitempty"`
	Action   plan.Action             `json:"action,omitempty"`
	Phase    string                  `json:"phase,omitempty"`
	Done     int64                   `json:"done,omitempty"`
	Total    int64                   `json:"total,omitempty"`
	Seconds  float64                 `json:"seconds,omitempty"`
	Record   string                  `json:"record,omitempty"`
	Provider string                  `json:"provider,omitempty"`
	Server   string                  `json:"server,omitempty"`
	Message  string                  `json:"message,omitempty"`
	Hint     string                  `json:"hint,omitempty"`
	Stopped  bool                    `json:"interrupted,omitempty"`
	Outcome  *outcomeLine            `json:"outcome,omitempty"`
	Problems []config.JSONDiagnostic `json:"diagnostics,omitempty"`
}

// outcomeLine counts the results of a plan.
type outcomeLine struct {
	plan.Summary
	Failed      int  `json:"failed"`
	Interrupted int  `json:"interrupted"`
	Skipped     int  `json:"skipped"`
	OK          bool `json:"ok"`
}

// openEvents opens the outputs that -json and -json-into select.
func (c *applyCommand) openEvents() (*eventWriter, error) {
	e := &eventWriter{phase: map[string]string{}}
	var to []io.Writer
	if c.json {
		to = append(to, c.ui.Out)
	}
	if err := (outputFile{"json-into", c.jsonInto, []string{`{"type":"start",`}}).check(); err != nil {
		return nil, err
	}
	if c.jsonInto != "" {
		file, err := os.OpenFile(c.jsonInto, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("option -json-into: %w", err)
		}
		e.file = file
		to = append(to, file)
	}
	if len(to) > 0 {
		e.to = io.MultiWriter(to...)
	}
	e.write(eventLine{Type: "start", Version: version(), Format: jsonVersion, Message: c.operation})
	return e, nil
}

// withEvents runs a function with the writer of events, and ends the events with its error.
func (c *applyCommand) withEvents(run func(*eventWriter) error) error {
	events, err := c.openEvents()
	if err != nil {
		return err
	}
	defer events.file.Close() //nolint:errcheck // every line was written already
	err = run(events)
	events.end(err)
	return err
}

// write writes one line. It ignores write errors, because apply continues when the reader has exited.
func (e *eventWriter) write(line eventLine) {
	if e.to == nil {
		return
	}
	line.Time = time.Now().UTC()
	text, err := marshalJSON(line)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.to.Write(append(text, '\n'))
}

func (e *eventWriter) plan(p plan.Plan, meta plan.Meta) {
	if e.to == nil {
		return
	}
	if report, err := render.Report(p, meta); err == nil {
		e.write(eventLine{Type: "plan", Plan: report})
	}
}

// step writes an event of the engine. It writes a progress event only if the phase has changed.
func (e *eventWriter) step(ev reconcile.Event) {
	line := eventLine{Type: "step_" + string(ev.Kind), Step: ev.Step.ID, Address: ev.Step.Address, Action: ev.Step.Action,
		Phase: ev.Phase, Done: ev.Done, Total: ev.Total, Seconds: ev.Took.Seconds(), Record: ev.ID}
	if ev.Err != nil {
		line.Message, line.Hint = ev.Err.Error(), nextStep(ev.Err)
		line.Stopped = ev.Kind == reconcile.EventFailed && errors.Is(ev.Err, reconcile.ErrInterrupted)
	}
	if ev.Kind == reconcile.EventProgress {
		if e.phase[ev.Step.ID] == ev.Phase {
			return
		}
		e.phase[ev.Step.ID] = ev.Phase
	}
	e.write(line)
}

func (e *eventWriter) summary(operation string, r reconcile.Result, took time.Duration) {
	for _, l := range r.Undeleted {
		e.write(eventLine{Type: "leftover", Record: l.Node, Provider: l.Provider, Server: l.Server, Message: undeletedText(l)})
	}
	e.write(eventLine{Type: "summary", Message: operation, Seconds: took.Seconds(), Outcome: &outcomeLine{
		Summary: plan.Plan{Steps: r.Done}.Summary(), Failed: len(r.Failed), Interrupted: len(r.Interrupted), Skipped: len(r.Skipped), OK: r.Err() == nil}})
}

// end writes the last line, which reports success or the error.
func (e *eventWriter) end(err error) {
	line := eventLine{Type: "end", Message: "ok"}
	var diags *diagnosed
	var code exitCode
	switch {
	case err == nil:
	case errors.As(err, &diags):
		line.Type, line.Message, line.Problems = "error", "the configuration has errors", config.JSON(diags.diags, diags.files).Diagnostics
	case errors.As(err, &code):
		line.Type, line.Message = "error", map[bool]string{true: "interrupted", false: "not done"}[int(code) == exitInterrupted]
	default:
		line.Type, line.Message, line.Hint = "error", err.Error(), nextStep(err)
	}
	e.write(line)
}

func firstLine(err error) string {
	if err == nil {
		return ""
	}
	return headline(err.Error())
}
