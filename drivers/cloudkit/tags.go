package cloudkit

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// The names of tags that describe an object of npctl, besides its ownership tags.
const (
	TagInterface = drivers.TagPrefix + "interface" // of a server: PrivateInterface
	TagFormat    = drivers.TagPrefix + "format"    // of an image
	TagSize      = drivers.TagPrefix + "size"      // of an image: bytes
	TagSHA256    = drivers.TagPrefix + "sha256"    // of an image
)

// PrivateInterface is the value of TagInterface for servers that npctl connects to at their private address.
const PrivateInterface = "private"

// ConnectTo returns the address of a server to which npctl connects; choice is the value of TagInterface.
func ConnectTo(a resources.Addresses, choice string) string {
	if choice == PrivateInterface {
		return cmp.Or(a.PrivateIPv4, a.PublicIPv6, a.PublicIPv4)
	}
	return cmp.Or(a.PublicIPv4, a.PublicIPv6, a.PrivateIPv4)
}

// ServerTags returns the tags of a server: the user's, those of the request, and npctl's, which override the others. private selects
// the PrivateInterface, limit is the maximum length of a value.
func ServerTags(spec drivers.Spec, user map[string]string, private bool, limit int) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, user)
	for key, value := range spec.Properties {
		tags[key] = CutValue(value, limit)
	}
	if private {
		tags[TagInterface] = PrivateInterface
	}
	maps.Copy(tags, drivers.EncodeTags(spec.Marks))
	return tags
}

// ImageTags returns the tags of an image: the user's, overridden by npctl's. A tag of the language is a tag without a value.
func ImageTags(spec drivers.ImageSpec, format string) map[string]string {
	tags := map[string]string{}
	for _, name := range spec.Tags {
		tags[name] = ""
	}
	maps.Copy(tags, spec.Properties)
	maps.Copy(tags, drivers.EncodeTags(spec.Marks))
	tags[TagFormat], tags[TagSize] = format, strconv.FormatInt(spec.Size, 10)
	if spec.SHA256 != "" {
		tags[TagSHA256] = spec.SHA256
	}
	return tags
}

// UserTags returns the tags without npctl's own.
func UserTags(values map[string]string) map[string]string {
	values = maps.Clone(values)
	maps.DeleteFunc(values, func(key, _ string) bool { return strings.HasPrefix(key, drivers.TagPrefix) })
	return values
}

// CutValue shortens the value of a tag that a request determines, so that its size fails no launch.
func CutValue(value string, limit int) string {
	value = strings.ToValidUTF8(value, "\uFFFD")
	if len(value) <= limit {
		return value
	}
	return strings.ToValidUTF8(value[:limit], "")
}
