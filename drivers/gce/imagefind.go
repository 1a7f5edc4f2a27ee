package gce

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// imagePath returns the path of an image of which the ID is a URL, a path, or a name in the project.
func (c *Cloud) imagePath(id string) string {
	if i := strings.Index(id, "projects/"); i >= 0 {
		return id[i:]
	}
	return "projects/" + c.project + "/global/images/" + strings.TrimPrefix(id, "global/images/")
}

// ResolveImage implements drivers.Resolver. An image_id may be a family, as in projects/debian-cloud/global/images/family/debian-12.
// The filters are project (the default is the project of the provider), family, name, architecture, and labels by their
// keys. Values may contain * and ?. Of several values of one filter, one has to match.
func (c *Cloud) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	switch {
	case spec.ImageID != "":
		return c.imageByID(ctx, spec.ImageID)
	case spec.Image == "" && len(spec.Filters) > 0:
		return c.imageByFilters(ctx, spec.Filters)
	default:
		return c.imageByName(ctx, cmp.Or(spec.Image, spec.Name))
	}
}

func (c *Cloud) imageByID(ctx context.Context, id string) (resources.RemoteImage, []resources.Problem, error) {
	problem := resources.Problem{Attribute: "image_id", Value: id, Detail: "write the name of an image of the project, or projects/PROJECT/global/images/NAME"}
	project, name, ok := strings.Cut(strings.TrimPrefix(c.imagePath(id), "projects/"), "/global/images/")
	if !ok {
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	}
	read := c.api.image
	if family, ok := strings.CutPrefix(name, "family/"); ok {
		name, read = family, c.api.family
	}
	i, err := read(ctx, project, name)
	switch status := cloudkit.StatusOf(err); {
	case status == http.StatusNotFound || status == http.StatusBadRequest: // Google calls names of another form invalid
		problem.Detail = "no such image in the project " + project
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	case err != nil:
		return resources.RemoteImage{}, nil, err
	case !usable(i):
		problem.Detail = "the image is " + strings.ToLower(stateOf(i)) + ", not ready"
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	}
	return c.remoteImage(i), nil, nil
}

func (c *Cloud) imageByName(ctx context.Context, name string) (resources.RemoteImage, []resources.Problem, error) {
	all, err := c.api.images(ctx, c.project)
	if err != nil {
		return resources.RemoteImage{}, nil, err
	}
	if i := slices.IndexFunc(all, func(i *compute.Image) bool { return i.Name == name && usable(i) }); i >= 0 {
		return c.remoteImage(all[i]), nil, nil
	}
	names := drivers.NamesOf(all, func(i *compute.Image) string { return i.Name })
	return resources.RemoteImage{}, []resources.Problem{{Attribute: "image_name", Value: name, Detail: "no ready image of the project " + c.project + " has this name",
		Suggestions: drivers.Suggestions(name, names)}}, nil
}

// imageByFilters returns the newest image that matches all filters; the smaller ID wins ties.
func (c *Cloud) imageByFilters(ctx context.Context, filters map[string]resources.AnyOf) (resources.RemoteImage, []resources.Problem, error) {
	projects := []string(filters["project"])
	if len(projects) == 0 {
		projects = []string{c.project}
	}
	var all []*compute.Image
	for _, project := range projects {
		found, err := c.api.images(ctx, project)
		if cloudkit.IsMissing(err) {
			return resources.RemoteImage{}, []resources.Problem{{Attribute: "filters", Value: project, Detail: "no such project, or no permission to list its images"}}, nil
		}
		if err != nil {
			return resources.RemoteImage{}, nil, err
		}
		all = append(all, found...)
	}
	matching := slices.DeleteFunc(slices.Clone(all), func(i *compute.Image) bool { return !usable(i) || !matches(i, filters) })
	if len(matching) > 0 {
		return c.remoteImage(slices.MinFunc(matching, newestFirst)), nil, nil
	}
	problem := resources.Problem{Attribute: "filters", Value: cloudkit.FilterText(filters), Detail: "no ready image matches"}
	var families []string
	for _, i := range all {
		if i.Family != "" && !slices.Contains(families, i.Family) {
			families = append(families, i.Family)
		}
	}
	for _, family := range filters["family"] {
		problem.Suggestions = append(problem.Suggestions, drivers.Suggestions(family, families)...)
	}
	return resources.RemoteImage{}, []resources.Problem{problem}, nil
}

func matches(i *compute.Image, filters map[string]resources.AnyOf) bool {
	return cloudkit.MatchesFilters(filters, func(name string) []string {
		switch name {
		case "project":
			return filters[name] // the list of the project was read
		case "family":
			return []string{i.Family}
		case "name":
			return []string{i.Name}
		case "architecture":
			return []string{i.Architecture}
		default:
			return []string{i.Labels[name]}
		}
	})
}

// newestFirst orders images by time of creation, which has the zone of time of Google.
func newestFirst(a, b *compute.Image) int {
	return cmp.Or(createdAt(b.CreationTimestamp).Compare(createdAt(a.CreationTimestamp)), cmp.Compare(a.SelfLink, b.SelfLink))
}

func createdAt(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t.UTC()
}

func usable(i *compute.Image) bool { return stateOf(i) == "READY" }

// stateOf returns the status of an image, or that it is deprecated.
func stateOf(i *compute.Image) string {
	if i.Deprecated != nil && i.Deprecated.State != "" && i.Deprecated.State != "ACTIVE" {
		return i.Deprecated.State
	}
	return i.Status
}

func (c *Cloud) remoteImage(i *compute.Image) resources.RemoteImage {
	return resources.RemoteImage{ID: c.imagePath(i.SelfLink), Name: i.Name, Status: resources.StatusReady, Size: i.ArchiveSizeBytes, Properties: i.Labels,
		Created: createdAt(i.CreationTimestamp)}
}
