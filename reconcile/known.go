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

// failingKept is how long the failure of a step is remembered that is planned no more.
const failingKept = time.Hour

// departure is how a step has seen an instance go.
type departure struct{ began, ended time.Time }

// Complete adds to an observation what the runner knows: the records as they are now, what is being done to them, which
// launches failed, and what has gone since the providers were listed.
func (r *Runner) Complete(seen *plan.Observed) {
	r.mu.Lock()
	seen.Moment = r.moment // before the records are read: what ends from here on may be missing in them
	seen.Serving = nil     // likewise: what the records show after all is passed over
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
	now := r.engine.Now()
	maps.DeleteFunc(r.failing, func(_ string, f *resources.Failure) bool { return now.Sub(f.Time) > failingKept })
	seen.Launching, seen.Failing, seen.Reloaded = maps.Clone(r.launching), maps.Clone(r.failing), r.reloaded
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

// OpenRequests is the number of requests that have neither failed nor been taken.
func (r *Runner) OpenRequests() (open int) {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	for _, request := range r.ledger.sorted.Requests {
		if request.State != resources.StateFailed {
			open++
		}
	}
	return open
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
	r.mu.Lock()
	age := r.engine.Desired.Settings.LeakSightings
	r.mu.Unlock()
	now, gone := plan.Sightings(seen, age)
	for _, s := range now {
		if err := r.ledger.put(ctx, s); err != nil {
			return err
		}
	}
	return r.ledger.drop(ctx, gone...)
}
