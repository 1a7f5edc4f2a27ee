package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// aheadTime is how long a new configuration waits for providers to say whether they know what it names.
const aheadTime = 10 * time.Second

// HeldBackError is why a new configuration was not taken: it would remove much.
type HeldBackError struct {
	Consent *plan.Consent
	Deletes []plan.Step
}

func (e *HeldBackError) Error() string { return "new configuration: " + e.Consent.Error() }

// Reload reads the configuration anew and goes on with it. A configuration with mistakes is refused as a whole, and so is
// one that would remove much, unless allowDestroy says that this is meant; the old one goes on then. It returns what the new
// configuration changes at once.
func (d *Daemon) Reload(ctx context.Context, allowDestroy bool) (plan.Plan, error) {
	d.reloading.Lock() // what was read later has to win
	defer d.reloading.Unlock()
	p, err := d.reload(ctx, allowDestroy)
	d.readConfig(err)
	if d.Reloaded != nil {
		d.Reloaded(p, err)
	}
	return p, err
}

func (d *Daemon) reload(ctx context.Context, allowDestroy bool) (plan.Plan, error) {
	if d.Load == nil {
		return plan.Plan{}, errors.New("this daemon cannot read its configuration anew")
	}
	desired, err := d.Load(ctx)
	if err != nil {
		return plan.Plan{}, err
	}
	old, seen := d.observed()
	next := old.With(desired)
	around, err := next.Around(ctx, false)
	if err != nil {
		return plan.Plan{}, err
	}
	around.Sources, around.Hosts = seen.Sources, seen.Hosts // which take a while to ask
	around.Providers, around.Frozen = seen.Providers, seen.Frozen
	d.lookAhead(ctx, old.Desired, next, around.Providers)
	seen = around
	if err := next.Files(&seen); err != nil {
		return plan.Plan{}, err
	}
	d.runner.Complete(&seen)
	seen.Now = next.Now()
	seen.Launching, seen.Reloaded = nil, seen.Now // as after Use
	seen.Failing = nil                            // every deletion counts, also one that is retried later
	p := plan.Compute(next.Desired, seen, plan.Options{Patient: true, AllowDestroy: allowed(allowDestroy)})
	for _, problem := range p.Problems {
		return p, fmt.Errorf("%s: %s", problem.Address, problem.Text)
	}
	if p.Consent != nil && !d.Shadow {
		return p, &HeldBackError{Consent: p.Consent, Deletes: held(p)}
	}
	d.mu.Lock()
	d.current = next
	d.consented, d.holding = allowDestroy, nil
	d.around = around
	d.mu.Unlock()
	d.runner.Use(next)
	d.reloaded()
	return p, nil
}

// lookAhead looks at those providers in which the new configuration makes nodes in another way, so that names they do not
// know are found before it is taken. What does not answer in time is believed.
func (d *Daemon) lookAhead(ctx context.Context, old resources.Desired, next *reconcile.Engine, views map[string]plan.ProviderView) {
	ctx, cancel := context.WithTimeout(ctx, aheadTime)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex // guards views
	for i := range next.Desired.Providers {
		p := &next.Desired.Providers[i]
		if !d.serves(p.Name) || !makesOtherwise(old, p) {
			continue
		}
		group.Go(func() {
			view := d.runner.LookAs(ctx, next, p.Name)
			mu.Lock()
			defer mu.Unlock()
			if view.Err == "" {
				views[p.Name] = view
			}
		})
	}
	group.Wait()
}

// makesOtherwise reports whether the provider is another one than before, or has an offer that it had not.
func makesOtherwise(old resources.Desired, p *resources.Provider) bool {
	i := slices.IndexFunc(old.Providers, func(o resources.Provider) bool { return o.Name == p.Name })
	if i < 0 || !old.Providers[i].Config.RawEquals(p.Config) {
		return true
	}
	for j := range p.Pools {
		for k := range p.Pools[j].Offers {
			if !hadOffer(&old.Providers[i], p.Pools[j].Name, &p.Pools[j].Offers[k]) {
				return true
			}
		}
	}
	return false
}

func hadOffer(p *resources.Provider, pool string, o *resources.Offer) bool {
	i := slices.IndexFunc(p.Pools, func(x resources.Pool) bool { return x.Name == pool })
	if i < 0 {
		return false
	}
	before := p.Pools[i].Offer(o.Label)
	return before != nil && before.Image == o.Image && before.Config.RawEquals(o.Config)
}

// held lists the steps that need consent.
func held(p plan.Plan) []plan.Step {
	var steps []plan.Step
	for _, s := range p.Steps {
		if s.Held {
			steps = append(steps, s)
		}
	}
	return steps
}

// reloaded makes everybody look at the world with the new configuration.
func (d *Daemon) reloaded() {
	d.mu.Lock()
	ctx, group := d.side, d.helpers
	d.mu.Unlock()
	if ctx != nil {
		d.watchProviders(ctx, group)
	}
	d.nudgeAll()
}

// nudgeAll asks for a fresh look at everything.
func (d *Daemon) nudgeAll() {
	d.mu.Lock()
	names := slices.AppendSeq([]string{aroundNudge}, maps.Keys(d.lookers))
	d.mu.Unlock()
	for _, name := range names {
		d.nudges.nudge(name)
	}
	d.nudge()
}
