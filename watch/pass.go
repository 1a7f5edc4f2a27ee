package watch

import (
	"context"
	"slices"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// Pass is the result of one cycle of the daemon: the observed state, the plan and the started steps.
type Pass struct {
	Desired  resources.Desired
	Observed plan.Observed
	Plan     plan.Plan
	Started  []plan.Step
	Leads    map[string]bool // providers that this process leads in a shared store; nil without one and in a shadow
	Took     time.Duration
}

// pass observes, plans and starts steps. It returns how long observing and planning took.
func (d *Daemon) pass(ctx context.Context) time.Duration {
	started := time.Now()
	defer func() { now := time.Now(); d.lastPass.Store(&now) }()
	if !d.connected() {
		return 0
	}
	d.images.startPass(len(d.engine().Desired.Images) > 0)
	engine, seen := d.complete()
	seen.Now, seen.StoreReconnected = engine.Now(), d.recentlyReconnected()
	p := d.decide(engine.Desired, seen)
	d.requireConsent(engine, p)
	todo := p
	todo.Steps = d.runnableSteps(p, seen.Now)
	thought := time.Since(started)
	d.images.setWanted(todo.Steps)
	begun := d.startSteps(ctx, todo, seen)
	pass := Pass{Desired: engine.Desired, Observed: seen, Plan: p, Started: begun, Leads: d.served(), Took: time.Since(started)}
	d.mu.Lock()
	d.last = pass
	d.mu.Unlock()
	if d.Observe != nil {
		d.Observe(pass)
	}
	d.logStall(pass)
	d.warnCompetitors(pass)
	d.publishPresence(pass)
	d.compare(pass)
	return thought
}

// startSteps starts the steps that this process may run and returns them, unless the daemon is suspended or a shadow.
func (d *Daemon) startSteps(ctx context.Context, p plan.Plan, seen plan.Observed) (started []plan.Step) {
	if d.Shadow {
		return nil
	}
	_ = d.suspension.unlessSuspended(func() error {
		p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool { return !d.duties.mayRun(&s) })
		started = d.runner.Start(ctx, p, seen)
		return nil
	})
	return started
}

// served returns the providers that this process leads in a shared store, and nil without one or in a shadow.
func (d *Daemon) served() map[string]bool {
	if d.leadership.store == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	served := map[string]bool{}
	for name := range d.pollers {
		if d.duties.leads(name) {
			served[name] = true
		}
	}
	return served
}

// complete returns the observed state and the engine that belongs to it. Records read after a reload may contain
// requests that only the new configuration can serve, so complete never combines them with the old one.
func (d *Daemon) complete() (engine *reconcile.Engine, seen plan.Observed) {
	for engine != d.engine() {
		engine, seen = d.observed()
		d.files(engine, &seen)
		d.runner.FillFromRunner(&seen)
	}
	return engine, seen
}

// files reads the images directory. While that fails, passes leave its files unchanged and continue with everything
// else.
func (d *Daemon) files(engine *reconcile.Engine, seen *plan.Observed) {
	before := d.filesErr
	d.filesErr = ""
	if err := engine.Files(seen); err != nil {
		seen.Files, d.filesErr = nil, err.Error()
	}
	switch {
	case d.filesErr != "" && d.filesErr != before:
		d.Log.Error("the images directory cannot be read", "error", d.filesErr)
	case d.filesErr == "" && before != "":
		d.Log.Info("the images directory can be read again")
	}
}

// observed returns the observed state without records and files, and the engine that it belongs to.
func (d *Daemon) observed() (*reconcile.Engine, plan.Observed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.localInputs
	seen.Formats = d.current.Formats()
	seen.Providers = make(map[string]plan.ProviderView, len(d.views))
	for name, view := range d.views {
		seen.Providers[name] = view
	}
	for i := range d.current.Desired.Providers {
		if name := d.current.Desired.Providers[i].Name; seen.Providers[name].ListedAt.IsZero() && seen.Providers[name].Err == "" {
			seen.Providers[name] = plan.ProviderView{Err: notListed}
		}
	}
	seen.Frozen = d.frozenLocked()
	for name := range d.pollers {
		if !d.duties.manages(name) {
			seen.Frozen[name] = true
		}
	}
	return d.current, seen
}

// runnableSteps returns the steps that may start: none that needs consent, no deletion of an address with a problem,
// and no build before the formats are known.
func (d *Daemon) runnableSteps(p plan.Plan, now time.Time) []plan.Step {
	forbidden := map[plan.Address]bool{}
	for _, problem := range p.Problems {
		forbidden[problem.Address] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var steps []plan.Step
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.NeedsConsent || s.Removes() && forbidden[s.Address] || s.Action == plan.ActionBuild && !d.formatsKnown(now) {
			continue
		}
		steps = append(steps, *s)
	}
	return steps
}

// formatsKnown reports whether every provider has reported its format or failed to, or firstListingTimeout has passed.
// The caller holds mu.
func (d *Daemon) formatsKnown(now time.Time) bool {
	frozen := d.frozenNow()
	for i := range d.current.Desired.Providers {
		if name := d.current.Desired.Providers[i].Name; d.views[name].ListedAt.IsZero() && d.views[name].Err == "" && !frozen[name] && d.duties.manages(name) {
			return now.Sub(d.began) > firstListingTimeout
		}
	}
	return true
}
