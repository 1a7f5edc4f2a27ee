package ibmvpc

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// The VPC API cannot tag instances, floating IPs and images when it creates them, and the tags of its tagging service come
// later and need a call for each object. Names come with the creation, are unique in the region, and every list has them.
// So the name of each object that npctl creates says which record owns it:
//
//	npctl-KIND-ID-INSTALLATION
//
//   - KIND is n for an instance with its boot volume and floating IP, u for an image with its objects in the bucket.
//   - A second creation with the same name fails, which makes creations idempotent.
//
// The other ownership tags are no proof of ownership. Those of an instance are user tags of its boot volume, npctl_NAME:VALUE,
// which come with the creation too. Those of an image are in the key of an object in the bucket (see imageMeta).

const (
	namePrefix = "npctl-"
	maxName    = 63
)

// kindLetters are the parts of names that stand for kinds.
var kindLetters = map[resources.Kind]string{resources.KindNode: "n", resources.KindUpload: "u", resources.KindBuild: "b"}

var ownedName = drivers.Pattern(`^` + namePrefix + `([nub])-([a-z0-9]+)-([a-z0-9]|[a-z0-9][-a-z0-9]*[a-z0-9])$`)

// objectName returns the name of the objects of a record.
func objectName(m resources.OwnerTags) (string, error) {
	name := namePrefix + kindLetters[m.Kind] + "-" + m.ID + "-" + m.Installation
	if len(name) > maxName || !ownedName().MatchString(name) || strings.Contains(m.ID, "-") {
		return "", drivers.Rejectf("%q is no name of an object in a VPC, which has up to %d lower-case letters, digits and hyphens", name, maxName)
	}
	return name, nil
}

// recordOf returns the ownership tags in a name: installation, kind and ID. They are zero for the objects of others.
func recordOf(name string) resources.OwnerTags {
	parts := ownedName().FindStringSubmatch(name)
	if parts == nil {
		return resources.OwnerTags{}
	}
	m := resources.OwnerTags{ID: parts[2], Installation: parts[3]}
	for kind, letter := range kindLetters {
		if letter == parts[1] {
			m.Kind = kind
		}
	}
	return m
}

// checkMarks returns ErrNotOurs unless a name is that of the record, and the record has objects of the type.
func checkMarks(of drivers.ObjectType, what, id, name string, expected resources.OwnerTags) error {
	found := drivers.OnlyOf(of, recordOf(name))
	if found.SameRecord(expected) && expected.Installation != "" {
		return nil
	}
	return fmt.Errorf("delete %s %s: %w: its name %s is not that of %s %s of installation %s; npctl does not delete it",
		what, id, drivers.ErrNotOurs, name, expected.Kind, expected.ID, expected.Installation)
}

const (
	tagPrefix = "npctl_"
	tagName   = tagPrefix + "name" // the host name
	maxTag    = 128
)

// markFields maps the names of the ownership tags that describe an object to their fields.
func markFields(m *resources.OwnerTags) map[string]*string {
	return map[string]*string{
		"provider": &m.Provider, "pool": &m.Pool, "label": &m.Label, "image": &m.Image, "build": &m.Build, "hash": (*string)(&m.Hash),
	}
}

// instanceTags returns the user tags of a boot volume.
func instanceTags(spec drivers.Spec, s labelSettings) ([]string, error) {
	user := map[string]string{}
	for _, values := range []map[string]string{s.Tags, spec.Properties} {
		maps.Copy(user, values)
	}
	var tags []string
	for name, value := range user {
		tags = append(tags, userTag(name, value))
	}
	marks := spec.Marks
	own := markFields(&marks)
	own["name"] = &spec.Hostname
	for name, value := range own {
		if *value == "" {
			continue
		}
		tag := tagPrefix + name + ":" + escapeTag(*value)
		if len(tag) > maxTag {
			return nil, drivers.Rejectf("tag %s is longer than %d characters; choose a shorter %s", tag, maxTag, name)
		}
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// readTags returns the ownership tags of an object with the given name and user tags, and its host name.
func readTags(name string, tags []string) (resources.OwnerTags, string) {
	m := recordOf(name)
	if m.Installation == "" {
		return m, name
	}
	hostname := name
	fields := markFields(&m)
	for _, tag := range tags {
		key, value, _ := strings.Cut(tag, ":")
		if key == tagName {
			hostname = unescapeTag(value)
		} else if field := fields[strings.TrimPrefix(key, tagPrefix)]; field != nil && strings.HasPrefix(key, tagPrefix) {
			*field = unescapeTag(value)
		}
	}
	return m, hostname
}

// User tags are case-insensitive and have few characters.
var (
	escapedCharacters  = drivers.Pattern(`[^a-z0-9_: -]`)
	escapes            = drivers.Pattern(`\.[0-9a-f]{2}`)
	otherTagCharacters = drivers.Pattern(`[^A-Za-z0-9_:. -]`)
)

// escapeTag writes other bytes as a period and two digits.
func escapeTag(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if one := value[i : i+1]; escapedCharacters().MatchString(one) {
			b.WriteString("." + hex.EncodeToString([]byte(one)))
		} else {
			b.WriteString(one)
		}
	}
	return b.String()
}

func unescapeTag(value string) string {
	return escapes().ReplaceAllStringFunc(value, func(s string) string {
		b, _ := hex.DecodeString(s[1:])
		return string(b)
	})
}

// userTag is a tag of the configuration or of a request. A value that a request determines must not fail a launch.
func userTag(name, value string) string {
	tag := otherTagCharacters().ReplaceAllString(name+":"+value, "_")
	return strings.TrimSpace(tag[:min(len(tag), maxTag)])
}
