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

// Runner does steps for as long as a daemon lives. Plans come and go: each pass begins the steps of a newer plan that
// need nothing, and those that need something are in the plan again once they need it no more. A step goes on under the
// configuration that it began with.
type Runner struct {
	*run
	steps sync.WaitGroup

	mu        sync.Mutex // guards what follows
	engine    *Engine
	running   map[string]underway // by step id
	launching map[plan.Address]*resources.Failure
	failing   map[string]*resources.Failure   // by step id, of steps that are no launches
	reloaded  time.Time                       // when the configuration was replaced; zero when it was not
	gone      map[string]map[string]departure // provider → instances that steps have seen go
	looked    map[string]time.Time            // provider → when the newest look at it ended
	listed    map[string]time.Time            // provider → when the newest look that saw it began
	launches  int
	stopping  bool
	moment    uint64               // grows with each step that ends
	ended     map[string]uint64    // by step id: the moment at which it ended
	elsewhere map[string]time.Time // by step id: until when it is left alone, since others work on its record
}

// elsewherePause is how long a step is left alone whose record others work on without that being known when it is planned.
const elsewherePause = time.Second

// NewRunner returns a runner over the engine's store. Nobody else may write to it except through the runner, unless it is
// a shared one: see Follow.
func NewRunner(ctx context.Context, e *Engine) (*Runner, error) {
	shared, err := newRun(ctx, e.Store)
	if err != nil {
		return nil, err
	}
	shared.unending = true
	return &Runner{run: shared, engine: e, running: map[string]underway{}, launching: map[plan.Address]*resources.Failure{},
		failing: map[string]*resources.Failure{}, ended: map[string]uint64{},
		elsewhere: map[string]time.Time{}, gone: map[string]map[string]departure{}, looked: map[string]time.Time{}, listed: map[string]time.Time{}}, nil
}

// underway is a step that is being done.
type underway struct {
	plan.Step
	done chan struct{} // closed when it is over
}

// Use makes the steps to come work with another configuration. What has failed under the one before is tried again at once.
func (r *Runner) Use(e *Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine = e
	clear(r.launching)
	clear(r.failing)
	r.reloaded = e.Now()
	e.comeIntoForce(r.run)
}

// comeIntoForce makes the engine's configuration the one that steps of the run begin with.
func (e *Engine) comeIntoForce(r *run) {
	e.takeForce()
	e.resize(r)
	r.guard.Lock()
	defer r.guard.Unlock()
	r.known = map[string]bool{}
}

// Changed gets a hint after records have changed.
func (r *Runner) Changed() <-chan struct{} { return r.ledger.changed }

// Running lists the steps that are being done.
func (r *Runner) Running() []plan.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := make([]plan.Step, 0, len(r.running))
	for _, s := range r.running {
		steps = append(steps, s.Step)
	}
	return steps
}

// Commit changes records for somebody outside, such as a client that takes a node.
func (r *Runner) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	return r.ledger.commit(ctx, "", ops)
}

// Begin begins the steps that need nothing and are not running, and returns them. It returns when the records that
// they write at first are written, so that the next plan takes them into account.
func (r *Runner) Begin(ctx context.Context, p plan.Plan, seen plan.Observed) []plan.Step {
	r.mu.Lock()
	engine := r.engine
	maps.DeleteFunc(r.ended, func(_ string, at uint64) bool { return at <= seen.Moment })
	maps.DeleteFunc(r.elsewhere, func(_ string, until time.Time) bool { return !engine.Now().Before(until) })
	var begun []plan.Step
	under := map[string]int{} // lasting steps by provider
	for _, s := range r.running {
		under[s.Provider] += count(lasting(s.Step))
	}
	for _, s := range p.Steps {
		if len(s.Needs)+len(s.After) > 0 || r.stopping || lasting(s) && under[s.Provider] >= begunAtMost {
			continue
		}
		if s.Action == plan.ActionLaunch { // plans number launches anew, so the number says nothing
			r.launches++
			s.ID = fmt.Sprintf("%s (%d)", s.ID, r.launches)
		}
		if _, already := r.running[s.ID]; already || r.ended[s.ID] > seen.Moment || !r.elsewhere[s.ID].IsZero() {
			continue // the plan may know nothing yet of what it has done
		}
		r.running[s.ID] = underway{s, make(chan struct{})}
		under[s.Provider] += count(lasting(s))
		begun = append(begun, s)
	}
	r.mu.Unlock()
	x := engine.execution(r.run, seen)
	if slices.ContainsFunc(begun, func(s plan.Step) bool { return s.Thing == plan.ThingBuild || s.Record.Kind == resources.KindImage }) {
		if err := x.rememberImages(ctx, plan.Plan{Steps: begun}); err != nil {
			x.Log.Error("images could not be noted", "error", err)
		}
	}
	var noted sync.WaitGroup
	for _, s := range begun {
		noted.Add(1)
		r.steps.Go(func() { r.step(ctx, x, s, sync.OnceFunc(noted.Done)) })
	}
	noted.Wait()
	return begun
}

// begunAtMost is how many steps of one provider are begun at a time that take longer than writing a record. Fewer of them
// are under way; the others are planned again when there is room.
const begunAtMost = 500

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// step does one step. It calls noted once what it is about to do is in the store.
func (r *Runner) step(ctx context.Context, x *execution, s plan.Step, noted func()) {
	defer noted()
	ctx = r.ledger.claims.begin(ctx, s.ID)
	if s.Record.Kind != "" {
		r.ledger.hold(s.ID, s.Record)
	}
	x.report(Event{Kind: EventStart, Step: s})
	started, began := time.Now(), x.Now()
	var id string
	var err error
	stale := x.unverified(s)
	for _, n := range stale {
		r.ledger.hold(s.ID, n.Key())
	}
	switch {
	case s.Action == plan.ActionLaunch:
		id, err = r.launch(ctx, x, s, noted)
	case len(stale) > 0:
		noted()
		id, err = x.do(ctx, s)
	case lasting(s):
		noted()
		var free func()
		if free, err = x.slot(ctx, s); err == nil {
			id, err = x.do(ctx, s)
			free()
		}
	default:
		id, err = x.do(ctx, s)
	}
	failures := r.note(s, began, err)
	r.ledger.claims.end(ctx, s.ID)
	r.ledger.release(s.ID)
	r.mu.Lock()
	close(r.running[s.ID].done)
	delete(r.running, s.ID)
	r.moment++
	r.ended[s.ID] = r.moment
	if lasting(s) && errors.Is(err, state.ErrLocked) {
		r.elsewhere[s.ID] = x.Now().Add(elsewherePause)
	}
	r.mu.Unlock()
	if errors.Is(err, errChanged) {
		x.Log.Debug("step overtaken", "step", s.ID, "error", err)
		return
	}
	x.finish(s, id, err, time.Since(started), failures)
}

// lasting reports whether a step takes longer than writing a record.
func lasting(s plan.Step) bool {
	switch s.Action {
	case plan.ActionServe, plan.ActionDecline, plan.ActionForget:
		return false
	case plan.ActionUpdate:
		return s.ChecksMachine()
	default:
		return true
	}
}

// launch makes a node.
func (r *Runner) launch(ctx context.Context, x *execution, s plan.Step, noted func()) (string, error) {
	if err := x.rememberProvider(ctx, s.Provider); err != nil {
		return "", err
	}
	l, err := x.intendLaunch(ctx, s)
	if err != nil {
		return "", err
	}
	noted()
	free, err := x.slot(ctx, s)
	if err != nil {
		return l.node.ID, err
	}
	defer free()
	return l.node.ID, l.run(ctx)
}

// note remembers what the planner has to know of a step that is over. It returns how often in a row the step has failed:
// this time included, or until now when it is done.
func (r *Runner) note(s plan.Step, began time.Time, err error) (failures int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Action != plan.ActionLaunch {
		failures = r.remember(s, err)
	}
	switch {
	case s.Action == plan.ActionLaunch && (errors.Is(err, ErrInterrupted) || errors.Is(err, errChanged) || r.ledger.claims.severed(err)):
	case s.Action == plan.ActionLaunch:
		offer := plan.OfferAddress(s.Provider, s.Pool, s.Label)
		for _, at := range []plan.Address{offer, plan.ProviderAddress(s.Provider)} {
			if err == nil {
				delete(r.launching, at)
				continue
			}
			r.launching[at] = launchFailed(r.launching[at], began, r.engine.Now(), err)
		}
	case err == nil && s.Action == plan.ActionDelete && s.External != "" && s.Provider != "":
		if r.gone[s.Provider] == nil {
			r.gone[s.Provider] = map[string]departure{}
		}
		r.gone[s.Provider][s.External] = departure{began, r.engine.Now()}
	}
	return failures
}

// remember counts the failures of a step that is no launch. The caller holds mu.
func (r *Runner) remember(s plan.Step, err error) (failures int) {
	before := r.failing[s.ID]
	if before != nil {
		failures = before.Count
	}
	switch {
	case err == nil:
		delete(r.failing, s.ID)
	case errors.Is(err, ErrInterrupted) || errors.Is(err, errChanged) || r.ledger.claims.severed(err):
	default:
		failures++
		r.failing[s.ID] = &resources.Failure{Count: failures, Time: r.engine.Now(), Kind: faultKind(err), Error: err.Error()}
	}
	return failures
}

// launchFailed is what is remembered after one more launch that failed.
func launchFailed(before *resources.Failure, began, now time.Time, err error) *resources.Failure {
	f := &resources.Failure{Count: 1, Time: now, Kind: faultKind(err), Error: err.Error()}
	switch {
	case before == nil:
	case f.Kind == resources.FaultQuota || f.Kind == resources.FaultCapacity: // the cloud is full, not broken
	case f.Kind == resources.FaultUnavailable && began.Before(before.Time): // what ran at the same time met the same outage
		f.Count = before.Count
	default:
		f.Count += before.Count
	}
	return f
}

// Tidy writes down how long steps took, and drops what nothing refers to any more.
func (r *Runner) Tidy(ctx context.Context) error {
	r.mu.Lock()
	engine := r.engine
	r.mu.Unlock()
	installation, err := engine.installation(ctx)
	if err != nil {
		return err
	}
	x := engine.execution(r.run, plan.Observed{Installation: installation})
	return x.tidy(ctx)
}

// Stop begins nothing any more, and waits until what runs is done or ctx ends. Interrupted steps are resumed by the
// next daemon.
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
	r.end()
}

// FreezeProvider notes that a provider is to be left alone, or is not any more: by all processes, where others work in the
// same store.
func (r *Runner) FreezeProvider(ctx context.Context, name string, frozen bool) error {
	r.mu.Lock()
	engine := r.engine
	r.mu.Unlock()
	p, ok := engine.provider(name)
	if !ok {
		return fmt.Errorf("there is no provider %s", name)
	}
	if shared := r.Shared(); shared != nil {
		return shared.FreezeProvider(ctx, name, frozen)
	}
	release, err := r.place(ctx, "record of provider "+name, 1)
	if err != nil {
		return err
	}
	defer release()
	record, known := get[resources.ProviderRecord](r.ledger, resources.Key{Kind: resources.KindProvider, ID: name})
	if !known {
		if record, err = Remember(p, engine.Drivers[p.Driver].Schema().Provider); err != nil {
			return err
		}
	}
	record.Frozen = frozen
	return r.ledger.put(ctx, record)
}
