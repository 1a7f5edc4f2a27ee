package sandbox

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

var (
	_ drivers.Cataloguer      = (*Cloud)(nil)
	_ drivers.CatalogueReader = (*Driver)(nil)
)

// Catalogue implements drivers.Cataloguer: the images, because all other names are in the configuration.
func (c *Cloud) Catalogue(ctx context.Context) (resources.Catalogue, error) {
	return drivers.Catalogue(ctx, map[string]drivers.List{"images": &drivers.Names[*image]{Fetch: func(ctx context.Context) (all []*image, err error) {
		err = c.read(ctx, opListImages, func(f *fleet) error {
			all = f.sorted()
			return nil
		})
		return all, err
	}}})
}

// catalogueResolver resolves names by a configuration and a catalogue.
type catalogueResolver struct {
	catalog

	images *drivers.Names[*image]
}

// ResolverOf implements drivers.CatalogueReader.
func (*Driver) ResolverOf(config cty.Value, catalogue resources.Catalogue) (drivers.Resolver, error) {
	var s providerSettings
	if err := cloudkit.Decode(config, &s); err != nil {
		return nil, err
	}
	r := &catalogueResolver{catalogOf(s), &drivers.Names[*image]{}}
	return r, drivers.LoadCatalogue(catalogue, map[string]drivers.List{"images": r.images})
}

// ResolveImage implements drivers.Resolver.
func (r *catalogueResolver) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	all, err := r.images.Get(ctx)
	if err != nil {
		return resources.RemoteImage{}, nil, err
	}
	found, problems := resolveImage(all, spec)
	return found, problems, nil
}
