package azure

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// The forms of image IDs, as in the az command:
//
//   - PUBLISHER:OFFER:SKU:VERSION of the marketplace; the version may be latest;
//   - /subscriptions/…/images/NAME, a managed image;
//   - /subscriptions/…/galleries/GALLERY/images/NAME[/versions/VERSION], an image of a compute gallery;
//   - /SharedGalleries/GALLERY/Images/NAME/Versions/VERSION;
//   - /CommunityGalleries/GALLERY/Images/NAME/Versions/VERSION.
//
// The parts of an ID between slashes at these indexes have the names.
const (
	partGroup   = 4
	partGallery = 8
	partImage   = 10
	partVersion = 12
)

func isMarketplace(id string) bool { return strings.Count(id, ":") == 3 && !strings.HasPrefix(id, "/") }

// imageReference returns the reference of a virtual machine to an image.
func imageReference(id string) (*armcompute.ImageReference, error) {
	low := strings.ToLower(id)
	switch {
	case isMarketplace(id):
		parts := strings.Split(id, ":")
		return &armcompute.ImageReference{Publisher: to.Ptr(parts[0]), Offer: to.Ptr(parts[1]), SKU: to.Ptr(parts[2]), Version: to.Ptr(parts[3])}, nil
	case strings.HasPrefix(low, "/sharedgalleries/"):
		return &armcompute.ImageReference{SharedGalleryImageID: to.Ptr(id)}, nil
	case strings.HasPrefix(low, "/communitygalleries/"):
		return &armcompute.ImageReference{CommunityGalleryImageID: to.Ptr(id)}, nil
	case isID(id):
		return &armcompute.ImageReference{ID: to.Ptr(id)}, nil
	default:
		return nil, unknownImage(id)
	}
}

func unknownImage(id string) error {
	return &drivers.UnknownName{Attribute: "image_id", Value: id, Detail: "write a full ID, PUBLISHER:OFFER:SKU:VERSION, or the path of a gallery image"}
}

// ResolveImage implements drivers.Resolver. Names and filters find managed images of the resource group: the filter name is
// the name of the image, tag is the name of a tag, and any other name is a tag with that name. Values may contain * and ?.
// Of several values of one filter, one has to match.
func (st *imageStore) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	if spec.ImageID != "" {
		found, err := st.imageByID(ctx, spec.ImageID)
		problems, err := drivers.ProblemsIn(err)
		return found, problems, err
	}
	all, err := st.listImages(ctx)
	if err != nil {
		return resources.RemoteImage{}, nil, err
	}
	var ready []resources.RemoteImage
	for _, i := range all {
		if r := st.remoteImage(i); r.Status == resources.StatusReady {
			r.Properties = tagMap(i.Tags)
			ready = append(ready, r)
		}
	}
	match := func(i resources.RemoteImage) bool { return matches(i, spec.Filters) }
	problem := resources.Problem{Attribute: "filters", Value: cloudkit.FilterText(spec.Filters), Detail: "no image of resource group " + st.group + " matches"}
	if spec.Image != "" || len(spec.Filters) == 0 {
		name := cmp.Or(spec.Image, spec.Name)
		match = func(i resources.RemoteImage) bool { return sameName(i.Name, name) || sameName(nameOf(i.ID), name) }
		problem = resources.Problem{Attribute: "image_name", Value: name, Detail: "no image of resource group " + st.group + " has this name"}
		for _, i := range ready {
			problem.Suggestions = append(problem.Suggestions, i.Name)
		}
		problem.Suggestions = drivers.Suggestions(name, problem.Suggestions)
	}
	ready = slices.DeleteFunc(ready, func(i resources.RemoteImage) bool { return !match(i) })
	if len(ready) == 0 {
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	}
	newest := slices.MinFunc(ready, func(a, b resources.RemoteImage) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	newest.Properties = cloudkit.UserTags(newest.Properties)
	return newest, nil, nil
}

// matches compares an image with filters. All tags of the image are in its properties.
func matches(i resources.RemoteImage, filters map[string]resources.AnyOf) bool {
	return cloudkit.MatchesFilters(filters, func(name string) []string {
		switch name {
		case "name":
			return []string{i.Name, nameOf(i.ID)}
		case "tag":
			return slices.Collect(maps.Keys(i.Properties))
		default:
			return []string{i.Properties[name]}
		}
	})
}

// imageByID checks that an image exists.
func (st *imageStore) imageByID(ctx context.Context, id string) (resources.RemoteImage, error) {
	if _, err := imageReference(id); err != nil {
		return resources.RemoteImage{}, err
	}
	if isMarketplace(id) {
		return st.marketplaceImage(ctx, id)
	}
	if _, own := st.ownName(id); own {
		i, found, err := st.image(ctx, id)
		if err != nil {
			return resources.RemoteImage{}, err
		}
		if found && st.remoteImage(i).Status == resources.StatusReady {
			return st.remoteImage(i), nil
		}
		return resources.RemoteImage{}, missingImage(id, nil)
	}
	return resources.RemoteImage{ID: id, Name: id, Status: resources.StatusReady}, st.otherImage(ctx, id)
}

func missingImage(id string, near []string) error {
	return &drivers.UnknownName{Attribute: "image_id", Value: id, Detail: "no such image, or the credentials must not read it", Near: near}
}

// otherImage checks an image outside the resource group.
func (st *imageStore) otherImage(ctx context.Context, id string) (err error) {
	parts, low := strings.Split(id, "/"), strings.ToLower(id)
	switch {
	case strings.HasPrefix(low, "/sharedgalleries/") && len(parts) == 7:
		_, err = st.shared.Get(ctx, st.location, parts[2], parts[4], parts[6], nil)
	case strings.HasPrefix(low, "/communitygalleries/") && len(parts) == 7:
		_, err = st.community.Get(ctx, st.location, parts[2], parts[4], parts[6], nil)
	case strings.Contains(low, "/galleries/") && len(parts) > partVersion && sameName(parts[2], st.subscription):
		_, err = st.galleries.Get(ctx, parts[partGroup], parts[partGallery], parts[partImage], parts[partVersion], nil)
	case isID(id):
		err = st.rest.send(ctx, http.MethodGet, id, imagesVersion, nil, nil)
	default:
		return unknownImage(id)
	}
	if err = wrap("read image "+id, err); cloudkit.IsMissing(err) {
		return missingImage(id, nil)
	}
	return err
}

// imagesVersion is the API version by which the driver reads images of other resource groups and galleries.
const imagesVersion = "2024-03-03"

// marketplaceImage finds the version of an image of the marketplace.
func (st *imageStore) marketplaceImage(ctx context.Context, id string) (resources.RemoteImage, error) {
	parts := strings.Split(id, ":")
	answer, err := st.marketplace.List(ctx, st.location, parts[0], parts[1], parts[2], nil)
	if err = wrap("list versions of image "+id, err); err != nil && !cloudkit.IsMissing(err) {
		return resources.RemoteImage{}, err
	}
	var versions []string
	for _, v := range answer.VirtualMachineImageResourceArray {
		versions = append(versions, deref(v.Name))
	}
	if len(versions) > 0 && parts[3] == "latest" || slices.Contains(versions, parts[3]) {
		return resources.RemoteImage{ID: id, Name: id, Status: resources.StatusReady}, nil
	}
	return resources.RemoteImage{}, missingImage(id, st.nearMarketplace(ctx, parts, versions))
}

// nearMarketplace suggests versions, else SKUs of the offer. Without an answer there are no suggestions.
func (st *imageStore) nearMarketplace(ctx context.Context, parts, versions []string) (near []string) {
	names, position := versions, 3
	if len(versions) == 0 {
		position = 2
		answer, err := st.marketplace.ListSKUs(ctx, st.location, parts[0], parts[1], nil)
		if err != nil {
			return nil
		}
		for _, sku := range answer.VirtualMachineImageResourceArray {
			names = append(names, deref(sku.Name))
		}
	}
	for _, name := range drivers.Suggestions(parts[position], names) {
		whole := slices.Clone(parts)
		whole[position] = name
		near = append(near, strings.Join(whole, ":"))
	}
	return near
}
