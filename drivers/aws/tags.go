package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// The ownership tags of EC2 objects:
//
//   - npctl_installation, npctl_provider, npctl_pool, npctl_label, npctl_image, npctl_build, npctl_hash, and one of
//     npctl_node_id, npctl_upload_id and npctl_build_id;
//   - instances, their volumes and network interfaces get them in the call that creates the instance;
//   - snapshots, AMIs, launch templates and dedicated hosts get them in the calls that create them.
//
// Further tags: npctl_interface, npctl_volume and npctl_launch_template of instances, and npctl_format, npctl_size and npctl_sha256 of images.
const (
	tagPrefix = "npctl_"
	tagName   = "Name"

	tagInstallation = tagPrefix + "installation"
	tagNodeID       = tagPrefix + "node_id"
	tagUploadID     = tagPrefix + "upload_id"
	tagBuildID      = tagPrefix + "build_id"
	tagInterface    = tagPrefix + "interface"
	tagVolume       = tagPrefix + "volume"
	tagTemplate     = tagPrefix + "launch_template"
	tagFormat       = tagPrefix + "format"
	tagSize         = tagPrefix + "size"
	tagSHA256       = tagPrefix + "sha256"
)

// markFields maps the names of the ownership tags that have the same format everywhere to their fields.
func markFields(m *resources.OwnerTags) map[string]*string {
	return map[string]*string{
		"installation": &m.Installation,
		"provider":     &m.Provider,
		"pool":         &m.Pool,
		"label":        &m.Label,
		"image":        &m.Image,
		"build":        &m.Build,
		"hash":         (*string)(&m.Hash),
	}
}

// ownerTags encodes ownership tags.
func ownerTags(m resources.OwnerTags) map[string]string {
	values := map[string]string{tagOfID(m.Kind): m.ID}
	for name, value := range markFields(&m) {
		if *value != "" {
			values[tagPrefix+name] = *value
		}
	}
	return values
}

func tagOfID(kind resources.Kind) string {
	switch kind {
	case resources.KindUpload:
		return tagUploadID
	case resources.KindBuild:
		return tagBuildID
	default:
		return tagNodeID
	}
}

// marksOf decodes ownership tags; it returns zero tags without an installation.
func marksOf(values map[string]string) resources.OwnerTags {
	if values[tagInstallation] == "" {
		return resources.OwnerTags{}
	}
	var m resources.OwnerTags
	for name, value := range markFields(&m) {
		*value = values[tagPrefix+name]
	}
	for _, kind := range []resources.Kind{resources.KindBuild, resources.KindUpload, resources.KindNode} {
		if id := values[tagOfID(kind)]; id != "" {
			m.Kind, m.ID = kind, id
			return m
		}
	}
	m.Kind = resources.KindNode
	return m
}

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

// tagFilter selects objects with these ownership tags.
func tagFilter(m resources.OwnerTags) []types.Filter {
	return []types.Filter{filter("tag:"+tagInstallation, m.Installation), filter("tag:"+tagOfID(m.Kind), m.ID)}
}

// ownedFilter selects objects with ownership tags of any npctl installation.
func ownedFilter() []types.Filter { return []types.Filter{filter("tag-key", tagInstallation)} }

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// userTags returns the tags without npctl's own.
func userTags(values map[string]string) map[string]string {
	result := map[string]string{}
	for key, value := range values {
		if !strings.HasPrefix(key, tagPrefix) && key != tagName {
			result[key] = value
		}
	}
	return result
}

// cutTag shortens a value that a request determines, so that its size fails no launch.
func cutTag(value string) string {
	value = strings.ToValidUTF8(value, "\uFFFD")
	if len(value) <= maxTagValue {
		return value
	}
	return strings.ToValidUTF8(value[:maxTagValue], "")
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

// checkMarks returns ErrNotOurs unless an object has the expected ownership tags.
func checkMarks(kind, id string, found, expected resources.OwnerTags) error {
	if found.SameRecord(expected) {
		return nil
	}
	return fmt.Errorf("delete %s %s: %w: it has %s, expected %s; npctl does not delete it", kind, id, drivers.ErrNotOurs, describe(found), describe(expected))
}

func describe(m resources.OwnerTags) string {
	if m.Installation == "" {
		return "no ownership tags"
	}
	return fmt.Sprintf("the ownership tags of %s %s of installation %s", m.Kind, m.ID, m.Installation)
}
