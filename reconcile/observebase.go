package reconcile

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// ObserveBase returns the observed state for a plan of another configuration, the base. It is about the same world as seen, which e
// has observed for its own configuration, the head. Everything that the configuration does not decide is shared; decision
// 0048 lists it. A listing is shared where the provider of the base leads to the same place. With refresh, ObserveBase resolves
// the names in the blocks that differ. It does not change seen; see also WithoutUnlisted.
func (e *Engine) ObserveBase(ctx context.Context, base *Engine, seen plan.Observed, refresh bool) (plan.Observed, error) {
	own, err := base.observeInputs(ctx, false)
	if err != nil {
		return own, err
	}
	shared := seen
	shared.Inputs, shared.InputErrors, shared.InstanceOffers, shared.Tools = own.Inputs, own.InputErrors, own.InstanceOffers, own.Tools
	if !refresh {
		shared.Formats = base.Formats()
		return shared, nil
	}
	if shared.Versions, err = e.versionsOfBase(ctx, base, seen.Versions); err != nil {
		return shared, err
	}
	shared.Providers = e.viewsOfBase(ctx, base, &seen)
	shared.Formats = base.Formats() // after the providers are open
	return shared, ctx.Err()
}

// WithoutUnlisted returns seen, as if the providers were empty that only the head has and that could not be listed, and a note about each
// of them. In a review, their credentials may not exist yet.
func (e *Engine) WithoutUnlisted(base *Engine, seen plan.Observed) (plan.Observed, []plan.Note) {
	var notes []plan.Note
	seen.Providers = maps.Clone(seen.Providers)
	for i := range e.Desired.Providers {
		p := &e.Desired.Providers[i]
		inBase := slices.ContainsFunc(base.Desired.Providers, func(b resources.Provider) bool { return e.Desired.Moves.Provider(b.Name) == p.Name })
		if view := seen.Providers[p.Name]; view.Err != "" && !inBase && recordedProvider(&seen, p.Name) == nil {
			delete(seen.Providers, p.Name)
			notes = append(notes, plan.Note{Severity: plan.Warning, Code: "counts-as-empty", Address: plan.ProviderAddress(p.Name), Source: p.Source,
				Text: "the provider is new and could not be listed, so it counts as empty, and names in its blocks are not checked: " + view.Err})
		}
	}
	return seen, notes
}

// versionsOfBase returns the versions of external sources. It queries a source only if the block of its image differs.
func (e *Engine) versionsOfBase(ctx context.Context, base *Engine, seen map[string]plan.SourceView) (map[string]plan.SourceView, error) {
	versions := map[string]plan.SourceView{}
	var differing []resources.Image
	for _, image := range base.Desired.Images {
		now := e.Desired.Moves.Image(image.Name)
		if view, known := seen[now]; known && sameBlocks(base.Desired, e.Desired, image.Ref().String(), resources.ImageRef{Kind: image.Kind, Name: now}.String()) {
			versions[image.Name] = view
		} else {
			differing = append(differing, image)
		}
	}
	if len(differing) == 0 {
		return versions, nil
	}
	changed := base.Desired
	changed.Images = differing
	queried := plan.Observed{}
	err := base.With(changed).queryVersions(ctx, &queried)
	maps.Copy(versions, queried.Versions)
	return versions, err
}

// viewsOfBase returns the views of the providers for a plan of the base.
func (e *Engine) viewsOfBase(ctx context.Context, base *Engine, seen *plan.Observed) map[string]plan.ProviderView {
	there := expect(func(yield func(resources.Record) bool) {
		for _, n := range seen.Records.Nodes {
			if !yield(n) {
				return
			}
		}
		for _, u := range seen.Records.Uploads {
			if !yield(u) {
				return
			}
		}
	})
	views := maps.Clone(seen.Providers)
	for i := range e.Desired.Providers {
		name := e.Desired.Providers[i].Name
		if recordedProvider(seen, name) == nil {
			delete(views, name) // only the head has it
		}
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range base.Desired.Providers {
		p := &base.Desired.Providers[i]
		group.Go(func() {
			view := e.viewOfBase(ctx, base, p, there[p.Name], seen)
			mu.Lock()
			defer mu.Unlock()
			views[p.Name] = view
		})
	}
	group.Wait()
	return views
}

// viewOfBase returns the view of one provider. It shares the listing unless the provider of the base is elsewhere.
func (e *Engine) viewOfBase(ctx context.Context, base *Engine, p *resources.Provider, there expectedIDs, seen *plan.Observed) plan.ProviderView {
	record := recordedProvider(seen, p.Name)
	name := e.Desired.Moves.Provider(p.Name)
	listed, known := seen.Providers[name]
	now, configured := e.Desired.Provider(name)
	sameConnection := configured && now.Driver == p.Driver && now.Config.RawEquals(p.Config)
	if sameConnection && listed.Err != "" {
		return listed
	}
	if sameConnection && sameBlocks(base.Desired, e.Desired, "provider."+p.Name, "provider."+name) && !slices.ContainsFunc(slices.Concat(base.Desired.Imports, e.Desired.Imports), func(i resources.Import) bool {
		return i.Provider == p.Name || i.Provider == name
	}) {
		return listed
	}
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	cloud, release, err := base.cloud(ctx, p.Name, record)
	defer release()
	if err != nil {
		return plan.ProviderView{Err: err.Error(), Rejected: rejected(err)}
	}
	placed, ok := drivers.As[drivers.Locator](cloud)
	samePlace := sameConnection || !configured || ok && placed.Location() == listed.Location
	if !known || listed.Err != "" || !samePlace {
		return base.view(ctx, p.Name, record, there)
	}
	view := listed
	view.Offers, view.CloudImages = nil, nil
	if resolver, ok := drivers.ResolverOf(cloud); ok {
		err = base.resolve(ctx, p, resolver, &view)
	}
	if err == nil {
		err = base.lookUpImports(ctx, p.Name, cloud, there, record, &view)
	}
	if err != nil {
		return plan.ProviderView{Err: err.Error(), Rejected: rejected(err)}
	}
	return view
}

// recordedProvider returns the record of a provider, or nil.
func recordedProvider(seen *plan.Observed, name string) *resources.ProviderRecord {
	record, _ := seen.Records.Get(resources.Key{Kind: resources.KindProvider, ID: name}).(*resources.ProviderRecord)
	return record
}

// sameBlocks reports whether two configurations have the same values in a block, which may have another address in the other one,
// and in the blocks inside of it.
func sameBlocks(a, b resources.Desired, inA, inB string) bool {
	digests := func(d resources.Desired, address string) map[string]string {
		all := map[string]string{}
		for _, block := range d.Blocks {
			if rest, ok := strings.CutPrefix(block.Address, address); ok && (rest == "" || rest[0] == '.') {
				all[rest] = block.Digest
			}
		}
		return all
	}
	return maps.Equal(digests(a, inA), digests(b, inB))
}
