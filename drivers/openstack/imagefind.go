package openstack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// ResolveImage implements drivers.Resolver. It ignores inactive images. Filters match by pattern (* and ?): name, id,
// owner, visibility, disk_format, tag or tags (several separated by commas, all of which must match), and any
// property by its name. Of several patterns for one attribute, one has to match.
func (st *imageStore) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	if spec.ImageID != "" {
		return st.imageByID(ctx, spec.ImageID)
	}
	return imageFinder{st.listImages}.ResolveImage(ctx, spec)
}

// imageFinder finds images in a list. The list may ignore the query.
type imageFinder struct {
	list func(ctx context.Context, query url.Values) ([]image, error)
}

// ResolveImage implements a method of drivers.Resolver.
func (f imageFinder) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	switch name := cmp.Or(spec.Image, spec.Name); {
	case spec.ImageID != "":
		all, err := f.list(ctx, url.Values{})
		i := slices.IndexFunc(all, func(i image) bool { return i.ID == spec.ImageID })
		if err != nil || i < 0 {
			return imageWithID(spec.ImageID, image{}, false, err)
		}
		return imageWithID(spec.ImageID, all[i], true, nil)
	case spec.Image == "" && len(spec.Filters) > 0:
		for name, patterns := range spec.Filters {
			if i := slices.IndexFunc(patterns, func(p string) bool { return !isPattern(p) }); i >= 0 {
				return resources.RemoteImage{}, []resources.Problem{{Attribute: "filters", Value: patterns[i], Detail: "not a pattern for " + name + "; * and ? and [a-z] are special"}}, nil
			}
		}
		return f.newest(ctx, "filters", filterText(spec.Filters), serverFilters(spec.Filters), func(i image) bool { return matches(i, spec.Filters) })
	default:
		return f.newest(ctx, "image", name, url.Values{"name": {name}}, func(i image) bool { return i.Name == name })
	}
}

func isPattern(s string) bool {
	_, err := path.Match(s, "")
	return err == nil
}

func (st *imageStore) imageByID(ctx context.Context, id string) (resources.RemoteImage, []resources.Problem, error) {
	i, found, err := st.image(ctx, id)
	return imageWithID(id, i, found, err)
}

func imageWithID(id string, i image, found bool, err error) (resources.RemoteImage, []resources.Problem, error) {
	switch {
	case err != nil:
		return resources.RemoteImage{}, nil, err
	case !found:
		return resources.RemoteImage{}, []resources.Problem{{Attribute: "image_id", Value: id, Detail: "no such image in the cloud"}}, nil
	case i.Status != "active":
		return resources.RemoteImage{}, []resources.Problem{{Attribute: "image_id", Value: id, Detail: "the image is " + i.Status + ", not active"}}, nil
	default:
		return i.remote(), nil, nil
	}
}

func (f imageFinder) newest(ctx context.Context, attribute, value string, query url.Values, match func(image) bool) (resources.RemoteImage, []resources.Problem, error) {
	query.Set("status", "active")
	found, err := f.list(ctx, query)
	if err != nil {
		return resources.RemoteImage{}, nil, err
	}
	found = slices.DeleteFunc(found, func(i image) bool { return i.Status != "active" || !match(i) })
	if len(found) > 0 {
		return slices.MinFunc(found, newestFirst).remote(), nil, nil
	}
	problem := resources.Problem{Attribute: attribute, Value: value, Detail: "no active image matches"}
	if attribute == "image" {
		problem.Detail = "no active image has this name"
		names, err := f.names(ctx)
		if err != nil {
			return resources.RemoteImage{}, nil, err
		}
		problem.Suggestions = drivers.Suggestions(value, names)
	}
	return resources.RemoteImage{}, []resources.Problem{problem}, nil
}

func newestFirst(a, b image) int {
	return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
}

func (f imageFinder) names(ctx context.Context) ([]string, error) {
	found, err := f.list(ctx, url.Values{"status": {"active"}})
	return namesOf(found, func(i image) string { return i.Name }), err
}

// serverFilters returns the filters that Glance supports: one exact value of a field or property.
func serverFilters(filters map[string]resources.AnyOf) url.Values {
	query := url.Values{}
	for name, patterns := range filters {
		if len(patterns) != 1 || strings.ContainsAny(patterns[0], `*?[\,:`) || name == "id" {
			continue
		}
		if name == "tags" {
			name = "tag"
		}
		query.Set(name, patterns[0])
	}
	return query
}

func matches(i image, filters map[string]resources.AnyOf) bool {
	for name, patterns := range filters {
		if !slices.ContainsFunc(patterns, func(pattern string) bool { return i.matches(name, pattern) }) {
			return false
		}
	}
	return true
}

func (i image) matches(name, pattern string) bool {
	if name != "tag" && name != "tags" {
		value, ok := i.value(name)
		return ok && cloudkit.MatchesPattern(value, pattern)
	}
	for tag := range strings.SplitSeq(pattern, ",") {
		if !slices.ContainsFunc(i.Tags, func(t string) bool { return cloudkit.MatchesPattern(t, strings.TrimSpace(tag)) }) {
			return false
		}
	}
	return true
}

func (i image) value(name string) (string, bool) {
	switch name {
	case "id":
		return i.ID, true
	case "name":
		return i.Name, true
	case "owner":
		return i.Owner, true
	case "visibility":
		return i.Visibility, true
	case "disk_format", "format":
		return i.Format, true
	}
	value, ok := i.Properties[name]
	return value, ok
}

func filterText(filters map[string]resources.AnyOf) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		text := fmt.Sprintf("%q", []string(filters[name]))
		if len(filters[name]) == 1 {
			text = fmt.Sprintf("%q", filters[name][0])
		}
		parts = append(parts, name+" = "+text)
	}
	return strings.Join(parts, ", ")
}
