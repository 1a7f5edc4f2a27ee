package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

// progress reports the running steps: as bars on a terminal, as lines elsewhere.
type progress struct {
	ui    *terminal.UI
	quiet bool // -json: no text output
	total int
	every time.Duration // time between two reports of one running step
	now   func() time.Time
	bars  *terminal.Bars // nil without a terminal
	stop  chan struct{}
	beats sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running map[string]*runningStep
	ended   int
}

// runningStep is a step that has started.
type runningStep struct {
	title              string
	phase              string
	done, total        int64
	since, lastPrinted time.Time
}

// heartbeat is the maximum time without output from a running step.
const heartbeat = 30 * time.Second

func (c *applyCommand) newProgress(p plan.Plan) *progress {
	pr := &progress{ui: c.ui, quiet: c.json, total: len(p.Steps), every: heartbeat, now: time.Now,
		stop: make(chan struct{}), running: map[string]*runningStep{}}
	if c.ui.ErrTerm && !c.json {
		pr.bars = c.ui.Bars(len(p.Steps))
	}
	pr.beats.Go(pr.beat)
	return pr
}

// close ends the display.
func (p *progress) close() {
	close(p.stop)
	p.beats.Wait()
	if p.bars != nil {
		p.bars.Close()
	}
}

// event handles an event of the engine.
func (p *progress) event(e reconcile.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, title := e.Step.ID, visibleLine(stepTitle(e.Step))
	switch e.Kind {
	case reconcile.EventStart:
		p.running[id] = &runningStep{title: title, since: p.now(), lastPrinted: p.now()}
		if p.bars != nil {
			p.bars.Start(id, title)
		} else {
			p.line("%s: started", title)
		}
	case reconcile.EventProgress:
		p.phase(id, e)
	case reconcile.EventRetry:
		p.line("%s: attempt %d of %d failed: %s; %s", title, e.Done, e.Total, visible(firstLine(e.Err)), nextAttempt(e))
	case reconcile.EventDone:
		p.end(id)
		p.line("%s: %s", title, p.ui.Style(terminal.StyleGood, "done"+tookText(e.Took)+madeText(e)))
	case reconcile.EventFailed:
		p.end(id)
		if errors.Is(e.Err, reconcile.ErrInterrupted) {
			p.line("%s: %s", title, p.ui.Style(terminal.StyleWarning, "interrupted"+tookText(e.Took)))
			return
		}
		p.line("%s: %s: %s", title, p.ui.Style(terminal.StyleError, "failed"+tookText(e.Took)), visibleLine(firstLine(e.Err)))
	case reconcile.EventSkipped:
		p.end(id) // the result lists all skipped steps
	}
}

// nextAttempt describes the attempt after a failed one.
func nextAttempt(e reconcile.Event) string {
	if e.Return == "" {
		return "retrying"
	}
	return "retrying from the older build " + short(e.Return)
}

func (p *progress) phase(id string, e reconcile.Event) {
	r := p.running[id]
	if r == nil {
		return
	}
	r.phase, r.done, r.total = visibleLine(e.Phase), e.Done, e.Total
	if p.bars != nil {
		p.bars.Progress(id, r.phase, r.done, r.total)
	}
}

func (p *progress) end(id string) {
	delete(p.running, id)
	p.ended++
	if p.bars != nil {
		p.bars.End(id, p.ended)
	}
}

func (p *progress) line(format string, args ...any) {
	if !p.quiet {
		p.ui.Message(format, args...)
	}
}

// beat reports every step without recent output. It does nothing if there are bars, which are redrawn anyway.
func (p *progress) beat() {
	if p.bars != nil || p.quiet {
		return
	}
	ticker := time.NewTicker(p.every / 10)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.signs()
		}
	}
}

func (p *progress) signs() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.running {
		if now := p.now(); now.Sub(r.lastPrinted) >= p.every-p.every/10 {
			r.lastPrinted = now
			p.line("%s: %s", r.title, r.statusText(now))
		}
	}
}

// statusText returns the phase of a step and its duration.
func (r *runningStep) statusText(now time.Time) string {
	text := "still running"
	if r.phase != "" {
		text = "still " + r.phase
	}
	if r.total > 0 {
		text += fmt.Sprintf(" (%d%%)", 100*r.done/r.total)
	}
	return text + tookText(now.Sub(r.since))
}

// interrupted handles the first ^C while steps run.
func (p *progress) interrupted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ui.Message("")
	p.ui.Warning("Interrupted:", "stopping %s, skipping %d. Press ^C again to quit immediately.",
		text.Count(len(p.running), "running step", "running steps"), max(p.total-p.ended-len(p.running), 0))
}

// tookText returns a duration to append to a message, or "" if it is below a second.
func tookText(d time.Duration) string {
	switch {
	case d < time.Second:
		return ""
	case d < time.Minute:
		return fmt.Sprintf(" [%s]", d.Round(100*time.Millisecond))
	default:
		return fmt.Sprintf(" [%s]", d.Round(time.Second))
	}
}

// madeText names the record that a step created.
func madeText(e reconcile.Event) string {
	if e.ID == "" || e.Step.Record.ID != "" {
		return ""
	}
	switch e.Step.Thing {
	case plan.ThingBuild:
		return " (build " + short(e.ID) + ")"
	case plan.ThingUpload:
		return " (upload " + e.ID + ")"
	case plan.ThingNode:
		return " (node." + e.ID + ")"
	default:
		return ""
	}
}
