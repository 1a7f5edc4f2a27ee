package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Runner executes steps during the lifetime of a daemon. Each pass of the daemon starts those steps of a newer plan
// that need no other step, and the launches for the requests that it accepts; the remaining steps are planned again and start once
// their needs are met. A step keeps the configuration that it started with.
type Runner struct {
	*sharedRun
	steps sync.WaitGroup

	mu                   sync.Mutex // guards the fields below
	engine               *Engine
	running              map[string]*runningStep // by step ID
	launching            launchFailures
	failing              map[string]*resources.Failure          // by step ID, of steps that are not launches
	reloaded             time.Time                              // when the configuration was replaced; zero if it was not
	deletedInstances     map[string]map[string]instanceDeletion // provider → instances that steps have deleted
	listingEnded         map[string]time.Time                   // provider → when the newest listing ended
	listingStarted       map[string]time.Time                   // provider → when the newest successful listing started
	launches             int
	stopping             bool
	stepEpoch            uint64               // grows with each step that ends
	endedAt              map[string]uint64    // by step ID: the value of stepEpoch when it ended
	lockedElsewhereUntil map[string]time.Time // by step ID: until when it is skipped because another process works on its record
}

// lockedElsewherePause is how long a step is skipped after its record proved to be locked by another process.
const lockedElsewherePause = time.Second

// NewRunner returns a runner over the engine's store. All writes to the store must go through the runner, unless the
// store is a shared one: see Follow.
func NewRunner(ctx context.Context, e *Engine) (*Runner, error) {
	shared, err := newRun(ctx, e.Store)
	if err != nil {
		return nil, err
	}
	shared.continuous = true
	e.sources.use(shared)
	return &Runner{sharedRun: shared, engine: e, running: map[string]*runningStep{}, launching: launchFailures{},
		failing: map[string]*resources.Failure{}, endedAt: map[string]uint64{},
		lockedElsewhereUntil: map[string]time.Time{}, deletedInstances: map[string]map[string]instanceDeletion{}, listingEnded: map[string]time.Time{}, listingStarted: map[string]time.Time{}}, nil
}

// runningStep is a step in progress.
type runningStep struct {
	plan.Step
	needs *runningStep  // accepts the request that the launch is for; nil for any other step
	done  chan struct{} // closed when the step has ended
	err   error         // valid then
}

// UseEngine sets the engine of the steps that start from now on. Steps that failed under the previous configuration are
// retried at once.
func (r *Runner) UseEngine(e *Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine = e
	clear(r.launching)
	clear(r.failing)
	r.reloaded = e.Now()
	r.activate(e)
}

// using returns the engine that new steps use.
func (r *Runner) using() *Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine
}

// Changed returns a channel that receives a value after records have changed.
func (r *Runner) Changed() <-chan struct{} { return r.cache.changed }

// Running lists the steps in progress.
func (r *Runner) Running() []plan.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := make([]plan.Step, 0, len(r.running))
	for _, s := range r.running {
		steps = append(steps, s.Step)
	}
	return steps
}

// Commit changes records on behalf of a caller outside the executor, such as a client that takes a node.
func (r *Runner) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	return r.cache.commit(ctx, "", ops)
}

// Start starts the steps that need no other step and are not running, then the launches that only need one of these to accept their
// request, and returns them. It returns after these steps have written their first records, so that the next plan takes them into
// account.
func (r *Runner) Start(ctx context.Context, p plan.Plan, seen plan.Observed) []plan.Step {
	r.mu.Lock()
	engine := r.engine
	if seen.Installation == "" { // the ownership tags of created objects would not name their owner
		r.mu.Unlock()
		engine.Log.Error("no step is started: the installation is not known")
		return nil
	}
	maps.DeleteFunc(r.endedAt, func(_ string, at uint64) bool { return at <= seen.StepEpoch })
	maps.DeleteFunc(r.lockedElsewhereUntil, func(_ string, until time.Time) bool { return !engine.Now().Before(until) })
	var begun []plan.Step
	var starting []*runningStep
	accepting := map[string]*runningStep{} // started steps that accept a request and have no nodes to check, by step ID
	under := map[string]int{}              // long-running steps by provider
	for _, s := range r.running {
		if !s.Info().Brief {
			under[s.Provider]++
		}
	}
	for _, s := range p.Steps {
		long := !s.Info().Brief
		var needs *runningStep
		if s.Kind == plan.KindLaunch && len(s.Needs) == 1 {
			needs = accepting[s.Needs[0]]
		}
		if needs == nil && len(s.Needs) > 0 || len(s.After) > 0 || r.stopping || long && under[s.Provider] >= maxStartedPerProvider {
			continue
		}
		if s.Kind == plan.KindLaunch { // each plan numbers its launches from the start, so the number identifies nothing
			r.launches++
			s.ID = fmt.Sprintf("%s (%d)", s.ID, r.launches)
		}
		if r.running[s.ID] != nil || r.endedAt[s.ID] > seen.StepEpoch || !r.lockedElsewhereUntil[s.ID].IsZero() {
			continue // the plan may not know the result of the previous run of the step yet
		}
		started := &runningStep{Step: s, needs: needs, done: make(chan struct{})}
		r.running[s.ID] = started
		if s.Kind == plan.KindServe && !slices.ContainsFunc(s.Nodes, func(id string) bool { return id != "" }) {
			accepting[s.ID] = started
		}
		if long {
			under[s.Provider]++
		}
		begun, starting = append(begun, s), append(starting, started)
	}
	r.mu.Unlock()
	x := &execution{Engine: engine, sharedRun: r.sharedRun, seen: seen}
	if slices.ContainsFunc(begun, func(s plan.Step) bool { return s.Thing == plan.ThingBuild || s.Record.Kind == resources.KindImage }) {
		if err := r.books.rememberImages(ctx, engine, begun); err != nil {
			x.Log.Error("cannot record images", "error", err)
		}
	}
	var noted sync.WaitGroup
	for _, s := range starting {
		noted.Add(1)
		r.steps.Go(func() { r.step(ctx, x, s, sync.OnceFunc(noted.Done)) })
	}
	noted.Wait()
	return begun
}

// maxStartedPerProvider limits the started long-running steps of one provider. Fewer of them run at a time; the steps
// above the limit are planned again when others have ended.
const maxStartedPerProvider = 500

// step executes one step, after the one that it needs. It calls noted once the intent of the step is in the store.
func (r *Runner) step(ctx context.Context, x *execution, s *runningStep, noted func()) {
	defer noted()
	started, began, failures := time.Now(), x.Now(), 0
	var id string
	var err error
	if s.needs != nil {
		<-s.needs.done
		err = s.needs.err
	}
	if err != nil {
		err = fmt.Errorf("its request was not accepted: %w: %w", errChanged, err)
	} else {
		id, err = x.runStep(ctx, s.Step, stepRun{noted: noted, ended: func(_ string, err error) { failures = r.note(s.Step, began, err) }})
	}
	r.mu.Lock()
	s.err = err
	close(s.done)
	delete(r.running, s.ID)
	r.stepEpoch++
	r.endedAt[s.ID] = r.stepEpoch
	if !s.Info().Brief && errors.Is(err, state.ErrLocked) {
		r.lockedElsewhereUntil[s.ID] = x.Now().Add(lockedElsewherePause)
	}
	r.mu.Unlock()
	if errors.Is(err, errChanged) {
		x.Log.Debug("step outdated", "step", s.ID, "error", err)
		return
	}
	x.reportEnd(s.Step, id, err, time.Since(started), failures)
}

// note records the result of a step for the planner. It returns the number of consecutive failures of the step:
// including this one, or the number before it if the step succeeded.
func (r *Runner) note(s plan.Step, began time.Time, err error) (failures int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// an outdated or interrupted step has neither succeeded nor failed
	undecided := errors.Is(err, ErrInterrupted) || errors.Is(err, errChanged) || r.cache.claims.isDisconnected(err)
	if before := r.failing[s.ID]; before != nil {
		failures = before.Count
	}
	switch {
	case undecided:
		return failures
	case s.Kind != plan.KindLaunch && err == nil:
		delete(r.failing, s.ID)
	case s.Kind != plan.KindLaunch:
		failures++
		r.failing[s.ID] = &resources.Failure{Count: failures, Time: r.engine.Now(), Kind: faultKind(err), Error: err.Error()}
	default:
		r.launching.note(s, began, r.engine.Now(), err)
	}
	if err == nil && s.Action == plan.ActionDelete && s.External != "" && s.Provider != "" {
		if r.deletedInstances[s.Provider] == nil {
			r.deletedInstances[s.Provider] = map[string]instanceDeletion{}
		}
		r.deletedInstances[s.Provider][s.External] = instanceDeletion{began, r.engine.Now()}
	}
	return failures
}

// Tidy stores the durations of steps and removes records that nothing refers to any more.
func (r *Runner) Tidy(ctx context.Context) error {
	engine := r.using()
	installation, err := engine.Installation(ctx)
	if err != nil {
		return err
	}
	return r.books.tidy(ctx, engine, installation)
}

// Stop starts no further steps and waits until the running ones end. When ctx ends first, Stop calls cut to cancel
// them; the next daemon resumes interrupted steps.
func (r *Runner) Stop(ctx context.Context, cut context.CancelFunc) {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	done := make(chan struct{})
	go func() { r.steps.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		cut()
		<-done
	}
	r.pollers.end()
}

// FreezeProvider freezes or thaws a provider. In a shared store this applies to all processes.
func (r *Runner) FreezeProvider(ctx context.Context, name string, frozen bool) error {
	engine := r.using()
	p, ok := engine.Desired.Provider(name)
	if !ok {
		return fmt.Errorf("there is no provider %s", name)
	}
	if shared := r.Shared(); shared != nil {
		return shared.FreezeProvider(ctx, name, frozen)
	}
	return r.books.freeze(ctx, engine, p, frozen)
}

// failingKept is how long the failure of a step is remembered after the step was last tried.
const failingKept = time.Hour

// instanceDeletion holds when a step started and completed the deletion of an instance.
type instanceDeletion struct{ began, ended time.Time }

// Lookup returns a copy of a record, as of the runner's newest commit, and its revision.
func Lookup[T any](r *Runner, kind resources.Kind, id string) (*T, state.Revision, error) {
	key := resources.Key{Kind: kind, ID: id}
	record, revision := find[T](r.cache, key)
	if record == nil {
		return nil, 0, fmt.Errorf("%s: %w", key, state.ErrNotFound)
	}
	return record, revision, nil
}

// OpenRequests returns the number of requests that have neither failed nor been taken.
func (r *Runner) OpenRequests() (open int) {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	for _, request := range r.cache.sorted.Requests {
		if request.State != resources.StateFailed {
			open++
		}
	}
	return open
}

// ProviderRecords lists the records of providers. The caller must not change them.
func (r *Runner) ProviderRecords() []*resources.ProviderRecord {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return slices.Clone(r.cache.sorted.Providers)
}

// LastPostponed returns when a launch in the provider was last postponed because the provider did not respond. It is
// zero if the provider has responded to a launch since.
func (r *Runner) LastPostponed(provider string) (last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.launching[plan.ProviderAddress(provider)]; f != nil && f.Kind == resources.FaultUnavailable {
		last = f.Time
	}
	return last
}

// Busy reports whether a step works on a record.
func (r *Runner) Busy(key resources.Key) bool { return r.cache.isBusy(key) }
