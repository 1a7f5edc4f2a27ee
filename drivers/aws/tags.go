package aws

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// The ownership tags of EC2 objects:
//
//   - npctl_installation, npctl_provider, npctl_pool, npctl_label, npctl_image, npctl_build, npctl_hash, and one of
//     npctl_node_id, npctl_upload_id and npctl_build_id;
//   - instances, their volumes and network interfaces get them in the call that creates the instance;
//   - snapshots, AMIs, launch templates and dedicated hosts get them in the calls that create them;
//   - npctl_object (drivers.TagObject) of an instance is the client token, that of a volume the snapshot of the AMI. Snapshots, AMIs
//     and adopted instances get their ID, in a call after their creation. EC2 may choose the tokens of spot instances and of those
//     of fleets, which have no npctl_object. A launch template has its name as npctl_node_id.
//
// Further tags: npctl_interface, npctl_volume and npctl_launch_template of instances, and npctl_format, npctl_size and npctl_sha256 of images.
const (
	tagPrefix = drivers.TagPrefix
	tagName   = "Name"

	tagInstallation = drivers.TagInstallation
	tagVolume       = tagPrefix + "volume"
	tagTemplate     = tagPrefix + "launch_template"
)

// tagMap converts the SDK's list of tags.
func tagMap(tags []types.Tag) map[string]string {
	values := make(map[string]string, len(tags))
	for _, t := range tags {
		values[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return values
}

// tagList is the reverse of tagMap, sorted by key.
func tagList(values map[string]string) []types.Tag {
	var tags []types.Tag
	for _, key := range slices.Sorted(maps.Keys(values)) {
		tags = append(tags, types.Tag{Key: aws.String(key), Value: aws.String(values[key])})
	}
	return tags
}

// ownerOf returns the ownership tags of an instance.
func ownerOf(i types.Instance) resources.OwnerTags {
	return drivers.OwnerOf(tagMap(i.Tags), drivers.OfServer, aws.ToString(i.InstanceId), aws.ToString(i.ClientToken))
}

// withObject returns the tags of a call, with drivers.TagObject for the objects of one type.
func withObject(all []types.TagSpecification, of types.ResourceType, name string) []types.TagSpecification {
	all = slices.Clone(all)
	for n := range all {
		if all[n].ResourceType == of {
			all[n].Tags = append(slices.Clip(all[n].Tags), types.Tag{Key: aws.String(drivers.TagObject), Value: aws.String(name)})
		}
	}
	return all
}

// tagFilter selects objects with these ownership tags, which may be copies: drivers.OwnerOf decides.
func tagFilter(m resources.OwnerTags) []types.Filter {
	return []types.Filter{filter("tag:"+tagInstallation, m.Installation), filter("tag:"+drivers.TagOfID(m.Kind), m.ID)}
}

// ownedFilter selects objects with ownership tags of any npctl installation.
func ownedFilter() []types.Filter { return []types.Filter{filter("tag-key", tagInstallation)} }

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// userTags returns the tags without those that npctl sets.
func userTags(values map[string]string) map[string]string {
	values = cloudkit.UserTags(values)
	delete(values, tagName)
	return values
}

// validateTags rejects tags that EC2 would reject, before anything is created.
func validateTags(values map[string]string) error {
	if len(values) > maxTags {
		return fmt.Errorf("%w: %d tags: EC2 accepts %d; remove some", drivers.ErrRejected, len(values), maxTags)
	}
	for key, value := range values {
		if key == "" || len(key) > maxTagKey || len(value) > maxTagValue {
			return fmt.Errorf("%w: tag %.40q: npctl accepts names of 1 to %d and values of at most %d bytes; shorten it", drivers.ErrRejected, key, maxTagKey, maxTagValue)
		}
	}
	return nil
}
