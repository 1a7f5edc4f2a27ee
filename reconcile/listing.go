package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// observeTimeout bounds the listing of one provider, including all retries of its API.
const observeTimeout = 5 * time.Minute

// ListProvider lists one provider, as Observe does. The view is valid until the next listing.
func (r *Runner) ListProvider(ctx context.Context, provider string) plan.ProviderView {
	engine := r.using()
	view := engine.view(ctx, provider, r.providerRecord(provider), r.cache.expect()[provider])
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

func (r *Runner) providerRecord(name string) *resources.ProviderRecord {
	record, _ := get[resources.ProviderRecord](r.cache, resources.Key{Kind: resources.KindProvider, ID: name})
	return record
}

// listAll lists all configured and recorded providers. It returns an error only if the store cannot be read or ctx ends.
func (e *Engine) listAll(ctx context.Context) (map[string]plan.ProviderView, error) {
	remembered := map[string]*resources.ProviderRecord{}
	entries, err := e.Store.List(ctx, resources.KindProvider, resources.KindNode, resources.KindUpload)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if record, ok := entry.Record.(*resources.ProviderRecord); ok {
			remembered[record.Name] = record
		}
	}
	names := slices.Collect(maps.Keys(remembered))
	for i := range e.Desired.Providers {
		names = append(names, e.Desired.Providers[i].Name)
	}
	slices.Sort(names)
	record := func(name string) *resources.ProviderRecord { return remembered[name] }
	return e.listProviders(ctx, slices.Compact(names), record, expect(recordsOf(entries))), ctx.Err()
}

// listProviders lists providers in parallel. If a listing fails, its view contains the error.
func (e *Engine) listProviders(ctx context.Context, names []string, record func(name string) *resources.ProviderRecord, there map[string]expectedIDs) map[string]plan.ProviderView {
	var group sync.WaitGroup
	var mu sync.Mutex
	views := map[string]plan.ProviderView{}
	for _, name := range names {
		group.Go(func() {
			view := e.view(ctx, name, record(name), there[name])
			mu.Lock()
			defer mu.Unlock()
			views[name] = view
		})
	}
	group.Wait()
	return views
}

func (e *Engine) view(ctx context.Context, name string, record *resources.ProviderRecord, there expectedIDs) plan.ProviderView {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	started := time.Now()
	view := plan.ProviderView{ListedAt: e.Now()}
	cloud, release, err := e.cloud(ctx, name, record)
	defer release()
	if err == nil {
		err = e.list(ctx, name, cloud, there, record, &view)
	}
	if err != nil {
		return plan.ProviderView{Err: err.Error(), Rejected: rejected(err)}
	}
	e.Log.Debug("provider listed", "provider", name, "instances", len(view.Instances), "images", len(view.Images),
		"took", time.Since(started))
	return view
}

// list fills the view with one listing of each kind and resolves the names in the configuration.
func (e *Engine) list(ctx context.Context, name string, cloud drivers.Cloud, there expectedIDs, record *resources.ProviderRecord, view *plan.ProviderView) error {
	parent := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		view.Instances, err = listTwice(ctx, func() (instances []resources.Instance, err error) {
			if instances, err = cloud.List(ctx); err == nil {
				view.Quota, err = cloud.Quota(ctx) // read after the listing, so that the quota counts every listed instance
			}
			return instances, err
		}, func(i resources.Instance) string { return i.ID }, there.servers)
		return err
	})
	if store, ok := drivers.ImagesOf(cloud); ok {
		group.Go(func() (err error) {
			list := func() ([]resources.RemoteImage, error) { return store.ListImages(ctx) }
			view.Images, err = listTwice(ctx, list, func(i resources.RemoteImage) string { return i.ID }, there.images)
			return err
		})
	}
	if sweeper, ok := drivers.SweeperOf(cloud); ok {
		group.Go(func() (err error) { view.Leftovers, err = sweeper.Leftovers(ctx); return err })
	}
	if user, ok := drivers.NodeUserOf(cloud); ok {
		group.Go(func() (err error) { view.Unneeded, err = e.unneeded(ctx, name, user); return err })
	}
	adopter, adopts := drivers.AdopterOf(cloud)
	view.CannotRelease = !adopts
	if adopts && e.ListOthers {
		group.Go(func() (err error) {
			if view.Others, err = adopter.ListOthers(ctx); err != nil {
				view.OthersErr = err.Error()
			}
			return ctx.Err()
		})
	}
	if placed, ok := drivers.As[drivers.Locator](cloud); ok {
		view.Location = placed.Location()
	}
	if p, configured := e.Desired.Provider(name); configured {
		if resolver, ok := drivers.ResolverOf(cloud); ok {
			group.Go(func() error { return e.resolve(ctx, p, resolver, view) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return e.lookUpImports(parent, name, cloud, there, record, view)
}

// resolve resolves the names in offers and cloud images.
func (e *Engine) resolve(ctx context.Context, p *resources.Provider, resolver drivers.Resolver, view *plan.ProviderView) error {
	view.Offers = map[plan.OfferKey]plan.OfferView{}
	view.CloudImages = map[string]plan.CloudImageView{}
	for _, spec := range p.CloudImages {
		image, problems, err := resolver.ResolveImage(ctx, spec)
		if err != nil {
			return err
		}
		view.CloudImages[spec.Name] = plan.CloudImageView{Image: image, Problems: problems}
	}
	for _, pool := range p.Pools {
		for _, offer := range pool.Offers {
			resolved, problems, err := resolver.ResolveOffer(ctx, offer.Config)
			if err != nil {
				return err
			}
			if problem := architectureProblem(&offer, resolved, view.CloudImages[offer.Image.Name].Image); problem != nil {
				problems = append(problems, *problem)
			}
			view.Offers[plan.OfferKey{Pool: pool.Name, Label: offer.Label}] = plan.OfferView{ResolvedOffer: resolved, Problems: problems}
		}
	}
	return nil
}

// architectureProblem returns why a flavor of an offer cannot boot its cloud image, or nil.
func architectureProblem(offer *resources.Offer, resolved resources.ResolvedOffer, image resources.RemoteImage) *resources.Problem {
	if offer.Image.Kind != resources.CloudImage || image.Architecture == "" {
		return nil
	}
	for _, flavor := range resolved.FlavorNames {
		if runs := resolved.Architectures[flavor]; len(runs) > 0 && !slices.Contains(runs, image.Architecture) {
			return &resources.Problem{Attribute: "image", Value: offer.Image.Name,
				Detail: fmt.Sprintf("%s is for %s, and %s runs %s; choose an image and flavors of one architecture",
					cmp.Or(image.Name, image.ID), image.Architecture, flavor, text.And(runs))}
		}
	}
	return nil
}

// secondListingDelay is the time between two listings that must both lack an object before it counts as gone.
const secondListingDelay = 3 * time.Second

// listTwice lists, and lists a second time if an expected object is missing: a cloud's listing may lag behind, or omit
// the part of the cloud that did not respond. An object in either listing exists.
func listTwice[T any](ctx context.Context, list func() ([]T, error), id func(T) string, expected map[string]bool) ([]T, error) {
	first, err := list()
	if err != nil || !isMissingAny(first, id, expected) {
		return first, err
	}
	if err := waits.Sleep(ctx, secondListingDelay); err != nil {
		return nil, err
	}
	both, err := list()
	if err != nil {
		return nil, err
	}
	shown := make(map[string]bool, len(both))
	for _, thing := range both {
		shown[id(thing)] = true
	}
	for _, thing := range first {
		if expected[id(thing)] && !shown[id(thing)] {
			both = append(both, thing)
		}
	}
	return both, nil
}

// isMissingAny reports whether a list lacks an expected object.
func isMissingAny[T any](list []T, id func(T) string, expected map[string]bool) bool {
	found := 0
	for _, thing := range list {
		if expected[id(thing)] {
			found++
		}
	}
	return found < len(expected)
}

// expectedIDs holds the cloud IDs that a listing of a provider must contain.
type expectedIDs struct{ servers, images map[string]bool }

// expect returns the expected IDs of each provider according to the records.
func expect(records func(yield func(resources.Record) bool)) map[string]expectedIDs {
	all := map[string]expectedIDs{}
	of := func(provider string) expectedIDs {
		if _, known := all[provider]; !known {
			all[provider] = expectedIDs{servers: map[string]bool{}, images: map[string]bool{}}
		}
		return all[provider]
	}
	for record := range records {
		switch r := record.(type) {
		case *resources.Node:
			served := r.State == resources.StateReady || r.State.IsInService()
			if served && !r.Static && r.ExternalID != "" {
				of(r.Provider).servers[r.ExternalID] = true
			}
		case *resources.Upload:
			if r.State == resources.StateReady && !r.Unmarked && r.ExternalID != "" {
				of(r.Provider).images[r.ExternalID] = true
			}
		}
	}
	return all
}

// expect returns the expected IDs according to the records of the cache.
func (l *recordCache) expect() map[string]expectedIDs {
	l.mu.Lock()
	defer l.mu.Unlock()
	return expect(func(yield func(resources.Record) bool) {
		for _, r := range l.records {
			if !yield(r) {
				return
			}
		}
	})
}

func recordsOf(entries []state.Entry) func(yield func(resources.Record) bool) {
	return func(yield func(resources.Record) bool) {
		for _, entry := range entries {
			if !yield(entry.Record) {
				return
			}
		}
	}
}
