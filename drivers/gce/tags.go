package gce

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// The ownership labels of instances and their boot disks:
//
//   - npctl_installation, npctl_provider, npctl_pool, npctl_label, npctl_image, npctl_build, npctl_hash, and npctl_node_id;
//
//   - instances and disks get them in the call that creates the instance;
//
//   - Google accepts lower-case letters, digits, hyphens and underscores only: an underscore with two hexadecimal digits
//     stands for any other byte. Values of more than 63 characters are cut, except those that identify the record, for
//     which npctl creates nothing.
//
//   - npctl_object (drivers.TagObject) is the zone and the name.
//
// A further label of instances is npctl_interface.
const (
	tagPrefix       = drivers.TagPrefix
	tagInstallation = drivers.TagInstallation
)

// ownerLabels encodes ownership labels.
func ownerLabels(m resources.OwnerTags) (map[string]string, error) {
	values := drivers.EncodeTags(m)
	for key, value := range values {
		label := encode(value)
		if len(label) > maxLabelValue && (key == tagInstallation || key == drivers.TagOfID(m.Kind)) {
			return nil, drivers.Rejectf("the label of installation %s or ID %s would have more than %d characters", m.Installation, m.ID, maxLabelValue)
		}
		values[key] = cutLabel(label)
	}
	return values, nil
}

// marksOf decodes the ownership labels of an instance or a disk; it returns zero tags without an installation, and for copies.
func marksOf(labels map[string]string, at place) resources.OwnerTags {
	values := map[string]string{}
	for key, value := range labels {
		if strings.HasPrefix(key, drivers.TagPrefix) && key != drivers.TagObject {
			values[key] = decodeLabel(value)
		}
	}
	if label := labels[drivers.TagObject]; label != "" {
		values[drivers.TagObject] = label
	}
	return drivers.OwnerOf(values, drivers.OfServer, objectLabel(at))
}

// objectLabel is the value of drivers.TagObject of an instance and of its boot disk, which has the same name.
func objectLabel(at place) string { return cutLabel(encode(at.String())) }

// encode replaces bytes that labels cannot contain.
func encode(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// decodeLabel is the reverse of encode. It drops the rest of an escape that cutLabel cut.
func decodeLabel(label string) string {
	var b strings.Builder
	for label != "" {
		plain, escaped, found := strings.Cut(label, "_")
		b.WriteString(plain)
		if !found || len(escaped) < 2 {
			break
		}
		if c, err := hex.DecodeString(escaped[:2]); err == nil {
			b.Write(c)
		}
		label = escaped[2:]
	}
	return b.String()
}

func cutLabel(value string) string { return value[:min(len(value), maxLabelValue)] }

// sanitize makes a label of a value that a request determines, so that no value fails a launch.
func sanitize(value string) string {
	return cutLabel(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, strings.ToLower(value)))
}

// labelFilter selects objects with these ownership labels.
func labelFilter(m resources.OwnerTags) string {
	return fmt.Sprintf("(labels.%s = %q) (labels.%s = %q)", tagInstallation, encode(m.Installation), drivers.TagOfID(m.Kind), encode(m.ID))
}

// ownedFilter selects objects with ownership labels of any npctl installation.
const ownedFilter = "labels." + tagInstallation + ":*"
