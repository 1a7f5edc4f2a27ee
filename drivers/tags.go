package drivers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// The keys of ownership tags in clouds that store key-value pairs: npctl_installation, npctl_provider, npctl_pool, npctl_label,
// npctl_image, npctl_build, npctl_hash, the ID of the record as one of npctl_node_id, npctl_upload_id and npctl_build_id, and
// npctl_object where the cloud can copy tags.
const (
	TagPrefix       = "npctl_"
	TagInstallation = TagPrefix + "installation"
	TagNodeID       = TagPrefix + "node_id"
	TagUploadID     = TagPrefix + "upload_id"
	TagBuildID      = TagPrefix + "build_id"

	// TagObject names the objects to which npctl itself gave ownership tags, see OwnerOf.
	TagObject = TagPrefix + "object"
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

// ObjectType is a group of types of objects that belong to records of the same kinds.
type ObjectType int

// The types of objects.
const (
	OfServer ObjectType = iota // of a node or a build: a server, or an object that is created with it, such as a volume
	OfImage                    // of an upload or a build: an image, or an object that is created for it, such as a snapshot
	OfAny                      // a volume in a cloud where uploads also have volumes
)

// fits reports whether records of the kind have objects of the type.
func (t ObjectType) fits(kind resources.Kind) bool {
	switch kind {
	case resources.KindNode:
		return t != OfImage
	case resources.KindUpload:
		return t != OfServer
	default:
		return true
	}
}

// OwnerOf decodes the ownership tags of an object. Backup tools and clouds copy tags to other objects, which are not npctl's: the
// result is zero for an object of another type than the record has, and for an object that TagObject does not name. TagObject is
// a list of names, separated by spaces. ids are the names of the object: its ID, and attributes that no copy has, such as the
// client token of the call that created it. Objects without TagObject are those of older versions of npctl.
func OwnerOf(values map[string]string, of ObjectType, ids ...string) resources.OwnerTags {
	named := strings.Fields(values[TagObject])
	if len(named) > 0 && !slices.ContainsFunc(named, func(name string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return strings.EqualFold(id, name) })
	}) {
		return resources.OwnerTags{}
	}
	return OnlyOf(of, DecodeTags(values))
}

// OnlyOf returns the ownership tags of an object, or zero ones if the record has no objects of its type.
func OnlyOf(of ObjectType, m resources.OwnerTags) resources.OwnerTags {
	if !of.fits(m.Kind) {
		return resources.OwnerTags{}
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
