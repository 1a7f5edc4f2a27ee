package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// failingKept is how long the failure of a step is remembered after the step was last tried.
const failingKept = time.Hour

// instanceDeletion holds when a step started and completed the deletion of an instance.
type instanceDeletion struct{ began, ended time.Time }

// FillFromRunner adds the runner's knowledge to an observation: the current records, the running steps, the failed
// launches and the instances deleted since the providers were listed.
func (r *Runner) FillFromRunner(seen *plan.Observed) {
	r.mu.Lock()
	seen.StepEpoch = r.stepEpoch // before the records are read: they may lack the result of a step that ends after this
	seen.Serving = nil           // likewise: the planner ignores entries that the records show already
	for _, s := range r.running {
		if s.Action == plan.ActionServe {
			seen.Serving = append(seen.Serving, s.Step)
		}
	}
	r.mu.Unlock()
	seen.Records, seen.Busy = r.cache.snapshot()
	if shared := r.Shared(); shared != nil {
		seen.Shared, seen.RegisteredPools, seen.ForeignClaims, seen.OwnClaims = true, shared.RegisteredPools(), shared.Claimed(), r.cache.claims.keys()
		seen.RequestedBuilds = shared.RequestedBuilds()
		r.using().ObserveBuilders(seen, shared.Builders())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.engine.Now()
	maps.DeleteFunc(r.failing, func(_ string, f *resources.Failure) bool { return now.Sub(f.Time) > failingKept })
	seen.LaunchFailures, seen.FailingSteps, seen.Reloaded = maps.Clone(r.launching), maps.Clone(r.failing), r.reloaded
	for name, view := range seen.Providers {
		if len(r.deletedInstances[name]) == 0 {
			continue
		}
		view.DeletedInstances, view.DeletingInstances = make(map[string]bool, len(r.deletedInstances[name])), map[string]bool{}
		for id, d := range r.deletedInstances[name] {
			if d.ended.Before(view.ListedAt) {
				continue
			}
			view.DeletedInstances[id] = true
			if !d.began.After(r.listingEnded[name]) {
				view.DeletingInstances[id] = true
			}
		}
		seen.Providers[name] = view
	}
}

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
func (r *Runner) Busy(key resources.Key) bool {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return r.cache.busy[key] != ""
}

// ListProvider lists one provider, as Observe does. The view is valid until the next listing.
func (r *Runner) ListProvider(ctx context.Context, provider string) plan.ProviderView {
	r.mu.Lock()
	engine := r.engine
	r.mu.Unlock()
	view := r.ListProviderWith(ctx, engine, provider)
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.listingStarted[provider] // the view of that listing may still be in use
	maps.DeleteFunc(r.deletedInstances[provider], func(_ string, d instanceDeletion) bool { return d.ended.Before(before) })
	r.listingEnded[provider] = engine.Now()
	if view.Err == "" {
		r.listingStarted[provider] = view.ListedAt
	}
	return view
}

// ListProviderWith lists a provider with a configuration that is not active yet.
func (r *Runner) ListProviderWith(ctx context.Context, engine *Engine, provider string) plan.ProviderView {
	record, _ := get[resources.ProviderRecord](r.cache, resources.Key{Kind: resources.KindProvider, ID: provider})
	return engine.view(ctx, provider, record, r.cache.expect()[provider])
}

// Sight records leaks in the newest listing: objects that carry our ownership tags and have no record.
func (r *Runner) Sight(ctx context.Context, seen plan.Observed) error {
	r.mu.Lock()
	age := r.engine.Desired.Settings.LeakSightings
	r.mu.Unlock()
	now, gone := plan.Sightings(seen, age)
	for _, s := range now {
		if err := r.cache.put(ctx, s); err != nil {
			return err
		}
	}
	return r.cache.drop(ctx, gone...)
}
