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
	return &Runner{run: shared, engine: e, running: map[string]underway{}, launching: map[plan.Address]*resources.Failure{}, ended: map[string]uint64{},
		elsewhere: map[string]time.Time{}, gone: map[string]map[string]departure{}, looked: map[string]time.Time{}, listed: map[string]time.Time{}}, nil
}

// underway is a step that is being done.
type underway struct {
	plan.Step
	done chan struct{} // closed when it is over
}

// departure is how a step has seen an instance go.
type departure struct{ began, ended time.Time }

// Use makes the steps to come work with another configuration. What has failed under the one before is tried again at once.
func (r *Runner) Use(e *Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine = e
	e.takeForce()
	clear(r.launching)
	r.reloaded = e.Now()
	r.resize(e.Desired.Providers)
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

// Complete adds to an observation what the runner knows: the records as they are now, what is being done to them, which
// launches failed, and what has gone since the providers were listed.
func (r *Runner) Complete(seen *plan.Observed) {
	r.mu.Lock()
	seen.Moment = r.moment // before the records are read: what ends from here on may be missing in them
	seen.Serving = nil     // likewise
	for _, s := range r.running {
		if s.Action == plan.ActionServe {
			seen.Serving = append(seen.Serving, s.Step)
		}
	}
	r.mu.Unlock()
	seen.Records, seen.Busy = r.ledger.snapshot()
	if shared := r.Shared(); shared != nil {
		seen.Shared, seen.Peers, seen.Claimed, seen.Held = true, shared.Peers(), shared.Claimed(), r.ledger.claims.keys()
		seen.Wished = shared.BuildsWished()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen.Launching, seen.Reloaded = maps.Clone(r.launching), r.reloaded
	for name, view := range seen.Providers {
		if len(r.gone[name]) == 0 {
			continue
		}
		view.Gone, view.Going = make(map[string]bool, len(r.gone[name])), map[string]bool{}
		for id, d := range r.gone[name] {
			if d.ended.Before(view.ListedAt) {
				continue
			}
			view.Gone[id] = true
			if !d.began.After(r.looked[name]) {
				view.Going[id] = true
			}
		}
		seen.Providers[name] = view
	}
}

// Lookup returns a copy of a record, as of the runner's newest commit, and its revision.
func Lookup[T any](r *Runner, kind resources.Kind, id string) (*T, state.Revision, error) {
	key := resources.Key{Kind: kind, ID: id}
	record, revision := find[T](r.ledger, key)
	if record == nil {
		return nil, 0, fmt.Errorf("%s: %w", key, state.ErrNotFound)
	}
	return record, revision, nil
}

// Remembered lists the records of providers, which are not to be changed.
func (r *Runner) Remembered() []*resources.ProviderRecord {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	return slices.Clone(r.ledger.sorted.Providers)
}

// PutOff is when a launch in the provider was last put off, because it did not answer, unless one was answered since.
func (r *Runner) PutOff(provider string) (last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.launching[plan.ProviderAddress(provider)]; f != nil && f.Kind == resources.FaultUnavailable {
		last = f.Time
	}
	return last
}

// Busy reports whether a step works on a record.
func (r *Runner) Busy(key resources.Key) bool {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	return r.ledger.busy[key] != ""
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
	r.note(s, began, err)
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
	x.finish(s, id, err, time.Since(started))
}

// lasting reports whether a step takes longer than writing a record.
func lasting(s plan.Step) bool {
	switch s.Action {
	case plan.ActionServe, plan.ActionDecline, plan.ActionForget:
		return false
	case plan.ActionUpdate:
		return s.Node != "" // a machine is checked
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

// note remembers what the planner has to know of a step that is over.
func (r *Runner) note(s plan.Step, began time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// Look lists one provider, as Observe does, for the view to be used until the next look.
func (r *Runner) Look(ctx context.Context, provider string) plan.ProviderView {
	r.mu.Lock()
	engine := r.engine
	r.mu.Unlock()
	view := r.LookAs(ctx, engine, provider)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.listed[provider] // that view may still be in use
	maps.DeleteFunc(r.gone[provider], func(_ string, d departure) bool { return d.ended.Before(before) })
	r.looked[provider] = engine.Now()
	if view.Err == "" {
		r.listed[provider] = view.ListedAt
	}
	return view
}

// LookAs looks at a provider with another configuration, which nothing goes by yet.
func (r *Runner) LookAs(ctx context.Context, engine *Engine, provider string) plan.ProviderView {
	record, _ := get[resources.ProviderRecord](r.ledger, resources.Key{Kind: resources.KindProvider, ID: provider})
	return engine.view(ctx, provider, record, r.ledger.expect()[provider])
}

// Sight records what carries our marks without a record in what has just been listed.
func (r *Runner) Sight(ctx context.Context, seen plan.Observed) error {
	now, gone := plan.Sightings(seen)
	for _, s := range now {
		if err := r.ledger.put(ctx, s); err != nil {
			return err
		}
	}
	return r.ledger.drop(ctx, gone...)
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

// Stop begins nothing any more, and waits until what runs is done or ctx ends. What is cut off is gone on with by the
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
