package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/state"
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

// run is the state that steps share during an apply or the lifetime of a daemon.
type run struct {
	cache      *recordCache
	continuous bool // set by Runner: its unfinished steps are planned again

	pollCtx     context.Context // ends with the run and stops the pollers
	stopPolling context.CancelFunc
	pollers     sync.WaitGroup

	guard         sync.Mutex // guards the maps
	semaphores    map[string]*semaphore
	earlyReleases map[string]func() // by step ID: releases the slot of a step that only waits
	polls         map[drivers.Cloud]*poller
	known         map[string]bool      // providers with an up-to-date record
	seconds       map[string][]float64 // durations by subject, not yet in the history
}

// execution executes one plan.
type execution struct {
	*Engine
	*run
	seen    plan.Observed
	cleaner *cleaner // nil in a daemon: its next plan deletes the instances of failed attempts

	results  sync.Mutex // guards the fields below
	outcome  map[string]*outcome
	built    map[string]string     // build IDs by image, created in this run
	uploaded map[uploadedTo]string // upload IDs created in this run
	result   Result
}

type uploadedTo struct{ image, provider string }

// outcome is the result of a step. done is closed when the step has ended.
type outcome struct {
	step plan.Step
	done chan struct{}
	ok   bool
}

// Execute executes the steps of a plan that was computed from seen. A step starts after the steps that it needs; steps
// of different providers are independent. Steps that need a failed step are skipped and reported, and all others run.
// When ctx ends, no further step starts, and running steps stop in a state from which the next run resumes.
func (e *Engine) Execute(ctx context.Context, p plan.Plan, seen plan.Observed) (Result, error) {
	ctx, release, err := e.underLocks(ctx, p, seen.Shared)
	if err != nil {
		return Result{}, err
	}
	defer release()
	x, err := e.begin(ctx, seen)
	if err != nil {
		return Result{}, err
	}
	defer x.end()
	for _, s := range p.Steps {
		x.outcome[s.ID] = &outcome{step: s, done: make(chan struct{})}
	}
	if err := x.rememberImages(ctx, p); err != nil {
		return x.result, err
	}
	x.cleaner = x.newCleaner(ctx)
	var wg sync.WaitGroup
	for _, s := range p.Steps {
		wg.Go(func() { x.step(ctx, s) })
	}
	wg.Wait()
	x.result.Undeleted = x.cleaner.end()
	return x.result, x.tidy(ctx)
}

// begin prepares an execution. The caller must call end afterwards.
func (e *Engine) begin(ctx context.Context, seen plan.Observed) (*execution, error) {
	shared, err := newRun(ctx, e.Store)
	if err != nil {
		return nil, err
	}
	return e.execution(shared, seen), nil
}

func (e *Engine) execution(shared *run, seen plan.Observed) *execution {
	return &execution{Engine: e, run: shared, seen: seen, outcome: map[string]*outcome{}, built: map[string]string{},
		uploaded: map[uploadedTo]string{}}
}

func newRun(ctx context.Context, store state.Store) (*run, error) {
	l, err := openLedger(ctx, store)
	if err != nil {
		return nil, err
	}
	r := &run{cache: l, semaphores: map[string]*semaphore{}, earlyReleases: map[string]func(){}, polls: map[drivers.Cloud]*poller{}, known: map[string]bool{},
		seconds: map[string][]float64{}}
	r.pollCtx, r.stopPolling = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

func (r *run) end() {
	r.stopPolling()
	r.pollers.Wait()
}

// step waits for the steps that s needs, executes s and records the result.
func (x *execution) step(ctx context.Context, s plan.Step) {
	mine := x.outcome[s.ID]
	defer close(mine.done)
	if err := x.await(ctx, s); err != nil {
		x.skip(s, err)
		return
	}
	release, err := x.acquireSlot(ctx, s)
	if err != nil {
		x.skip(s, err)
		return
	}
	defer release()
	started := time.Now()
	x.report(Event{Kind: EventStart, Step: s})
	id, err := x.do(x.cache.claims.begin(ctx, s.ID), s)
	x.cache.claims.end(ctx, s.ID)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrInterrupted) {
		err = fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	mine.ok = err == nil
	x.finish(s, id, err, time.Since(started), 0)
}

// await waits for the steps that come before s. It does not wait for a step that is not part of the plan.
func (x *execution) await(ctx context.Context, s plan.Step) error {
	for i, id := range append(append([]string{}, s.Needs...), s.After...) {
		first, planned := x.outcome[id]
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

// finish reports a step that has ended. If a step fails repeatedly, only the first failure is logged as an error.
func (x *execution) finish(s plan.Step, id string, err error, took time.Duration, failures int) {
	x.results.Lock()
	switch {
	case err == nil:
		x.result.Done = append(x.result.Done, s)
	case errors.Is(err, ErrInterrupted):
		x.result.Interrupted = append(x.result.Interrupted, Failure{s, err})
	default:
		x.result.Failed = append(x.result.Failed, Failure{s, err})
	}
	x.results.Unlock()
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

// skip reports a step that did not start.
func (x *execution) skip(s plan.Step, err error) {
	x.results.Lock()
	x.result.Skipped = append(x.result.Skipped, Failure{s, err})
	x.results.Unlock()
	x.report(Event{Kind: EventSkipped, Step: s, Err: err})
}

// progress returns a function that reports a phase of a step.
func (x *execution) progress(s plan.Step) func(phase string, done, total int64) {
	return func(phase string, done, total int64) {
		x.report(Event{Kind: EventProgress, Step: s, Phase: phase, Done: done, Total: total})
	}
}
