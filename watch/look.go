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

// nudges wake those who look at providers before their time.
type nudges struct {
	mu         sync.Mutex // guards byProvider
	byProvider map[string]chan struct{}
}

func (n *nudges) of(provider string) chan struct{} {
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

// after nudges who looks at what a step has changed and only a look shows: a provider, or build hosts.
func (n *nudges) after(s plan.Step) {
	switch {
	case s.Action == plan.ActionBuild:
		n.nudge(aroundNudge)
	case s.Provider != "" && (s.Action == plan.ActionUpload || s.Thing == plan.ThingLeftover || s.Thing == plan.ThingUpload):
		n.nudge(s.Provider)
	}
}

func (n *nudges) nudge(provider string) {
	select {
	case n.of(provider) <- struct{}{}:
	default:
	}
}

// watchProviders begins to look at every provider that is configured or remembered, each in a goroutine of its own, and
// ends with those that are neither any more.
func (d *Daemon) watchProviders(ctx context.Context, group *sync.WaitGroup) {
	names := map[string]bool{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.current.Desired.Providers {
		names[d.current.Desired.Providers[i].Name] = true
	}
	for _, p := range d.runner.Remembered() {
		names[p.Name] = true
	}
	for name := range names {
		if !d.serves(name) {
			d.others[name] = true
			continue
		}
		if !d.lookers[name] {
			d.lookers[name] = true
			group.Go(func() { d.attend(ctx, name) })
		}
	}
}

// attend looks at a provider and has its lock, for as long as there is the provider. One of both finds out that it is gone,
// so that a provider that comes back at that moment has both again.
func (d *Daemon) attend(ctx context.Context, name string) {
	for ctx.Err() == nil {
		gone := make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() {
			if d.watchProvider(ctx, name); ctx.Err() == nil {
				close(gone)
			}
		})
		both.Go(func() { d.keepProvider(ctx, name, gone) })
		both.Wait()
		if d.forget(name) {
			return
		}
	}
}

// serves reports whether the daemon was told to serve the provider.
func (d *Daemon) serves(provider string) bool {
	return len(d.Providers) == 0 || slices.Contains(d.Providers, provider)
}

// watchProvider lists one provider again and again, while this process has to take care of anything there. It ends when the
// provider is gone.
func (d *Daemon) watchProvider(ctx context.Context, name string) {
	for {
		wait := d.Refresh
		if d.needed(name) {
			view := d.runner.Look(ctx, name)
			if ctx.Err() != nil {
				return
			}
			d.setView(ctx, name, view)
			if view.Err != "" {
				wait = min(wait, retryLook)
			}
		} else {
			d.mu.Lock()
			delete(d.views, name)
			delete(d.away, name)
			d.mu.Unlock()
		}
		select {
		case <-time.After(wait):
		case <-d.nudges.of(name):
			if d.seen(name) && !sleep(ctx, time.Second) { // what comes together is looked at once
				return
			}
		case <-ctx.Done():
			return
		}
		if d.gone(name) {
			return
		}
	}
}

// seen reports whether somebody has looked at the provider.
func (d *Daemon) seen(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, looked := d.views[name]
	return looked
}

// gone reports that a provider is neither configured nor remembered any more.
func (d *Daemon) gone(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.isGone(name)
}

// isGone is gone for who holds mu.
func (d *Daemon) isGone(name string) bool {
	_, _, err := reconcile.Lookup[resources.ProviderRecord](d.runner, resources.KindProvider, name)
	return err != nil && !slices.ContainsFunc(d.current.Desired.Providers, func(p resources.Provider) bool { return p.Name == name })
}

// forget is the end of who attended a provider that is gone. One that was put back meanwhile it reports not to be.
func (d *Daemon) forget(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isGone(name) {
		return false
	}
	delete(d.views, name)
	delete(d.away, name)
	delete(d.lookers, name)
	return true
}

func (d *Daemon) setView(ctx context.Context, name string, view plan.ProviderView) {
	d.mu.Lock()
	around := d.around
	d.mu.Unlock()
	seen := plan.Observed{Now: d.Engine.Now(), Installation: around.Installation, Providers: map[string]plan.ProviderView{name: view}}
	d.runner.Complete(&seen)
	if seen.Installation != "" && !d.Shadow {
		if err := d.unlessParked(func() error { return d.runner.Sight(ctx, seen) }); err != nil && ctx.Err() == nil {
			d.Log.Error("what was seen in a provider could not be noted", "provider", name, "error", err)
		}
	}
	d.mu.Lock() // after the sightings, which keep new ids above those that were seen
	before := d.views[name]
	d.views[name] = view
	d.mu.Unlock()
	d.lookedAt(name, &before, &view)
	d.nudge()
}

// lookAround looks again and again at files that go into images, at sources and at build hosts.
func (d *Daemon) lookAround(ctx context.Context) {
	for {
		engine := d.engine()
		around, err := engine.Around(ctx, true)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.Log.Error("what images are made of could not be queried", "error", err)
		default:
			d.mu.Lock()
			if d.current == engine { // otherwise a new configuration was taken meanwhile, with what goes into its own images
				d.around = around
			}
			d.mu.Unlock()
			d.nudge()
		}
		select {
		case <-time.After(d.Refresh):
		case <-d.nudges.of(aroundNudge):
		case <-ctx.Done():
			return
		}
	}
}

// aroundNudge is the name under which lookAround is nudged; no provider has it.
const aroundNudge = ""

// Unseen lists the providers to serve at which nobody has looked yet, whatever would come of it. Once it is empty it stays
// so, but for new providers.
func (d *Daemon) Unseen() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.current.Desired.Providers {
		name := d.current.Desired.Providers[i].Name
		undecided := d.does(TaskNodes) && d.undecided(reconcile.ProviderLock(name)) || d.does(TaskImages) && d.undecided(reconcile.ImagesLock)
		if _, looked := d.views[name]; !looked && d.serves(name) && (undecided || d.needed(name)) {
			names = append(names, name)
		}
	}
	return names
}

// NotReady says why the daemon cannot serve everything yet, or cannot any more; it is empty when it can.
func (d *Daemon) NotReady() string {
	d.roster.mu.Lock()
	severed := d.roster.severed
	d.roster.mu.Unlock()
	switch unseen := d.Unseen(); {
	case severed:
		return "the state cannot be reached"
	case len(unseen) > 0:
		return "nobody has looked yet at " + strings.Join(unseen, ", ")
	case d.Beat().IsZero():
		return "nothing has been decided yet"
	default:
		return ""
	}
}
