package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/state"
)

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

	results created // by the steps that have ended
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
	if err := x.rememberImages(ctx, p); err != nil {
		return Result{}, err
	}
	x.cleaner = x.newCleaner(ctx)
	result := newSchedule(x, p.Steps).run(ctx)
	result.Undeleted = x.cleaner.end()
	return result, x.tidy(ctx)
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
	return &execution{Engine: e, run: shared, seen: seen}
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
