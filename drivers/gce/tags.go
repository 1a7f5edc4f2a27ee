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
//   - instances and disks get them in the call that creates the instance;
//   - Google accepts lower-case letters, digits, hyphens and underscores only: an underscore with two hexadecimal digits
//     stands for any other byte. Values of more than 63 characters are cut, except those that identify the record, for
//     which npctl creates nothing.
//
// A further label of instances is npctl_interface.
const (
	tagPrefix       = "npctl_"
	tagInstallation = tagPrefix + "installation"
	tagNodeID       = tagPrefix + "node_id"
	tagUploadID     = tagPrefix + "upload_id"
	tagBuildID      = tagPrefix + "build_id"
	tagInterface    = tagPrefix + "interface"
)

// markFields maps the names of the ownership labels that have the same format everywhere to their fields.
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

// ownerLabels encodes ownership labels.
func ownerLabels(m resources.OwnerTags) (map[string]string, error) {
	values := map[string]string{}
	for name, value := range markFields(&m) {
		if *value != "" {
			values[tagPrefix+name] = cutLabel(encode(*value))
		}
	}
	id, installation := encode(m.ID), encode(m.Installation)
	if len(id) > maxLabelValue || len(installation) > maxLabelValue {
		return nil, unsentError{fmt.Errorf("%w: the label of installation %s or ID %s would have more than %d characters", drivers.ErrRejected, m.Installation, m.ID, maxLabelValue)}
	}
	values[tagOfID(m.Kind)] = id
	return values, nil
}

// marksOf decodes ownership labels; it returns zero tags without an installation.
func marksOf(labels map[string]string) resources.OwnerTags {
	if labels[tagInstallation] == "" {
		return resources.OwnerTags{}
	}
	var m resources.OwnerTags
	for name, value := range markFields(&m) {
		*value = decodeLabel(labels[tagPrefix+name])
	}
	for _, kind := range []resources.Kind{resources.KindBuild, resources.KindUpload, resources.KindNode} {
		if id := labels[tagOfID(kind)]; id != "" {
			m.Kind, m.ID = kind, decodeLabel(id)
			return m
		}
	}
	m.Kind = resources.KindNode
	return m
}

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
	return fmt.Sprintf("(labels.%s = %q) (labels.%s = %q)", tagInstallation, encode(m.Installation), tagOfID(m.Kind), encode(m.ID))
}

// ownedFilter selects objects with ownership labels of any npctl installation.
const ownedFilter = "labels." + tagInstallation + ":*"

// checkMarks returns ErrNotOurs unless an object has the expected ownership labels.
func checkMarks(kind string, at place, found, expected resources.OwnerTags) error {
	if found.SameRecord(expected) {
		return nil
	}
	return fmt.Errorf("delete %s %s: %w: it has %s, expected %s; npctl does not delete it", kind, at, drivers.ErrNotOurs, describe(found), describe(expected))
}

func describe(m resources.OwnerTags) string {
	if m.Installation == "" {
		return "no ownership labels"
	}
	return fmt.Sprintf("the ownership labels of %s %s of installation %s", m.Kind, m.ID, m.Installation)
}
