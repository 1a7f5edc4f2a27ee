package config

import (
	"cmp"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/resources"
)

// parsedConfig holds all decoded objects, with the positions that checkRules reports.
type parsedConfig struct {
	labels    map[string]*parsedLabel
	images    map[string]*parsedImage // diskimages and zuul_images share one namespace
	providers []*parsedProvider
	imports   []resources.Import
	moves     []parsedMove
	removed   []parsedRemoval
}

type parsedLabel struct {
	resources.Label
	in *report // of its module instance
	at hcl.Range
}

type parsedImage struct {
	resources.Image
	abstract bool
	used     bool
	in       *report // of its module instance
	at       hcl.Range
}

type parsedProvider struct {
	resources.Provider
	specs       *driverSpecs
	in          *report // of its module instance, also for all blocks in the provider
	at          hcl.Range
	pools       []*parsedPool
	cloudImages map[string]*parsedCloudImage
	images      []*parsedProviderImage
}

type parsedProviderImage struct {
	resources.ProviderImage
	at hcl.Range
}

type parsedCloudImage struct {
	resources.CloudImageSpec
	used bool
	at   hcl.Range
}

type parsedPool struct {
	resources.Pool
	at     hcl.Range
	offers []parsedOffer
	nodes  []*parsedNode
}

type parsedOffer struct {
	resources.Offer
	at      hcl.Range // position of the label's name
	imageAt hcl.Range
}

type parsedNode struct {
	resources.StaticNode
	at       hcl.Range
	labelsAt hcl.Range
}

// desired returns all objects in the order of their names.
func (w *parsedConfig) desired(settings resources.Settings) resources.Desired {
	d := resources.Desired{Settings: settings, Imports: w.imports, Moves: movesOf(w.moves)}
	for _, r := range w.removed {
		d.Removed = append(d.Removed, r.Removal)
	}
	for _, label := range w.labels {
		d.Labels = append(d.Labels, label.Label)
	}
	sortBy(d.Labels, func(l resources.Label) string { return l.Name })
	for _, image := range w.images {
		if !image.abstract {
			d.Images = append(d.Images, image.Image)
		}
	}
	sortBy(d.Images, func(i resources.Image) string { return i.Name })
	for _, p := range w.providers {
		d.Providers = append(d.Providers, p.desired())
	}
	sortBy(d.Providers, func(p resources.Provider) string { return p.Name })
	return d
}

func (p *parsedProvider) desired() resources.Provider {
	made := p.Provider
	for _, pool := range p.pools {
		made.Pools = append(made.Pools, pool.desired())
	}
	sortBy(made.Pools, func(p resources.Pool) string { return p.Name })
	for _, image := range p.cloudImages {
		made.CloudImages = append(made.CloudImages, image.CloudImageSpec)
	}
	sortBy(made.CloudImages, func(i resources.CloudImageSpec) string { return i.Name })
	for _, image := range p.images {
		made.Images = append(made.Images, image.ProviderImage)
	}
	sortBy(made.Images, func(i resources.ProviderImage) string { return i.Image.Name })
	return made
}

func (p *parsedPool) desired() resources.Pool {
	made := p.Pool
	for _, offer := range p.offers {
		made.Offers = append(made.Offers, offer.Offer)
	}
	sortBy(made.Offers, func(o resources.Offer) string { return o.Label })
	sortBy(p.nodes, func(n *parsedNode) string { return n.Name })
	made.Nodes = slices.Grow(made.Nodes, len(p.nodes))
	for _, node := range p.nodes {
		made.Nodes = append(made.Nodes, node.StaticNode)
	}
	return made
}

func sortBy[T any](list []T, name func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
}
