package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// ResolveImage implements drivers.Resolver. The names of filters are those of EC2's DescribeImages; owner is a list of
// account IDs and aliases such as amazon; tag is the name of a tag; any other name is a tag with that name. Values may
// contain * and ?. Of several values of one filter, one has to match.
func (st *imageStore) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	switch {
	case spec.ImageID != "":
		return st.imageByID(ctx, spec.ImageID)
	case spec.Image == "" && len(spec.Filters) > 0:
		in := imageQuery(spec.Filters)
		return st.newest(ctx, "filters", cloudkit.FilterText(spec.Filters), in)
	default:
		name := cmp.Or(spec.Image, spec.Name)
		return st.newest(ctx, "image_name", name, &ec2.DescribeImagesInput{Filters: []types.Filter{filter("name", escapePattern(name))}})
	}
}

// escapePattern makes EC2 match a name literally.
func escapePattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(name)
}

// imageQuery separates the filters of EC2 from tags.
func imageQuery(filters map[string]resources.AnyOf) *ec2.DescribeImagesInput {
	in := &ec2.DescribeImagesInput{}
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		values := []string(filters[name])
		switch {
		case name == "owner":
			in.Owners = values
		case name == "tag":
			in.Filters = append(in.Filters, filter("tag-key", values...))
		case isImageFilter(name):
			in.Filters = append(in.Filters, filter(name, values...))
		default:
			in.Filters = append(in.Filters, filter("tag:"+name, values...))
		}
	}
	return in
}

// isImageFilter reports whether EC2 has a filter of AMIs with this name.
func isImageFilter(name string) bool {
	return strings.HasPrefix(name, "tag:") || strings.HasPrefix(name, "block-device-mapping.") || slices.Contains([]string{
		"architecture", "creation-date", "description", "ena-support", "hypervisor", "image-id", "image-type", "is-public",
		"manifest-location", "name", "owner-alias", "owner-id", "platform", "product-code", "product-code.type", "root-device-name",
		"root-device-type", "source-image-id", "source-image-region", "source-instance-id", "state", "tag-key", "virtualization-type",
	}, name)
}

func (st *imageStore) imageByID(ctx context.Context, id string) (resources.RemoteImage, []resources.Problem, error) {
	i, found, err := st.image(ctx, id)
	problem := resources.Problem{Attribute: "image_id", Value: id, Detail: "no such AMI in the region"}
	switch {
	case err != nil:
		return resources.RemoteImage{}, nil, err
	case !found:
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	case i.State != types.ImageStateAvailable:
		problem.Detail = fmt.Sprintf("the AMI is %s, not available", i.State)
		return resources.RemoteImage{}, []resources.Problem{problem}, nil
	default:
		return remoteImage(i), nil, nil
	}
}

// newest returns the newest available image; the smaller ID wins ties.
func (st *imageStore) newest(ctx context.Context, attribute, value string, in *ec2.DescribeImagesInput) (resources.RemoteImage, []resources.Problem, error) {
	found, err := st.describe(ctx, in)
	if err != nil {
		return resources.RemoteImage{}, nil, err
	}
	found = slices.DeleteFunc(found, func(i types.Image) bool { return i.State != types.ImageStateAvailable })
	if len(found) > 0 {
		return remoteImage(slices.MinFunc(found, newestFirst)), nil, nil
	}
	problem := resources.Problem{Attribute: attribute, Value: value, Detail: "no available AMI matches"}
	if attribute == "image_name" {
		own, err := st.describe(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}})
		if err != nil {
			return resources.RemoteImage{}, nil, err
		}
		names := drivers.NamesOf(own, func(i types.Image) string { return aws.ToString(i.Name) })
		problem.Detail, problem.Suggestions = "no available AMI has this name", drivers.Suggestions(value, names)
	}
	return resources.RemoteImage{}, []resources.Problem{problem}, nil
}

func newestFirst(a, b types.Image) int {
	return cmp.Or(cmp.Compare(aws.ToString(b.CreationDate), aws.ToString(a.CreationDate)), cmp.Compare(aws.ToString(a.ImageId), aws.ToString(b.ImageId)))
}
