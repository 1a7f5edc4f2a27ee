package watch

import (
	"context"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// Pass is one round of the daemon: what was seen, what was decided, and what was begun.
type Pass struct {
	Desired resources.Desired
	Seen    plan.Observed
	Plan    plan.Plan
	Begun   []plan.Step
	Served  map[string]bool // providers that this process takes care of, where others work in the same store
	Took    time.Duration
}

// pass looks at what is known, decides, and begins what is to be done. It returns how long it took to decide.
func (d *Daemon) pass(ctx context.Context) time.Duration {
	started := time.Now()
	defer func() { now := time.Now(); d.beat.Store(&now) }()
	if !d.connected() {
		return 0
	}
	engine, seen := d.complete()
	seen.Now, seen.Returning = engine.Now(), d.returned()
	p := d.decide(engine.Desired, seen)
	d.holdBack(engine, p)
	todo := p
	todo.Steps = d.allowed(p, seen.Now)
	thought := time.Since(started)
	begun := d.begin(ctx, todo, seen)
	pass := Pass{Desired: engine.Desired, Seen: seen, Plan: p, Begun: begun, Served: d.served(), Took: time.Since(started)}
	d.mu.Lock()
	d.last = pass
	d.mu.Unlock()
	if d.Observe != nil {
		d.Observe(pass)
	}
	d.watchStall(pass)
	d.watchRivals(pass)
	d.enroll(pass)
	d.compare(pass)
	return thought
}

// complete puts together all that is known. Records read after a reload may have requests that only the new configuration
// can serve, so they are never seen with the old one.
func (d *Daemon) complete() (engine *reconcile.Engine, seen plan.Observed) {
	for engine != d.engine() {
		engine, seen = d.observed()
		d.files(engine, &seen)
		d.runner.Complete(&seen)
	}
	return engine, seen
}

// files looks at the images directory. While that cannot be done, files are left alone and everything else goes on.
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

// observed puts together what is known besides the records.
func (d *Daemon) observed() (*reconcile.Engine, plan.Observed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.around
	seen.Formats = d.current.Formats()
	seen.Providers = make(map[string]plan.ProviderView, len(d.views))
	for name, view := range d.views {
		seen.Providers[name] = view
	}
	for i := range d.current.Desired.Providers {
		if name := d.current.Desired.Providers[i].Name; seen.Providers[name].ListedAt.IsZero() && seen.Providers[name].Err == "" {
			seen.Providers[name] = plan.ProviderView{Err: notLooked}
		}
	}
	seen.Frozen = d.leftAlone()
	for name := range d.lookers {
		if !d.needed(name) {
			seen.Frozen[name] = true
		}
	}
	return d.current, seen
}

// allowed leaves out what the plan must not do.
func (d *Daemon) allowed(p plan.Plan, now time.Time) []plan.Step {
	forbidden := map[plan.Address]bool{}
	for _, problem := range p.Problems {
		forbidden[problem.Address] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var steps []plan.Step
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Held || s.Removes() && forbidden[s.Address] || s.Action == plan.ActionBuild && !d.known(now) {
			continue
		}
		steps = append(steps, *s)
	}
	return steps
}

// known reports whether every provider has said what format it takes, or has had its time to. The caller holds mu.
func (d *Daemon) known(now time.Time) bool {
	frozen := d.frozenNow()
	for i := range d.current.Desired.Providers {
		if name := d.current.Desired.Providers[i].Name; d.views[name].ListedAt.IsZero() && d.views[name].Err == "" && !frozen[name] && d.needed(name) {
			return now.Sub(d.began) > firstLooks
		}
	}
	return true
}
