package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/state"
)

// sharedRun is the state that steps share during an apply or the lifetime of a daemon.
type sharedRun struct {
	cache      *recordCache
	slots      *slots
	books      *bookkeeping
	pollers    *pollers
	hookSlots  chan struct{}     // of node hooks
	shortages  drivers.Shortages // of zones, by offer
	joint      sync.Mutex        // serializes the commits that make nodes of requests for several nodes ready
	continuous bool              // set by Runner: its unfinished steps are planned again
}

func newRun(ctx context.Context, store state.Store) (*sharedRun, error) {
	cache, err := newRecordCache(ctx, store)
	if err != nil {
		return nil, err
	}
	limits := newSlots()
	books := &bookkeeping{cache: cache, slots: limits, known: map[string]bool{}, seconds: map[string][]float64{}}
	return &sharedRun{cache: cache, slots: limits, books: books, pollers: newPollers(ctx), hookSlots: make(chan struct{}, maxNodeHooks)}, nil
}

// activate applies the configuration of an engine to the steps that start from now on.
func (r *sharedRun) activate(e *Engine) {
	e.connections.activate(e.keys)
	e.sources.activate(&e.Desired)
	r.slots.resize(e)
	r.books.mu.Lock()
	defer r.books.mu.Unlock()
	clear(r.books.known)
}

// execution executes the steps of one plan.
type execution struct {
	*Engine
	*sharedRun
	seen    plan.Observed
	cleaner *cleaner // nil in a daemon: its next plan deletes the instances of failed attempts

	results created // by the steps that have ended
}

// Execute executes the steps of a plan that was computed from seen. A step starts after the steps that it needs; steps
// of different providers are independent. Steps that need a failed step are skipped and reported, and all others run.
// When ctx ends, no further step starts, and running steps stop in a state from which the next run resumes. opt are the
// options of the plan: a launch that finds no capacity is planned again with them (see fallBack).
func (e *Engine) Execute(ctx context.Context, p plan.Plan, opt plan.Options, seen plan.Observed) (Result, error) {
	ctx, release, err := e.underLocks(ctx, locksOf(p.Steps), seen.Shared)
	if err != nil {
		return Result{}, err
	}
	defer release()
	shared, err := newRun(ctx, e.Store)
	if err != nil {
		return Result{}, err
	}
	defer shared.pollers.end()
	e.sources.use(shared)
	if err := shared.books.rememberImages(ctx, e, p.Steps); err != nil {
		return Result{}, err
	}
	x := &execution{Engine: e, sharedRun: shared, seen: seen}
	x.cleaner = newCleaner(ctx, x)
	result := x.fallBack(ctx, opt, x.runAll(ctx, p.Steps))
	result.Undeleted = x.cleaner.end()
	return result, shared.books.tidy(ctx, e, seen.Installation)
}

// stepRun is what differs between the callers of runStep. Each function may be nil.
type stepRun struct {
	noted func()                                       // called when the next plan knows of the step, at the latest before it waits for its slot
	began func()                                       // called when a step of an apply has its slot
	work  func(context.Context) (id string, err error) // replaces the function of the step's kind
	ended func(id string, err error)                   // called before the step releases its slot, claims and records
}

// errNotStarted is the error of a step for which ctx ended while it waited for its slot.
var errNotStarted = fmt.Errorf("%w", ErrInterrupted)

// runStep runs one step under its claims and in its slot. It returns the ID of the record that the step created, if any.
// In an apply, a step starts when it has its slot. In a daemon it starts at once, and a launch writes its intent before it
// waits, so that the next plan counts the node.
func (x *execution) runStep(ctx context.Context, s plan.Step, r stepRun) (id string, err error) {
	noted, release := r.noted, func() {}
	if noted == nil {
		noted = func() {}
	}
	ctx = x.cache.claims.begin(ctx, s.ID)
	defer func() {
		if r.ended != nil {
			r.ended(id, err)
		}
		release()
		x.cache.claims.end(ctx, s.ID)
		x.cache.clearBusy(s.ID)
	}()
	if s.Record.Kind != "" {
		x.cache.markBusy(s.ID, s.Record)
	}
	if x.continuous {
		x.report(Event{Kind: EventStart, Step: s})
	}
	for _, n := range x.unverified(s) { // the check takes some time
		x.cache.markBusy(s.ID, n.Key())
		noted()
	}
	var launch *nodeLaunch
	if x.continuous && s.Kind == plan.KindLaunch {
		if err := x.prepare(ctx, s); err != nil {
			return "", err
		}
		if launch, err = x.intendLaunch(ctx, s); err != nil {
			return "", err
		}
		id = launch.node.ID
	}
	if !s.Info().Brief {
		noted()
		free, err := x.slots.acquireFor(ctx, x.Engine, &s)
		if err != nil {
			return id, errNotStarted
		}
		release = free
	}
	if !x.continuous {
		if r.began != nil {
			r.began()
		}
		x.report(Event{Kind: EventStart, Step: s})
	}
	switch {
	case launch != nil:
		return launch.finish(ctx)
	case r.work != nil:
		return r.work(ctx)
	}
	if err := x.prepare(ctx, s); err != nil {
		return "", err
	}
	return runs[s.Kind](x, ctx, s)
}

// created holds the IDs of the builds and uploads that a run has created, for the steps that use them.
type created struct {
	mu  sync.Mutex
	ids map[createdKey]string // guarded by mu
}

type createdKey struct{ image, provider string } // of a build: without a provider

func (c *created) add(image, provider, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[createdKey]string{}
	}
	c.ids[createdKey{image, provider}] = id
}

// id returns the ID of the upload of an image to a provider or, if provider is empty, of its build. It may be empty.
func (c *created) id(image, provider string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[createdKey{image, provider}]
}

// Result is the result of executing a plan.
type Result struct {
	Done        []plan.Step
	Failed      []Failure
	Interrupted []Failure   // stopped because ctx ended; the next run resumes them
	Skipped     []Failure   // not started: a step that they need failed, or the run was interrupted
	Undeleted   []Undeleted // instances of failed launch attempts that are not deleted yet
}

// steps returns all steps.
func (r Result) steps() []plan.Step {
	steps := slices.Clone(r.Done)
	for _, f := range slices.Concat(r.Failed, r.Interrupted, r.Skipped) {
		steps = append(steps, f.Step)
	}
	return steps
}

// without returns the result without some failed and skipped steps.
func (r Result) without(ids map[string]bool) Result {
	listed := func(f Failure) bool { return ids[f.Step.ID] }
	r.Failed, r.Skipped = slices.DeleteFunc(r.Failed, listed), slices.DeleteFunc(r.Skipped, listed)
	return r
}

// plus returns the result with that of further steps.
func (r Result) plus(next Result) Result {
	r.Done, r.Failed = append(r.Done, next.Done...), append(r.Failed, next.Failed...)
	r.Interrupted, r.Skipped = append(r.Interrupted, next.Interrupted...), append(r.Skipped, next.Skipped...)
	return r
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
	x        *execution          // runs the steps
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

// runAll runs all steps and returns their results.
func (x *execution) runAll(ctx context.Context, steps []plan.Step) Result {
	c := &schedule{x: x, outcomes: make(map[string]*outcome, len(steps))}
	for _, s := range steps {
		c.outcomes[s.ID] = &outcome{step: s, done: make(chan struct{})}
	}
	var wg sync.WaitGroup
	for _, s := range steps {
		wg.Go(func() { c.step(ctx, s) })
	}
	wg.Wait()
	return c.result
}

// step waits for the steps that s needs, runs s and records the result.
func (c *schedule) step(ctx context.Context, s plan.Step) {
	mine := c.outcomes[s.ID]
	defer close(mine.done)
	if err := c.await(ctx, s); err != nil {
		c.skip(s, err)
		return
	}
	started := time.Now()
	_, _ = c.x.runStep(ctx, s, stepRun{began: func() { started = time.Now() }, ended: func(id string, err error) {
		if errors.Is(err, errNotStarted) {
			c.skip(s, err)
			return
		}
		if err != nil && ctx.Err() != nil && !errors.Is(err, ErrInterrupted) {
			err = fmt.Errorf("%w: %w", ErrInterrupted, err)
		}
		mine.ok = err == nil
		c.add(s, err)
		c.x.reportEnd(s, id, err, time.Since(started), 0)
	}})
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
