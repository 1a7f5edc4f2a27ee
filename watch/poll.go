package watch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// pollers lists the providers that this process manages. Each provider that is configured or has a record has one
// poller, which also maintains the lock of the provider.
type pollers struct {
	runner      *reconcile.Runner
	observer    *reconcile.Observer
	duties      duties
	refresh     time.Duration // between two listings without a trigger
	triggers    *triggers
	outages     *outages
	suspension  *suspension
	log         *slog.Logger
	readOnly    bool // recordLeaks does nothing
	triggerPass func()

	mu      sync.Mutex      // guards the fields below
	running map[string]bool // providers that have a poller
	ctx     context.Context // ends with Run and stops the pollers; nil before
	group   *sync.WaitGroup
}

// start starts the pollers, in group, until ctx is done.
func (p *pollers) start(ctx context.Context, group *sync.WaitGroup) {
	p.mu.Lock()
	p.ctx, p.group = ctx, group
	p.mu.Unlock()
	p.update()
}

// update starts a poller for each provider without one. It does nothing before start.
func (p *pollers) update() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return
	}
	ctx := p.ctx
	for name := range p.known() {
		if p.duties.hasProvider(name) && !p.running[name] {
			p.running[name] = true
			p.group.Go(func() { p.run(ctx, name) })
		}
	}
}

// known returns the names of the providers that are configured or have a record.
func (p *pollers) known() map[string]bool {
	names := map[string]bool{}
	desired := &p.observer.Engine().Desired
	for i := range desired.Providers {
		names[desired.Providers[i].Name] = true
	}
	for _, r := range p.runner.ProviderRecords() {
		names[r.Name] = true
	}
	return names
}

// run polls a provider and maintains its lock while the provider exists. Only poll detects that the provider is gone, so
// that a provider that returns at that moment gets both again.
func (p *pollers) run(ctx context.Context, name string) {
	for ctx.Err() == nil {
		gone := make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() {
			if p.poll(ctx, name); ctx.Err() == nil {
				close(gone)
			}
		})
		if p.duties.hasTask(TaskNodes) {
			both.Go(func() {
				p.duties.leadership.maintain(ctx, state.ProviderLock(name), func() { p.triggers.trigger(name) }, gone)
			})
		}
		both.Wait()
		if p.stop(name) {
			return
		}
	}
}

// poll lists one provider repeatedly while this process manages anything there. It returns when the provider is gone.
func (p *pollers) poll(ctx context.Context, name string) {
	for {
		wait := p.refresh
		if p.duties.manages(name) {
			view := p.runner.ListProvider(ctx, name)
			if ctx.Err() != nil {
				return
			}
			p.onListing(ctx, name, view)
			if view.Err != "" {
				wait = min(wait, listRetryInterval)
			}
		} else {
			p.forget(name)
		}
		select {
		case <-time.After(wait):
		case <-p.triggers.channel(name):
			if _, listed := p.observer.Listing(name); listed && !sleep(ctx, time.Second) { // one listing serves all triggers of this second
				return
			}
		case <-ctx.Done():
			return
		}
		if p.isRemoved(name) {
			return
		}
	}
}

// onListing records a listing and triggers a pass.
func (p *pollers) onListing(ctx context.Context, name string, view plan.ProviderView) {
	p.recordLeaks(ctx, "provider "+name, func() error { return p.observer.Sight(ctx, name, view) })
	before := p.observer.SetListing(name, view) // after the sightings, which keep new IDs above those in the listing
	p.outages.onListing(name, before, view)
	p.triggerPass()
}

// pollInputs queries the input files of images, image sources and build hosts repeatedly until ctx is done.
func (p *pollers) pollInputs(ctx context.Context) {
	for {
		switch err := p.observer.QueryInputs(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.log.Error("inputs of images could not be queried", "error", err)
		default:
			p.recordLeaks(ctx, "images directory", func() error { return p.observer.SightFiles(ctx) })
			p.triggerPass()
		}
		select {
		case <-time.After(p.refresh):
		case <-p.triggers.channel(inputsTrigger):
		case <-ctx.Done():
			return
		}
	}
}

// recordLeaks calls sight, which records the objects that carry the ownership tags of this installation and have no
// record. They are deleted after leak_age. where names their place in the log.
func (p *pollers) recordLeaks(ctx context.Context, where string, sight func() error) {
	if p.readOnly {
		return
	}
	if err := p.suspension.unlessSuspended(sight); err != nil && ctx.Err() == nil {
		p.log.Error("leaks could not be recorded", "where", where, "error", err)
	}
}

// isRemoved reports whether a provider is neither configured nor recorded.
func (p *pollers) isRemoved(name string) bool {
	_, _, err := reconcile.Lookup[resources.ProviderRecord](p.runner, resources.KindProvider, name)
	return err != nil && !hasProvider(p.observer.Engine().Desired, name)
}

func hasProvider(desired resources.Desired, name string) bool {
	return slices.ContainsFunc(desired.Providers, func(p resources.Provider) bool { return p.Name == name })
}

// stop removes the poller of a provider that is gone. It returns false when the provider has returned in the meantime.
func (p *pollers) stop(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isRemoved(name) {
		return false
	}
	p.forget(name)
	delete(p.running, name)
	return true
}

// forget drops the listing and the outage of a provider.
func (p *pollers) forget(name string) {
	p.observer.Forget(name)
	p.outages.forget(name)
}

// providers returns the names of the providers that have a poller.
func (p *pollers) providers() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.running))
}

// triggerAll triggers the listings of all providers, the query of inputs, and a pass.
func (p *pollers) triggerAll() {
	for _, name := range append(p.providers(), inputsTrigger) {
		p.triggers.trigger(name)
	}
	p.triggerPass()
}

// inputsTrigger is the name by which the input poller is triggered; no provider has it.
const inputsTrigger = ""

// triggers wakes pollers before their next listing is due.
type triggers struct {
	mu         sync.Mutex // guards byProvider
	byProvider map[string]chan struct{}
}

func (n *triggers) channel(provider string) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byProvider == nil {
		n.byProvider = map[string]chan struct{}{}
	}
	if n.byProvider[provider] == nil {
		n.byProvider[provider] = make(chan struct{}, 1)
	}
	return n.byProvider[provider]
}

// onStepDone triggers the listing that shows the result of a step: of a provider, or of build hosts.
func (n *triggers) onStepDone(s plan.Step) {
	switch {
	case s.Kind == plan.KindBuild:
		n.trigger(inputsTrigger)
	case s.Provider != "" && (s.Kind == plan.KindUpload || s.Thing == plan.ThingLeftover || s.Thing == plan.ThingUpload):
		n.trigger(s.Provider)
	}
}

// onStepFailed triggers the listing that shows whether the provider of a step still responds, so that status and plans
// know of an outage from its first failing call on.
func (n *triggers) onStepFailed(s plan.Step, err error) {
	if s.Provider != "" && reconcile.IsUnavailable(err) {
		n.trigger(s.Provider)
	}
}

func (n *triggers) trigger(provider string) {
	select {
	case n.channel(provider) <- struct{}{}:
	default:
	}
}

// The daemon logs an outage of a provider once when it begins and once when it ends, whether a listing or a postponed
// launch revealed it.

// outageEndDelay is how long after the newest postponed launch an outage counts as over although no launch has
// succeeded since. The plan may no longer contain launches in the provider.
const outageEndDelay = 5 * time.Minute

// outages knows the providers that do not respond.
type outages struct {
	log           *slog.Logger
	now           func() time.Time
	lastPostponed func(provider string) time.Time // when a launch was last postponed

	mu          sync.Mutex      // guards the fields below
	unreachable map[string]bool // providers with an outage that was logged
	responded   map[string]bool // providers that were listed successfully at least once
}

// onLaunchResult updates the outage of a provider from the result of a launch. view is the newest listing.
func (o *outages) onLaunchResult(event reconcile.Event, view plan.ProviderView) {
	provider := event.Step.Provider
	switch {
	case errors.Is(event.Err, reconcile.ErrProviderUnreachable):
		if o.start(provider) {
			o.log.Warn("provider does not respond; launches are postponed", "provider", provider, "error", event.Err)
		}
	case event.Kind == reconcile.EventDone:
		o.end(provider, view)
	}
}

// onListing updates the outage of a provider from a listing.
func (o *outages) onListing(provider string, before, view plan.ProviderView) {
	if view.Err == "" {
		o.mu.Lock()
		o.responded[provider] = true
		o.mu.Unlock()
		o.end(provider, view)
		return
	}
	if o.start(provider) || before.Rejected != view.Rejected {
		o.log.Warn("provider could not be listed", "provider", provider, "error", view.Err)
	}
}

// start records that a provider does not respond, and reports whether it responded before.
func (o *outages) start(provider string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	isNew := !o.unreachable[provider]
	o.unreachable[provider] = true
	return isNew
}

// end ends an outage when listings succeed and launches are no longer postponed.
func (o *outages) end(provider string, view plan.ProviderView) {
	calm := o.now().Sub(o.lastPostponed(provider)) >= outageEndDelay
	o.mu.Lock()
	over := o.unreachable[provider] && view.Err == "" && calm
	if over {
		delete(o.unreachable, provider)
	}
	o.mu.Unlock()
	if over {
		o.log.Info("provider responds again", "provider", provider)
	}
}

// forget drops a provider that this process no longer manages.
func (o *outages) forget(provider string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unreachable, provider)
	delete(o.responded, provider)
}

// hasResponded reports whether a provider was ever listed successfully.
func (o *outages) hasResponded(provider string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.responded[provider]
}
