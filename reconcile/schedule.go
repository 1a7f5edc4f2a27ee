package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
)

// Result is the result of executing a plan.
type Result struct {
	Done        []plan.Step
	Failed      []Failure
	Interrupted []Failure   // stopped because ctx ended; the next run resumes them
	Skipped     []Failure   // not started: a step that they need failed, or the run was interrupted
	Undeleted   []Undeleted // instances of failed launch attempts that are not deleted yet
}

// Failure is a step that was not completed, and why.
type Failure struct {
	Step plan.Step
	Err  error
}

// Err summarizes the result. It is nil if every step succeeded.
func (r Result) Err() error {
	notDone := len(r.Failed) + len(r.Interrupted) + len(r.Skipped)
	if notDone == 0 {
		return nil
	}
	interrupted := ""
	if n := len(r.Interrupted); n > 0 {
		interrupted = fmt.Sprintf(", %d interrupted", n)
	}
	return fmt.Errorf("not all steps were completed: %d failed%s, %d skipped of %d", len(r.Failed), interrupted, len(r.Skipped), len(r.Done)+notDone)
}

// ErrInterrupted is the error of steps that did not start or did not finish because ctx ended.
var ErrInterrupted = errors.New("interrupted")

// errNeeds is the error of a skipped step: a step that it needs did not succeed.
type errNeeds struct{ step plan.Step }

func (e errNeeds) Error() string {
	return fmt.Sprintf("it needs %s %s, which was not completed", e.step.Action, e.step.Address)
}

// schedule runs the steps of a plan in the order of their needs and collects their results.
type schedule struct {
	x        *execution // runs the steps
	steps    []plan.Step
	outcomes map[string]*outcome // by step ID

	mu     sync.Mutex // guards result
	result Result
}

// outcome is the result of a step. done is closed when the step has ended.
type outcome struct {
	step plan.Step
	done chan struct{}
	ok   bool
}

func newSchedule(x *execution, steps []plan.Step) *schedule {
	c := &schedule{x: x, steps: steps, outcomes: make(map[string]*outcome, len(steps))}
	for _, s := range steps {
		c.outcomes[s.ID] = &outcome{step: s, done: make(chan struct{})}
	}
	return c
}

// run runs all steps and returns their results.
func (c *schedule) run(ctx context.Context) Result {
	var wg sync.WaitGroup
	for _, s := range c.steps {
		wg.Go(func() { c.step(ctx, s) })
	}
	wg.Wait()
	return c.result
}

// step waits for the steps that s needs, executes s and records the result.
func (c *schedule) step(ctx context.Context, s plan.Step) {
	mine := c.outcomes[s.ID]
	defer close(mine.done)
	if err := c.await(ctx, s); err != nil {
		c.skip(s, err)
		return
	}
	release, err := c.x.acquireSlot(ctx, s)
	if err != nil {
		c.skip(s, err)
		return
	}
	defer release()
	started := time.Now()
	c.x.report(Event{Kind: EventStart, Step: s})
	id, err := c.x.do(c.x.cache.claims.begin(ctx, s.ID), s)
	c.x.cache.claims.end(ctx, s.ID)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrInterrupted) {
		err = fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	mine.ok = err == nil
	c.add(s, err)
	c.x.reportEnd(s, id, err, time.Since(started), 0)
}

// await waits for the steps that come before s. It does not wait for a step that is not part of the plan.
func (c *schedule) await(ctx context.Context, s plan.Step) error {
	for i, id := range append(append([]string{}, s.Needs...), s.After...) {
		first, planned := c.outcomes[id]
		if !planned {
			continue
		}
		select {
		case <-first.done:
		case <-ctx.Done():
			<-first.done // the step ends soon, and its result decides how this step is reported
		}
		if i < len(s.Needs) && !first.ok {
			return errNeeds{first.step}
		}
	}
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return nil
}

// add adds a step that has ended to the result.
func (c *schedule) add(s plan.Step, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.result.Done = append(c.result.Done, s)
	case errors.Is(err, ErrInterrupted):
		c.result.Interrupted = append(c.result.Interrupted, Failure{s, err})
	default:
		c.result.Failed = append(c.result.Failed, Failure{s, err})
	}
}

// skip reports a step that did not start.
func (c *schedule) skip(s plan.Step, err error) {
	c.mu.Lock()
	c.result.Skipped = append(c.result.Skipped, Failure{s, err})
	c.mu.Unlock()
	c.x.report(Event{Kind: EventSkipped, Step: s, Err: err})
}
