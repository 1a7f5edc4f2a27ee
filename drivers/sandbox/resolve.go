package sandbox

import (
	"cmp"
	"context"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// ResolveOffer implements drivers.Resolver.
func (c *Cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	return c.catalog.ResolveOffer(ctx, config)
}

// ResolveOffer implements a method of drivers.Resolver.
func (c catalog) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	if c.anything {
		return resources.ResolvedOffer{Resources: resources.ResourceAmounts{Instances: 1}}, nil, ctx.Err()
	}
	o, err := c.offer(config)
	if err != nil {
		problems, err := drivers.ProblemsIn(err)
		return resources.ResolvedOffer{}, problems, err
	}
	return resources.ResolvedOffer{Flavor: o.flavor.Name, FlavorNames: []string{o.flavor.Name}, Resources: o.amounts(), Zones: o.zones,
		Values: cloudkit.PlannedValues(map[string]any{"cores": o.flavor.VCPUs, "ram": o.flavor.RAM})}, nil, ctx.Err()
}

// ResolveImage implements drivers.Resolver. Filters match by pattern: id, name, format, tag, and any property.
func (c *Cloud) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (found resources.RemoteImage, problems []resources.Problem, err error) {
	if c.catalog.anything {
		name := cmp.Or(spec.Image, spec.Name)
		return resources.RemoteImage{ID: cmp.Or(spec.ImageID, "image-"+name), Name: name, Status: resources.StatusReady}, nil, ctx.Err()
	}
	err = c.read(ctx, opListImages, func(f *fleet) error {
		found, problems = resolveImage(f.sorted(), spec)
		return nil
	})
	return found, problems, err
}

// resolveImage finds the newest image of a specification. The list is sorted.
func resolveImage(all []*image, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem) {
	problem := resources.Problem{Attribute: "image_name", Value: cmp.Or(spec.Image, spec.Name), Detail: "no such image"}
	matches := func(i *image) bool { return i.Name == problem.Value }
	switch {
	case spec.ImageID != "":
		problem.Attribute, problem.Value = "image_id", spec.ImageID
		matches = func(i *image) bool { return i.ID == spec.ImageID }
	case spec.Image == "" && len(spec.Filters) > 0:
		problem.Attribute, problem.Value, problem.Detail = "filters", cloudkit.FilterText(spec.Filters), "no image matches"
		matches = func(i *image) bool { return cloudkit.MatchesFilters(spec.Filters, i.values) }
	}
	if i := slices.IndexFunc(all, func(i *image) bool { return !i.Pending && matches(i) }); i >= 0 {
		return all[i].remote(), nil
	}
	problem.Suggestions = drivers.Suggestions(problem.Value, drivers.NamesOf(all, func(i *image) string { return i.Name }))
	return resources.RemoteImage{}, []resources.Problem{problem}
}

// values returns the values of an attribute.
func (i *image) values(name string) []string {
	switch name {
	case "id":
		return []string{i.ID}
	case "name":
		return []string{i.Name}
	case "format":
		return []string{i.Format}
	case "tag":
		return i.Tags
	default:
		return []string{i.Properties[name]}
	}
}
