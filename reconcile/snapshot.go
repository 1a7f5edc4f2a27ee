package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/snapshot"
	"github.com/npctl/npctl/resources"
)

// Snapshot returns an observed state for plans of other configurations without access to the state and the clouds. It asks the clouds of
// the configured providers for their names, where their drivers can list them, and logs an error of that as a warning.
func (e *Engine) Snapshot(ctx context.Context, meta plan.Meta, seen *plan.Observed) (*snapshot.Snapshot, error) {
	s, err := snapshot.New(meta, e.Desired.Blocks, seen)
	if err != nil {
		return nil, err
	}
	adopted := map[string]bool{}
	for _, n := range seen.Records.Nodes {
		adopted[n.ExternalID] = true
	}
	for _, u := range seen.Records.Uploads {
		adopted[u.ExternalID] = true
	}
	for name, view := range seen.Providers {
		s.Providers[name] = snapshot.Provider{View: ownView(view, seen.Installation, adopted)}
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range e.Desired.Providers {
		p := &e.Desired.Providers[i]
		view := seen.Providers[p.Name]
		group.Go(func() {
			one := snapshot.Provider{Driver: p.Driver, Format: seen.Formats[p.Name], View: ownView(view, seen.Installation, adopted)}
			one.Offers, one.CloudImages = resolvedBlocks(p, &view)
			if view.Err == "" {
				one.Catalogue = e.catalogue(ctx, p.Name, recordedProvider(seen, p.Name))
			}
			mu.Lock()
			defer mu.Unlock()
			s.Providers[p.Name] = one
		})
	}
	group.Wait()
	return s, ctx.Err()
}

// ownView returns the part of a view that does not depend on the configuration, without the objects of others and the ways to
// connect to instances.
func ownView(view plan.ProviderView, installation string, adopted map[string]bool) plan.ProviderView {
	var instances []resources.Instance
	for _, i := range view.Instances {
		if i.Marks.Installation == installation || adopted[i.ID] {
			i.HostKeys, i.Login, i.Attributes = nil, resources.Login{}, nil
			instances = append(instances, i)
		}
	}
	view.Instances = instances
	view.Images = slices.DeleteFunc(slices.Clone(view.Images), func(i resources.RemoteImage) bool {
		return i.Marks.Installation != installation && !adopted[i.ID]
	})
	return view
}

// resolvedBlocks returns the blocks of a provider as its cloud has resolved them.
func resolvedBlocks(p *resources.Provider, view *plan.ProviderView) (offers []snapshot.Offer, images []snapshot.CloudImage) {
	for i := range p.Pools {
		for _, o := range p.Pools[i].Offers {
			if resolved, ok := view.Offers[plan.OfferKey{Pool: p.Pools[i].Name, Label: o.Label}]; ok {
				offers = append(offers, snapshot.Offer{Values: o.Values, View: resolved})
			}
		}
	}
	for _, spec := range p.CloudImages {
		if resolved, ok := view.CloudImages[spec.Name]; ok {
			images = append(images, snapshot.CloudImage{ID: spec.ImageID, Name: cmp.Or(spec.Image, spec.Name), Filters: spec.Filters, View: resolved})
		}
	}
	return offers, images
}

// catalogue returns the names of a cloud, or nil.
func (e *Engine) catalogue(ctx context.Context, provider string, record *resources.ProviderRecord) resources.Catalogue {
	cloud, release, err := e.cloud(ctx, provider, record)
	defer release()
	if err == nil {
		lister, ok := drivers.CataloguerOf(cloud)
		if !ok {
			return nil
		}
		var names resources.Catalogue
		if names, err = lister.Catalogue(ctx); err == nil {
			return names
		}
	}
	e.Log.Warn("a snapshot lacks the names of a provider", "provider", provider, "error", err)
	return nil
}

// ObserveSnapshot returns the observed state of a snapshot for a plan of the engine's configuration. It contacts no cloud and runs no
// program. The notes say what the snapshot cannot answer. check returns an error for a file that the configuration must not name
// as an input of an image: neither its name nor its digest is in the result.
func (e *Engine) ObserveSnapshot(ctx context.Context, s *snapshot.Snapshot, check func(path string) error) (plan.Observed, []plan.Note, error) {
	seen, err := s.Observed()
	if err != nil {
		return seen, nil, err
	}
	seen.InstanceOffers, seen.Formats, seen.Providers = e.instanceOffers(), e.Formats(), map[string]plan.ProviderView{}
	if err := e.inputs(ctx, &seen); err != nil {
		return seen, nil, err
	}
	for image, in := range seen.Inputs {
		for path := range in.Files {
			if err := check(e.Desired.Settings.Path(path)); err != nil {
				delete(seen.Inputs, image)
				seen.InputErrors[image] = "an input file is outside of the repository, and a plan with a snapshot uses no other files"
				break
			}
		}
	}
	for name, p := range s.Providers {
		if p.Driver == "" || recordedProvider(&seen, name) != nil { // as a listing of the clouds: the recorded and the configured providers
			seen.Providers[name] = p.View
		}
	}
	known := knownBlocks(s.Blocks)
	var notes []plan.Note
	for i := range e.Desired.Providers {
		p := &e.Desired.Providers[i]
		one, ok := e.formerly(s, p.Name)
		note := func(code, format string, args ...any) {
			notes = append(notes, plan.Note{Severity: plan.Warning, Code: code, Address: plan.ProviderAddress(p.Name), Source: p.Source, Text: fmt.Sprintf(format, args...)})
		}
		if !ok {
			note("counts-as-empty", "the snapshot does not have the provider, so it counts as empty, and names in its blocks are not checked")
			continue
		}
		if address := string(plan.ProviderAddress(p.Name)); known[address] != "" && known[address] == knownBlocks(e.Desired.Blocks)[address] {
			seen.Formats[p.Name] = one.Format
		}
		view, unchecked := e.resolveFromSnapshot(ctx, p, one)
		seen.Providers[p.Name] = view
		if view.Err == "" && len(unchecked) > 0 {
			note("names-not-checked", "the snapshot cannot say whether the cloud has the names in %s", text.And(unchecked))
		}
	}
	for _, i := range e.Desired.Imports {
		if view := seen.Providers[i.Provider]; view.Err == "" && !isImported(&seen.Records, &i) {
			notes = append(notes, plan.Note{Severity: plan.Warning, Code: "import-not-checked", Address: plan.Address(i.Address()), Source: i.Source,
				Text: "a snapshot does not have the objects of imports, so the import is not planned"})
		}
	}
	return seen, notes, ctx.Err()
}

// isImported reports whether a record names the object of an import.
func isImported(r *plan.Records, i *resources.Import) bool {
	return slices.ContainsFunc(r.Nodes, func(n *resources.Node) bool { return n.ExternalID == i.ID && n.Provider == i.Provider }) ||
		slices.ContainsFunc(r.Uploads, func(u *resources.Upload) bool { return u.ExternalID == i.ID && u.Provider == i.Provider })
}

func knownBlocks(blocks []resources.Block) map[string]string {
	digests := make(map[string]string, len(blocks))
	for _, b := range blocks {
		digests[b.Address] = b.Digest
	}
	return digests
}

// formerly returns a provider of a snapshot by its present name.
func (e *Engine) formerly(s *snapshot.Snapshot, name string) (snapshot.Provider, bool) {
	if p, ok := s.Providers[name]; ok {
		return p, true
	}
	for _, former := range slices.Sorted(maps.Keys(s.Providers)) {
		if e.Desired.Moves.Provider(former) == name {
			return s.Providers[former], true
		}
	}
	return snapshot.Provider{}, false
}

// resolveFromSnapshot returns the view of a provider with the names of its blocks resolved: as the cloud resolved the same
// settings, or by the catalogue. unchecked are the addresses of the other blocks.
func (e *Engine) resolveFromSnapshot(ctx context.Context, p *resources.Provider, one snapshot.Provider) (view plan.ProviderView, unchecked []string) {
	view = one.View
	view.Offers, view.CloudImages = map[plan.OfferKey]plan.OfferView{}, map[string]plan.CloudImageView{}
	var names drivers.Resolver
	if reader, ok := e.Drivers[p.Driver].(drivers.CatalogueReader); ok && (one.Driver == "" || one.Driver == p.Driver) {
		var err error
		if names, err = reader.ResolverOf(p.Config, one.Catalogue); err != nil {
			e.Log.Debug("a catalogue is not usable", "provider", p.Name, "error", err)
			names = nil
		}
	}
	for _, spec := range p.CloudImages {
		image, ok := one.CloudImage(spec)
		if !ok && names != nil {
			var err error
			image.Image, image.Problems, err = names.ResolveImage(ctx, spec)
			ok = err == nil
		}
		if view.CloudImages[spec.Name] = image; !ok {
			unchecked = append(unchecked, fmt.Sprintf("provider.%s.cloud_image.%s", p.Name, spec.Name))
		}
	}
	for _, pool := range p.Pools {
		for i := range pool.Offers {
			o := &pool.Offers[i]
			offer, ok := one.Offer(o)
			if !ok && names != nil {
				var err error
				offer.ResolvedOffer, offer.Problems, err = names.ResolveOffer(ctx, o.Config)
				ok = err == nil
			}
			if problem := architectureProblem(o, offer.ResolvedOffer, view.CloudImages[o.Image.Name].Image); problem != nil {
				offer.Problems = append(slices.Clone(offer.Problems), *problem)
			}
			if view.Offers[plan.OfferKey{Pool: pool.Name, Label: o.Label}] = offer; !ok {
				unchecked = append(unchecked, string(plan.OfferAddress(p.Name, pool.Name, o.Label)))
			}
		}
	}
	return view, unchecked
}
