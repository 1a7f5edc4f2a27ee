package drivers

import (
	"fmt"

	"github.com/npctl/npctl/resources"
)

// The keys of ownership tags in clouds that store key-value pairs: npctl_installation, npctl_provider, npctl_pool, npctl_label,
// npctl_image, npctl_build, npctl_hash, and the ID of the record as one of npctl_node_id, npctl_upload_id and npctl_build_id.
const (
	TagPrefix       = "npctl_"
	TagInstallation = TagPrefix + "installation"
	TagNodeID       = TagPrefix + "node_id"
	TagUploadID     = TagPrefix + "upload_id"
	TagBuildID      = TagPrefix + "build_id"
)

// TagOfID returns the key of the ID of a record.
func TagOfID(kind resources.Kind) string {
	switch kind {
	case resources.KindUpload:
		return TagUploadID
	case resources.KindBuild:
		return TagBuildID
	default:
		return TagNodeID
	}
}

// tagFields maps the keys of the ownership tags, but for the ID, to their fields.
func tagFields(m *resources.OwnerTags) map[string]*string {
	return map[string]*string{
		TagInstallation:        &m.Installation,
		TagPrefix + "provider": &m.Provider,
		TagPrefix + "pool":     &m.Pool,
		TagPrefix + "label":    &m.Label,
		TagPrefix + "image":    &m.Image,
		TagPrefix + "build":    &m.Build,
		TagPrefix + "hash":     (*string)(&m.Hash),
	}
}

// TagKeys returns the keys of all ownership tags, but for the ID.
func TagKeys() (keys []string) {
	for key := range tagFields(&resources.OwnerTags{}) {
		keys = append(keys, key)
	}
	return keys
}

// EncodeTags returns ownership tags as key-value pairs, without empty values.
func EncodeTags(m resources.OwnerTags) map[string]string {
	values := map[string]string{TagOfID(m.Kind): m.ID}
	for key, value := range tagFields(&m) {
		if *value != "" {
			values[key] = *value
		}
	}
	return values
}

// DecodeTags is the reverse of EncodeTags. It ignores other keys, and returns zero tags without an installation.
func DecodeTags(values map[string]string) resources.OwnerTags {
	if values[TagInstallation] == "" {
		return resources.OwnerTags{}
	}
	m := resources.OwnerTags{Kind: resources.KindNode}
	for key, value := range tagFields(&m) {
		*value = values[key]
	}
	for _, kind := range []resources.Kind{resources.KindBuild, resources.KindUpload, resources.KindNode} {
		if id := values[TagOfID(kind)]; id != "" {
			m.Kind, m.ID = kind, id
			break
		}
	}
	return m
}

// CheckOwner returns ErrNotOurs unless an object has the expected ownership tags.
func CheckOwner(kind, id string, found, expected resources.OwnerTags) error {
	if found.SameRecord(expected) {
		return nil
	}
	return fmt.Errorf("delete %s %s: %w: it has %s, expected %s; npctl does not delete it", kind, id, ErrNotOurs, DescribeOwner(found), DescribeOwner(expected))
}

// DescribeOwner returns ownership tags as words of an error.
func DescribeOwner(m resources.OwnerTags) string {
	if m.Installation == "" {
		return "no ownership tags"
	}
	return fmt.Sprintf("the ownership tags of %s %s of installation %s", m.Kind, m.ID, m.Installation)
}
