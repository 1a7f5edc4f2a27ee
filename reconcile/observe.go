package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state"
)

// Observer makes the observed state. It keeps the newest listing of each provider and the newest inputs of the
// configuration in force. An observation adds the rest: the images directory, the records and the activity
// of this and other processes. npctl apply observes once (Engine.Observe), a daemon for each pass.
type Observer struct {
	runner *Runner
	frozen func() map[string]bool // providers for which nothing is planned

	mu     sync.Mutex // guards the fields below
	engine *Engine    // with the configuration in force
	inputs plan.Observed
	views  map[string]plan.ProviderView
}

// previewTimeout bounds the listings of a preview.
const previewTimeout = 10 * time.Second

// notListed is the error of a configured provider before its first listing.
const notListed = "not listed yet"

// NewObserver returns the observer of a daemon, which knows no inputs but the installation yet.
func NewObserver(r *Runner, installation string, frozen func() map[string]bool) *Observer {
	return &Observer{runner: r, frozen: frozen, engine: r.using(), inputs: plan.Observed{Installation: installation}, views: map[string]plan.ProviderView{}}
}

// Engine returns the engine with the configuration in force.
func (o *Observer) Engine() *Engine {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.engine
}

// Use puts a configuration in force. seen is the preview of it.
func (o *Observer) Use(next *Engine, seen plan.Observed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.engine, o.inputs = next, seen
	o.runner.UseEngine(next)
}

// QueryInputs queries the inputs of the configuration in force.
func (o *Observer) QueryInputs(ctx context.Context) error {
	engine := o.Engine()
	inputs, err := engine.observeInputs(ctx, true)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.engine == engine {
		o.inputs = inputs
	}
	return nil
}

// Listing returns the newest listing of a provider, successful or not.
func (o *Observer) Listing(provider string) (view plan.ProviderView, listed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	view, listed = o.views[provider]
	return view, listed
}

// SetListing stores a listing and returns the previous one.
func (o *Observer) SetListing(provider string, view plan.ProviderView) (before plan.ProviderView) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before = o.views[provider]
	o.views[provider] = view
	return before
}

// Forget drops the listing of a provider.
func (o *Observer) Forget(provider string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.views, provider)
}

// Observe returns the observed state and the engine that it belongs to. Records read after a reload may contain requests
// that only the new configuration can serve, so Observe never combines them with the old one. While the images
// directory cannot be read, filesErr is set and the observed state is complete without its files.
func (o *Observer) Observe() (engine *Engine, seen plan.Observed, filesErr error) {
	for engine != o.Engine() {
		engine, seen = o.kept()
		filesErr = o.complete(engine, &seen)
	}
	return engine, seen, filesErr
}

// Preview returns the observed state as it would be right after Use, for which it lists the given providers. If the
// listing of a provider fails or takes long, it keeps its view, and inputs that take long to query are not queried.
func (o *Observer) Preview(ctx context.Context, next *Engine, list []string) (plan.Observed, error) {
	_, now := o.kept()
	seen, err := next.observeInputs(ctx, false)
	if err != nil {
		return seen, err
	}
	seen.Versions, seen.Hosts, seen.Providers = now.Versions, now.Hosts, now.Providers
	there := o.runner.cache.expect()
	limited, cancel := context.WithTimeout(ctx, previewTimeout)
	defer cancel()
	for name, view := range next.listProviders(limited, list, o.runner.providerRecord, there) {
		if view.Err == "" {
			seen.Providers[name] = view
		}
	}
	if err := o.complete(next, &seen); err != nil {
		return seen, err
	}
	seen.LaunchFailures, seen.Reloaded = nil, seen.Now // as after Use
	seen.FailingSteps = nil                            // every deletion counts, even if it waits for its retry
	return seen, nil
}

// kept returns what the observer keeps, and the engine that it belongs to.
func (o *Observer) kept() (*Engine, plan.Observed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.inputs
	seen.Providers = maps.Clone(o.views)
	for i := range o.engine.Desired.Providers {
		if name := o.engine.Desired.Providers[i].Name; seen.Providers[name].ListedAt.IsZero() && seen.Providers[name].Err == "" {
			seen.Providers[name] = plan.ProviderView{Err: notListed}
		}
	}
	return o.engine, seen
}

// complete adds the images directory, the records and the activity.
func (o *Observer) complete(e *Engine, seen *plan.Observed) error {
	seen.Formats = e.Formats()
	err := e.addFiles(seen)
	o.Refresh(seen)
	return err
}

// Sight records the leaks in a listing of a provider, before it is stored.
func (o *Observer) Sight(ctx context.Context, provider string, view plan.ProviderView) error {
	return o.sight(ctx, plan.Observed{Providers: map[string]plan.ProviderView{provider: view}})
}

// SightFiles records the leaks in the images directory: another builder may have deleted the records of files here.
func (o *Observer) SightFiles(ctx context.Context) error {
	var seen plan.Observed
	if err := o.Engine().addFiles(&seen); err != nil {
		return nil //nolint:nilerr // the observation for the next pass returns it
	}
	return o.sight(ctx, seen)
}

// sight records the leaks in an observed state without records.
func (o *Observer) sight(ctx context.Context, seen plan.Observed) error {
	engine, now := o.kept()
	if seen.Installation = now.Installation; seen.Installation == "" {
		return nil
	}
	o.Refresh(&seen)
	there, gone := plan.Sightings(seen, engine.Desired.Settings.LeakSightings)
	return o.runner.cache.sight(ctx, there, gone)
}

// sight records leaks, so that the next plan knows that they were seen before: objects that carry our ownership tags and
// have no record.
func (l *recordCache) sight(ctx context.Context, there []*resources.Sighting, gone []resources.Key) error {
	for _, s := range there {
		if err := l.put(ctx, s); err != nil {
			return err
		}
	}
	return l.drop(ctx, gone...)
}

// Refresh replaces the time, the records, the frozen providers and the activity of processes in an observed state:
// running steps, failed launches, and the instances that were deleted since their provider was listed.
func (o *Observer) Refresh(seen *plan.Observed) {
	r := o.runner
	r.mu.Lock()
	seen.StepEpoch = r.stepEpoch // before the records are read: they may lack the result of a step that ends after this
	seen.Serving = nil           // likewise: the planner ignores entries that the records show already
	for _, s := range r.running {
		if s.Kind == plan.KindServe {
			seen.Serving = append(seen.Serving, s.Step)
		}
	}
	r.mu.Unlock()
	seen.Records, seen.Busy = r.cache.snapshot()
	seen.Frozen = o.frozen() // after the records are read: a frozen provider must not serve a request made after its freeze
	if shared := r.Shared(); shared != nil {
		r.using().addShared(seen, shared)
		seen.OwnClaims = r.cache.claims.keys()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen.Now = r.engine.Now()
	maps.DeleteFunc(r.failing, func(_ string, f *resources.Failure) bool { return seen.Now.Sub(f.Time) > failingKept })
	seen.LaunchFailures, seen.FailingSteps, seen.Reloaded = maps.Clone(r.launching), maps.Clone(r.failing), r.reloaded
	seen.Providers = maps.Clone(seen.Providers)
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

// Records returns the current records and the keys of those that a step works on.
func (r *Runner) Records() (plan.Records, map[resources.Key]bool) { return r.cache.snapshot() }

// Observe lists the clouds first and reads the records second, so that an object without a record really has none. If
// refresh is false, it lists no cloud.
func (e *Engine) Observe(ctx context.Context, refresh bool) (plan.Observed, error) {
	var views map[string]plan.ProviderView
	var err error
	if refresh {
		if views, err = e.listAll(ctx); err != nil {
			return plan.Observed{}, err
		}
	}
	seen, err := e.observeInputs(ctx, refresh)
	if err != nil {
		return seen, err
	}
	seen.Providers, seen.Formats = views, e.Formats()
	if err = e.addFiles(&seen); err != nil {
		return seen, err
	}
	entries, err := e.Store.List(ctx, resources.PlannedKinds()...)
	if err != nil {
		return seen, fmt.Errorf("read state: %w", err)
	}
	seen.Records.Revisions = make(map[resources.Key]uint64, len(entries))
	for _, entry := range entries {
		seen.Records.Put(entry.Record, uint64(entry.Revision))
	}
	if store, ok := e.Store.(state.Shared); ok {
		e.addShared(&seen, store)
	}
	if refresh {
		unreachable(&seen)
	}
	seen.Now = e.Now()
	return seen, nil
}

// addShared adds the work of other processes in a shared store.
func (e *Engine) addShared(seen *plan.Observed, store state.Shared) {
	seen.Shared, seen.RegisteredPools, seen.ForeignClaims, seen.RequestedBuilds = true, store.RegisteredPools(), store.Claimed(), store.RequestedBuilds()
	seen.NodepoolBuilders = store.NodepoolBuilders()
	e.addBuilders(seen, store.Builders())
}

// Activity is the activity of a daemon and of the other processes in its state.
type Activity struct {
	Busy            []resources.Key // records that the daemon's steps are changing
	Shared          bool
	Claimed         []resources.Key // records that other processes have claimed
	RegisteredPools []resources.RegisteredPool
	Builders        []string // IDs of registered npctl builders
	RequestedBuilds []string // images with a build request

	NodepoolBuilders []string // hosts of registered builders of other programs
}

// AddActivity adds the activity of the daemon that owns the state of the engine. All registered pools count as foreign, because
// the daemon serves the requests in its state.
func (e *Engine) AddActivity(seen *plan.Observed, a Activity) {
	keys := func(list []resources.Key) map[resources.Key]bool {
		set := make(map[resources.Key]bool, len(list))
		for _, key := range list {
			set[key] = true
		}
		return set
	}
	seen.Busy, seen.Shared, seen.ForeignClaims, seen.RegisteredPools = keys(a.Busy), a.Shared, keys(a.Claimed), a.RegisteredPools
	seen.RequestedBuilds, seen.NodepoolBuilders = a.RequestedBuilds, a.NodepoolBuilders
	for i := range seen.RegisteredPools {
		seen.RegisteredPools[i].Own = false
	}
	if a.Shared {
		e.addBuilders(seen, a.Builders)
	}
}

// observeInputs observes the inputs that are neither in a cloud nor in the store: the input files of images and, if ask
// is set, image sources and build hosts.
func (e *Engine) observeInputs(ctx context.Context, ask bool) (plan.Observed, error) {
	seen := plan.Observed{Builders: slices.Sorted(maps.Keys(e.Builders))}
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
	formats := map[string]string{}
	for i := range e.Desired.Providers {
		p := &e.Desired.Providers[i]
		if driver := e.Drivers[p.Driver]; driver != nil {
			if known := driver.Schema(); known.HasImages && len(known.Formats) > 0 {
				formats[p.Name] = known.Formats[0]
			}
			var own drivers.Format
			if err := schema.Decode(p.Config, &own); err == nil && own.ImageFormat != "" {
				formats[p.Name] = resources.ImageFormat(own.ImageFormat)
			}
		}
		if cloud := e.connections.opened(e.keys[p.Name]); cloud != nil {
			if store, ok := drivers.ImagesOf(cloud); ok && store.ImageFormat() != "" {
				formats[p.Name] = store.ImageFormat()
			}
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

// addFiles adds the contents of the images directory.
func (e *Engine) addFiles(seen *plan.Observed) (err error) {
	if seen.Files, err = e.files().list(); err != nil {
		seen.Files = nil
	}
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

// maxParallelQueries is how many image sources and build hosts are queried at a time.
const maxParallelQueries = 8

// queryExternalSources queries the versions of images with an external source, and the builds on build hosts. If a
// query fails, its view contains the error; queryExternalSources returns an error only if ctx ends.
func (e *Engine) queryExternalSources(ctx context.Context, seen *plan.Observed) error {
	var group errgroup.Group
	group.Go(func() error { return e.queryVersions(ctx, seen) })
	group.Go(func() error { return e.queryHosts(ctx, seen) })
	return group.Wait()
}

// queryVersions queries the versions of images with an external source.
func (e *Engine) queryVersions(ctx context.Context, seen *plan.Observed) error {
	seen.Versions = map[string]plan.SourceView{}
	var mu sync.Mutex // guards the map
	var group errgroup.Group
	group.SetLimit(maxParallelQueries)
	for i := range e.Desired.Images {
		image := &e.Desired.Images[i]
		sourced, ok := e.Builders[image.Builder].(builders.Versioned)
		if !ok {
			continue
		}
		group.Go(func() error {
			var view plan.SourceView
			versions, err := sourced.Versions(ctx, image.Name, image.Config, e.Desired.Settings.Dir)
			if errors.Is(err, builders.ErrNoVersions) {
				return nil
			}
			if view.Versions = versions; err != nil {
				view.Err = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			seen.Versions[image.Name] = view
			return nil
		})
	}
	_ = group.Wait() // the goroutines return no errors
	return ctx.Err()
}

// queryHosts queries the builds on build hosts.
func (e *Engine) queryHosts(ctx context.Context, seen *plan.Observed) error {
	seen.Hosts = map[string]plan.HostsView{}
	var mu sync.Mutex // guards the map
	var group errgroup.Group
	group.SetLimit(maxParallelQueries)
	for kind, builder := range e.Builders {
		remote, ok := builder.(builders.Remote)
		if !ok {
			continue
		}
		group.Go(func() error {
			var view plan.HostsView
			held, err := remote.ListBuilds(ctx)
			if view.Builds = held; err != nil {
				view.Err = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			seen.Hosts[kind] = view
			return nil
		})
	}
	_ = group.Wait() // the goroutines return no errors
	return ctx.Err()
}

// findTools observes which programs that builds and conversions need are missing on this host.
func (e *Engine) findTools(seen *plan.Observed) {
	path := process.Getenv(process.BaseEnv(os.Environ()), "PATH")
	if e.RunQemuImg == nil && !process.Installed(qemuimg.Program, path) {
		seen.Converter = []plan.Program{{Name: qemuimg.Program, Package: qemuimg.Package}}
	}
	seen.Tools = map[string]plan.Tools{}
	for _, image := range e.Desired.Images {
		tooled, ok := e.Builders[image.Builder].(builders.ToolUser)
		if !ok {
			continue
		}
		needs := tooled.Tools(image.Config)
		tools := plan.Tools{Formats: needs.Formats}
		for _, p := range needs.Programs {
			if !process.Installed(p.Name, p.Path) {
				tools.Missing = append(tools.Missing, plan.Program{Name: p.Name, Package: p.Package})
			}
		}
		seen.Tools[image.Name] = tools
	}
}
