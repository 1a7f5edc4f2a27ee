package watch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

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
	case s.Action == plan.ActionBuild:
		n.trigger(inputsTrigger)
	case s.Provider != "" && (s.Action == plan.ActionUpload || s.Thing == plan.ThingLeftover || s.Thing == plan.ThingUpload):
		n.trigger(s.Provider)
	}
}

func (n *triggers) trigger(provider string) {
	select {
	case n.channel(provider) <- struct{}{}:
	default:
	}
}

// startPollers starts a goroutine for each provider that is configured or has a record and has no poller yet. It ends
// when the provider is neither configured nor recorded.
func (d *Daemon) startPollers(ctx context.Context, group *sync.WaitGroup) {
	names := map[string]bool{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.current.Desired.Providers {
		names[d.current.Desired.Providers[i].Name] = true
	}
	for _, p := range d.runner.ProviderRecords() {
		names[p.Name] = true
	}
	for name := range names {
		if !d.duties.hasProvider(name) {
			d.unassignedProviders[name] = true
			continue
		}
		if !d.pollers[name] {
			d.pollers[name] = true
			group.Go(func() { d.runProvider(ctx, name) })
		}
	}
}

// runProvider polls a provider and maintains its lock while the provider exists. Only pollProvider detects that the
// provider is gone, so that a provider that returns at that moment gets both again.
func (d *Daemon) runProvider(ctx context.Context, name string) {
	for ctx.Err() == nil {
		gone := make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() {
			if d.pollProvider(ctx, name); ctx.Err() == nil {
				close(gone)
			}
		})
		if d.duties.hasTask(TaskNodes) {
			both.Go(func() {
				d.leadership.maintain(ctx, reconcile.ProviderLock(name), func() { d.triggers.trigger(name) }, gone)
			})
		}
		both.Wait()
		if d.stopProvider(name) {
			return
		}
	}
}

// pollProvider lists one provider repeatedly while this process manages anything there. It returns when the provider is
// gone.
func (d *Daemon) pollProvider(ctx context.Context, name string) {
	for {
		wait := d.Refresh
		if d.duties.manages(name) {
			view := d.runner.ListProvider(ctx, name)
			if ctx.Err() != nil {
				return
			}
			d.setView(ctx, name, view)
			if view.Err != "" {
				wait = min(wait, listRetryInterval)
			}
		} else {
			d.mu.Lock()
			delete(d.views, name)
			delete(d.unreachable, name)
			d.mu.Unlock()
		}
		select {
		case <-time.After(wait):
		case <-d.triggers.channel(name):
			if d.hasListing(name) && !sleep(ctx, time.Second) { // one listing serves all triggers of this second
				return
			}
		case <-ctx.Done():
			return
		}
		if d.isRemoved(name) {
			return
		}
	}
}

// hasListing reports whether the provider has been listed, successfully or not.
func (d *Daemon) hasListing(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, looked := d.views[name]
	return looked
}

// isRemoved reports whether a provider is neither configured nor recorded.
func (d *Daemon) isRemoved(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.isRemovedLocked(name)
}

// isRemovedLocked is isRemoved for a caller that holds mu.
func (d *Daemon) isRemovedLocked(name string) bool {
	_, _, err := reconcile.Lookup[resources.ProviderRecord](d.runner, resources.KindProvider, name)
	return err != nil && !slices.ContainsFunc(d.current.Desired.Providers, func(p resources.Provider) bool { return p.Name == name })
}

// stopProvider removes the poller of a provider that is gone. It returns false when the provider has returned in the
// meantime.
func (d *Daemon) stopProvider(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isRemovedLocked(name) {
		return false
	}
	delete(d.views, name)
	delete(d.unreachable, name)
	delete(d.pollers, name)
	return true
}

func (d *Daemon) setView(ctx context.Context, name string, view plan.ProviderView) {
	d.mu.Lock()
	around := d.localInputs
	d.mu.Unlock()
	seen := plan.Observed{Now: d.Engine.Now(), Installation: around.Installation, Providers: map[string]plan.ProviderView{name: view}}
	d.recordLeaks(ctx, seen, "provider "+name)
	d.mu.Lock() // after the sightings, which keep new IDs above those in the listing
	before := d.views[name]
	d.views[name] = view
	d.mu.Unlock()
	d.onListing(name, &before, &view)
	d.triggerPass()
}

// recordLeaks records sightings of listed objects that carry the ownership tags of this installation and have no
// record. They are deleted after leak_age.
func (d *Daemon) recordLeaks(ctx context.Context, seen plan.Observed, where string) {
	if seen.Installation == "" || d.Shadow {
		return
	}
	d.runner.FillFromRunner(&seen)
	if err := d.suspension.unlessSuspended(func() error { return d.runner.Sight(ctx, seen) }); err != nil && ctx.Err() == nil {
		d.Log.Error("leaks could not be recorded", "where", where, "error", err)
	}
}

// recordLeakedFiles is recordLeaks for the images directory: another builder may have deleted the records of files
// here.
func (d *Daemon) recordLeakedFiles(ctx context.Context, engine *reconcile.Engine, installation string) {
	seen := plan.Observed{Now: d.Engine.Now(), Installation: installation}
	if err := engine.Files(&seen); err == nil { // passes log the error
		d.recordLeaks(ctx, seen, "images directory")
	}
}

// pollInputs repeatedly queries the input files of images, image sources and build hosts.
func (d *Daemon) pollInputs(ctx context.Context) {
	for {
		engine := d.engine()
		around, err := engine.ObserveInputs(ctx, true)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.Log.Error("inputs of images could not be queried", "error", err)
		default:
			d.mu.Lock()
			if d.current == engine { // otherwise a reload has stored the inputs of its own images
				d.localInputs = around
			}
			d.mu.Unlock()
			d.recordLeakedFiles(ctx, engine, around.Installation)
			d.triggerPass()
		}
		select {
		case <-time.After(d.Refresh):
		case <-d.triggers.channel(inputsTrigger):
		case <-ctx.Done():
			return
		}
	}
}

// inputsTrigger is the name by which pollInputs is triggered; no provider has it.
const inputsTrigger = ""

// ProvidersNotListed returns the providers to serve that have not been listed yet, successfully or not. New providers
// appear in it, and providers that this process becomes the leader of.
func (d *Daemon) ProvidersNotListed() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.current.Desired.Providers {
		name := d.current.Desired.Providers[i].Name
		if _, listed := d.views[name]; !listed && d.duties.mayManage(name) {
			names = append(names, name)
		}
	}
	return names
}

// NotReady returns why the daemon cannot serve everything now, or an empty string when it can.
func (d *Daemon) NotReady() string {
	d.presence.mu.Lock()
	severed := d.presence.disconnected
	d.presence.mu.Unlock()
	switch unseen := d.ProvidersNotListed(); {
	case severed:
		return "the state is unreachable"
	case len(unseen) > 0:
		return "not listed yet: " + strings.Join(unseen, ", ")
	case d.LastPassEnd().IsZero():
		return "no pass has completed yet"
	default:
		return ""
	}
}
