package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// observeTimeout bounds the listing of one provider, including all retries of its API.
const observeTimeout = 5 * time.Minute

// Observe lists the clouds first and reads the records second, so that an object without a record really has none. If
// refresh is false, it lists no cloud.
func (e *Engine) Observe(ctx context.Context, refresh bool) (plan.Observed, error) {
	var views map[string]plan.ProviderView
	var err error
	if refresh {
		if views, err = e.listProviders(ctx); err != nil {
			return plan.Observed{}, err
		}
	}
	seen, err := e.ObserveInputs(ctx, refresh)
	if err != nil {
		return seen, err
	}
	seen.Providers = views
	if err = e.Files(&seen); err != nil {
		return seen, err
	}
	if seen.Records, err = e.records(ctx); err != nil {
		return seen, err
	}
	if store, ok := e.Store.(state.Shared); ok {
		seen.Shared, seen.RegisteredPools, seen.ForeignClaims, seen.RequestedBuilds = true, store.RegisteredPools(), store.Claimed(), store.RequestedBuilds()
		e.ObserveBuilders(&seen, store.Builders())
	}
	if refresh {
		unreachable(&seen)
	}
	seen.Now = e.Now()
	return seen, nil
}

// ObserveInputs observes the inputs that are neither in a cloud nor in the store: the input files of images and, if ask
// is set, image sources and build hosts.
func (e *Engine) ObserveInputs(ctx context.Context, ask bool) (plan.Observed, error) {
	seen := plan.Observed{Formats: e.Formats(), Builders: slices.Sorted(maps.Keys(e.Builders))}
	var err error
	if seen.Installation, err = e.Installation(ctx); err != nil {
		return seen, err
	}
	seen.InstanceOffers = e.instanceOffers()
	e.findTools(&seen)
	if err = e.inputs(ctx, &seen); err != nil || !ask {
		return seen, err
	}
	return seen, e.queryExternalSources(ctx, &seen)
}

// Formats returns the image format of each configured provider: from the provider if it is open, otherwise from its
// driver.
func (e *Engine) Formats() map[string]string {
	formats := e.formats()
	for i := range e.Desired.Providers {
		if format := e.openFormat(e.Desired.Providers[i].Name); format != "" {
			formats[e.Desired.Providers[i].Name] = format
		}
	}
	return formats
}

// instanceOffers returns the offers of build instances, by image. A mistake in one is reported when its image is built.
func (e *Engine) instanceOffers() map[string]plan.OfferRef {
	borrows := map[string]plan.OfferRef{}
	for i := range e.Desired.Images {
		image := &e.Desired.Images[i]
		if borrower, ok := e.Builders[image.Builder].(builders.InstanceUser); ok {
			if provider, pool, label, err := borrower.InstanceOffer(image.Config); err == nil {
				borrows[image.Name] = plan.OfferRef{Provider: provider, Pool: pool, Label: label}
			}
		}
	}
	return borrows
}

// Files observes the images directory.
func (e *Engine) Files(seen *plan.Observed) (err error) {
	seen.ImagesDirOwner = e.files().owner()
	seen.Files, err = e.files().list()
	return err
}

// unreachable adds an error view for each provider that only nodes or uploads name and that could not be listed.
func unreachable(seen *plan.Observed) {
	if seen.Shared { // such records belong to other processes
		return
	}
	named := func(name string) {
		if _, looked := seen.Providers[name]; !looked {
			seen.Providers[name] = plan.ProviderView{Err: "it is neither configured nor remembered; restore its block, or remove its records with npctl state rm"}
		}
	}
	for _, n := range seen.Records.Nodes {
		named(n.Provider)
	}
	for _, u := range seen.Records.Uploads {
		named(u.Provider)
	}
}

// listProviders lists all providers in parallel. If a listing fails, its view contains the error; listProviders returns
// an error only if the store cannot be read or ctx ends.
func (e *Engine) listProviders(ctx context.Context) (map[string]plan.ProviderView, error) {
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
	there := expect(recordsOf(entries))
	names := slices.Collect(maps.Keys(remembered))
	for _, p := range e.Desired.Providers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	var mu sync.Mutex
	views := map[string]plan.ProviderView{}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, name := range slices.Compact(names) {
		group.Go(func() error {
			view := e.view(groupCtx, name, remembered[name], there[name])
			mu.Lock()
			views[name] = view
			mu.Unlock()
			return nil
		})
	}
	_ = group.Wait() // the goroutines return no errors
	return views, ctx.Err()
}

func (e *Engine) view(ctx context.Context, name string, record *resources.ProviderRecord, there expectedIDs) plan.ProviderView {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	started := time.Now()
	view := plan.ProviderView{ListedAt: e.Now()}
	cloud, release, err := e.cloud(ctx, name, record)
	defer release()
	if err == nil {
		err = e.list(ctx, name, cloud, there, &view)
	}
	if err != nil {
		return plan.ProviderView{Err: err.Error(), Rejected: rejected(err)}
	}
	e.Log.Debug("provider listed", "provider", name, "instances", len(view.Instances), "images", len(view.Images),
		"took", time.Since(started))
	return view
}

// list fills the view with one listing of each kind and resolves the names in the configuration.
func (e *Engine) list(ctx context.Context, name string, cloud drivers.Cloud, there expectedIDs, view *plan.ProviderView) error {
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
	if placed, ok := drivers.As[drivers.Locator](cloud); ok {
		view.Location = placed.Location()
	}
	if p, configured := e.provider(name); configured {
		if resolver, ok := drivers.ResolverOf(cloud); ok {
			group.Go(func() error { return e.resolve(ctx, p, resolver, view) })
		}
	}
	return group.Wait()
}

// resolve resolves the names in offers and cloud images.
func (e *Engine) resolve(ctx context.Context, p *resources.Provider, resolver drivers.Resolver, view *plan.ProviderView) error {
	view.Offers = map[plan.OfferKey]plan.OfferView{}
	view.CloudImages = map[string]plan.CloudImageView{}
	for _, pool := range p.Pools {
		for _, offer := range pool.Offers {
			resolved, problems, err := resolver.ResolveOffer(ctx, offer.Config)
			if err != nil {
				return err
			}
			view.Offers[plan.OfferKey{Pool: pool.Name, Label: offer.Label}] = plan.OfferView{ResolvedOffer: resolved, Problems: problems}
		}
	}
	for _, spec := range p.CloudImages {
		image, problems, err := resolver.ResolveImage(ctx, spec)
		if err != nil {
			return err
		}
		view.CloudImages[spec.Name] = plan.CloudImageView{Image: image, Problems: problems}
	}
	return nil
}

// formats returns the image format of each configured provider according to its driver.
func (e *Engine) formats() map[string]string {
	formats := map[string]string{}
	for _, p := range e.Desired.Providers {
		driver := e.Drivers[p.Driver]
		if driver == nil {
			continue
		}
		known := driver.Schema()
		if known.HasImages && len(known.Formats) > 0 {
			formats[p.Name] = known.Formats[0]
		}
		if format := configuredFormat(p.Config); format != "" {
			formats[p.Name] = format
		}
	}
	return formats
}

// configuredFormat returns image_format of the provider block if its driver has that attribute (see schema.Driver).
func configuredFormat(config cty.Value) string {
	if config.IsNull() || !config.Type().IsObjectType() || !config.Type().HasAttribute("image_format") {
		return ""
	}
	format, _ := config.GetAttr("image_format").Unmark()
	if format.IsNull() || format.Type() != cty.String {
		return ""
	}
	return resources.ImageFormat(format.AsString())
}

// openFormat returns the image format of an open provider, or "".
func (e *Engine) openFormat(name string) string {
	if cloud := e.connections.opened(e.cloudKey(name, nil)); cloud != nil {
		if store, ok := drivers.ImagesOf(cloud); ok {
			return store.ImageFormat()
		}
	}
	return ""
}

// inputs computes digests of the input files of each image. An unreadable file is an error of that image only; inputs
// returns an error only if ctx ends.
func (e *Engine) inputs(ctx context.Context, seen *plan.Observed) error {
	seen.Inputs, seen.InputErrors = map[string]resources.InputFiles{}, map[string]string{}
	for _, image := range e.Desired.Images {
		in, ok := e.Builders[image.Builder].(builders.Inputs)
		if !ok {
			continue
		}
		files, err := in.InputFiles(ctx, image.Config, e.Desired.Settings.Dir)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			seen.InputErrors[image.Name] = err.Error()
		case files.Hash != "":
			seen.Inputs[image.Name] = files
		}
	}
	return nil
}

// records reads the whole store for the planner.
func (e *Engine) records(ctx context.Context) (plan.Records, error) {
	entries, err := e.Store.List(ctx)
	if err != nil {
		return plan.Records{}, fmt.Errorf("read state: %w", err)
	}
	r := plan.Records{Revisions: make(map[resources.Key]uint64, len(entries))}
	for _, entry := range entries {
		r.Put(entry.Record, uint64(entry.Revision))
	}
	return r, nil
}
