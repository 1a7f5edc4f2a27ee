package azure

import (
	"fmt"
	"maps"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// The ownership tags of Azure's objects:
//
//   - npctl_installation, npctl_provider, npctl_pool, npctl_label, npctl_image, npctl_build, npctl_hash, and one of
//     npctl_node_id, npctl_upload_id and npctl_build_id;
//   - virtual machines, their network interfaces and public addresses get them in the call that creates the machine;
//   - Azure creates OS disks without tags: Advance copies those of the machine;
//   - the disks of uploads and images get them in the calls that create them;
//   - npctl_object (drivers.TagObject) is the name of the object, which is unique in the resource group.
//
// Further tags: npctl_name of all objects, npctl_interface and npctl_tag_disk of virtual machines, and npctl_format,
// npctl_size, npctl_sha256 and npctl_created of images.
const (
	tagPrefix = drivers.TagPrefix

	tagInstallation = drivers.TagInstallation
	tagName         = tagPrefix + "name"
	tagTagDisk      = tagPrefix + "tag_disk" // the OS disk gets the tags of the machine
	tagCreated      = tagPrefix + "created"
)

// describing are npctl's tags that do not name the owner of an object.
var describing = map[string]bool{tagName: true, cloudkit.TagInterface: true, cloudkit.TagFormat: true, cloudkit.TagSize: true, cloudkit.TagSHA256: true, tagCreated: true}

// ownerOf returns the ownership tags of an object.
func ownerOf(tags map[string]string, of drivers.ObjectType, name *string) resources.OwnerTags {
	return drivers.OwnerOf(tags, of, deref(name))
}

// withObject returns tags that name their object.
func withObject(tags map[string]string, name string) map[string]string {
	tags = maps.Clone(tags)
	tags[drivers.TagObject] = name
	return tags
}

// tagMap converts the SDK's tags.
func tagMap(tags map[string]*string) map[string]string {
	values := make(map[string]string, len(tags))
	for key, value := range tags {
		values[key] = deref(value)
	}
	return values
}

// pointers is the reverse of tagMap.
func pointers(values map[string]string) map[string]*string {
	tags := make(map[string]*string, len(values))
	for key, value := range values {
		tags[key] = &value
	}
	return tags
}

// deref returns the value of a pointer, or the zero value.
func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// validateTags rejects tags that Azure would reject, before anything is created.
func validateTags(values map[string]string) error {
	if len(values) > maxTags {
		return fmt.Errorf("%w: %d tags: Azure accepts %d; remove some", drivers.ErrRejected, len(values), maxTags)
	}
	for key, value := range values {
		if key == "" || len(key) > maxTagKey || len(value) > maxTagValue || strings.ContainsAny(key, notInTags) {
			return fmt.Errorf("%w: tag %.40q: npctl accepts names of 1 to %d bytes without %s and values of at most %d bytes; change it", drivers.ErrRejected, key, maxTagKey, notInTags, maxTagValue)
		}
	}
	return nil
}
