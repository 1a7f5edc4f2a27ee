package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// ConsentRequiredError reports that a reload was refused because the new configuration would delete a large part of the
// fleet.
type ConsentRequiredError struct {
	Consent *plan.Consent
	Deletes []plan.Step
}

func (e *ConsentRequiredError) Error() string { return "new configuration: " + e.Consent.Error() }

// Reload reads the configuration and puts it in force. It refuses a configuration with errors as a whole and, unless
// allowDestroy is set, a configuration with deletions that require consent; the old configuration then stays in force.
// Reload returns the plan of the new configuration.
func (d *Daemon) Reload(ctx context.Context, allowDestroy bool) (plan.Plan, error) {
	d.reloading.Lock() // the configuration that was read last must win
	defer d.reloading.Unlock()
	p, err := d.reload(ctx, allowDestroy)
	d.noteReload(err)
	if d.Reloaded != nil {
		d.Reloaded(p, err)
	}
	return p, err
}

// noteReload records the result of a reload in the configuration's state and in the journal.
func (d *Daemon) noteReload(err error) {
	e := resources.Event{Time: d.observer.Engine().Now(), Code: "config-loaded", Subject: configSubject, Text: "the configuration was reloaded"}
	if err != nil {
		e.Code, e.Text = "config-refused", "the new configuration was rejected: "+err.Error()
	}
	d.config.noteReload(e.Time, err)
	d.Journal.add(e)
}

func (d *Daemon) reload(ctx context.Context, allowDestroy bool) (plan.Plan, error) {
	if d.Load == nil {
		return plan.Plan{}, errors.New("this daemon cannot reload its configuration")
	}
	desired, err := d.Load(ctx)
	if err != nil {
		return plan.Plan{}, err
	}
	old := d.observer.Engine()
	next := old.With(desired)
	seen, err := d.observer.Preview(ctx, next, d.changedProviders(old.Desired, next.Desired))
	if err != nil {
		return plan.Plan{}, err
	}
	p := plan.Compute(next.Desired, seen, plan.Options{HonorBackoff: true, AllowDestroy: allowFor(allowDestroy)})
	for _, problem := range p.Problems {
		return p, fmt.Errorf("%s: %s", problem.Address, problem.Text)
	}
	if p.Consent != nil && !d.Shadow {
		return p, &ConsentRequiredError{Consent: p.Consent, Deletes: stepsNeedingConsent(p)}
	}
	d.config.replace(func() { d.observer.Use(next, seen) }, allowDestroy)
	d.reloaded()
	return p, nil
}

// changedProviders returns the providers in which the new configuration creates nodes differently. A reload lists them, so
// that its plan reports names that they do not know before the configuration is in force.
func (d *Daemon) changedProviders(old, next resources.Desired) (names []string) {
	for i := range next.Providers {
		if p := &next.Providers[i]; d.duties.hasProvider(p.Name) && makesOtherwise(old, p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// makesOtherwise reports whether the provider is new, is configured differently, or has a new or changed offer.
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

// stepsNeedingConsent returns the steps that need consent.
func stepsNeedingConsent(p plan.Plan) []plan.Step {
	var steps []plan.Step
	for _, s := range p.Steps {
		if s.NeedsConsent {
			steps = append(steps, s)
		}
	}
	return steps
}

// reloaded starts the pollers of new providers and triggers all listings and a pass.
func (d *Daemon) reloaded() {
	d.pollers.update()
	d.pollers.triggerAll()
}
