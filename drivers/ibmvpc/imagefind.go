package ibmvpc

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// ResolveImage implements drivers.Resolver. Filters have the names of the attributes of images in the VPC API, such as
// operating_system.vendor; owner_type is provider or user; tag is a tag of an uploaded image; any other name is a property of an
// uploaded image. Values may contain * and ?. Of several values of one filter, one has to match.
func (st *imageStore) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	if spec.ImageID != "" {
		return st.imageByID(ctx, spec.ImageID)
	}
	all, err := st.images(ctx, nil)
	if err != nil {
		return resources.RemoteImage{}, nil, err
	}
	filters, problem := spec.Filters, resources.Problem{Attribute: "filters", Value: cloudkit.FilterText(spec.Filters), Detail: "no available image matches"}
	if spec.Image != "" || len(spec.Filters) == 0 {
		name := cmp.Or(spec.Image, spec.Name)
		filters, problem = map[string]resources.AnyOf{"name": {escapePattern(name)}}, resources.Problem{Attribute: "image_name", Value: name, Detail: "no available image has this name"}
		problem.Suggestions = drivers.Suggestions(name, drivers.NamesOf(all, func(i knownImage) string { return i.remote().Name }))
	}
	matching := slices.DeleteFunc(all, func(i knownImage) bool {
		return imageStatus(i.Status) != resources.StatusReady || !cloudkit.MatchesFilters(filters, i.values)
	})
	if len(matching) == 0 {
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	}
	return slices.MinFunc(matching, newestFirst).remote(), nil, nil
}

func (st *imageStore) imageByID(ctx context.Context, id string) (resources.RemoteImage, []resources.Problem, error) {
	var i cloudImage
	found, err := st.api.get(ctx, "read image "+id, "/images/"+url.PathEscape(id), &i)
	problem := resources.Problem{Attribute: "image_id", Value: id, Detail: "no such image in the region"}
	switch {
	case err != nil:
		return resources.RemoteImage{}, nil, err
	case !found:
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	case imageStatus(i.Status) != resources.StatusReady:
		problem.Detail = "the image is " + i.Status
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	default:
		return knownImage{cloudImage: i}.remote(), nil, nil
	}
}

func newestFirst(a, b knownImage) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// values returns the values of an attribute.
func (i knownImage) values(name string) []string {
	s := i.OperatingSystem
	switch name {
	case "tag":
		return i.meta.Tags
	case "owner_type":
		if i.Visibility == "private" {
			return []string{"user"}
		}
		return []string{"provider"}
	}
	value, known := map[string]string{
		"id": i.ID, "name": i.remote().Name, "crn": i.CRN, "href": i.Href, "status": i.Status, "visibility": i.Visibility,
		"operating_system.name": s.Name, "operating_system.family": s.Family, "operating_system.vendor": s.Vendor, "operating_system.version": s.Version,
		"operating_system.architecture": s.Architecture, "operating_system.display_name": s.DisplayName, "operating_system.href": s.Href,
		"operating_system.dedicated_host_only": strconv.FormatBool(s.DedicatedHostOnly),
	}[name]
	if !known {
		value, known = i.meta.Properties[name]
	}
	if !known {
		return nil
	}
	return []string{value}
}

func escapePattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}
