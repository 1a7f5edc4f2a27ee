package schema

import "strings"

// Nodepool has the keys of Nodepool's driver of the same name with their counterparts, in one table for each mapping of
// nodepool.yaml. `npctl convert` translates by the tables, in their order, and compares its result by them. The keys that
// all drivers have are not in them: name, driver, pools, labels, nodes, images, priority, max-concurrency and node-attributes.
type Nodepool struct {
	Guide      string // heading of the driver in docs/coming-from-nodepool.md, as an anchor
	Provider   []NodepoolKey
	Image      []NodepoolKey // of an element of diskimages of the provider
	CloudImage []NodepoolKey
	Pool       []NodepoolKey
	Label      []NodepoolKey
	Node       []NodepoolKey // of a static machine
	// Project is an attribute of the provider: each pool of Nodepool becomes a provider with its name in this attribute.
	Project string
	// LoadsUnserved says that Nodepool loads labels whose diskimage is not in the provider, and does not serve them. The other
	// drivers refuse the file.
	LoadsUnserved bool
}

// NodepoolKey is a key of a mapping with its counterpart.
type NodepoolKey struct {
	// Key is the name. "fleet.instance-types" is a key of the mapping fleet.
	Key string
	// Attr is the counterpart, in the block of npctl that stands for the mapping. Its schema decides on the form of the value:
	// seconds become a duration, one text becomes a list. "filters.family" is an element of a map, "object_storage.bucket" an
	// attribute of a nested block. If several keys have one counterpart, the first key with a value counts; all keys of a map
	// add elements. Without Attr and Note, the key is a part of a Text.
	Attr string
	// For is "pool" for a key of a provider that is the default of its pools, and "label" for a key of an image that is an
	// attribute of the labels that use the image.
	For string
	// Default is Nodepool's default, as in YAML, or NpctlDefault if Nodepool has none and that of npctl serves.
	Default string
	// DefaultWith limits Default to providers with this key.
	DefaultWith string
	// Form is the form of the value in nodepool.yaml if it is not that of the attribute.
	Form NodepoolForm
	// Text is the text of the attribute, with keys in braces: those of the value, or those beside the key.
	Text string
	// Words are the texts that stand for false and true.
	Words []string
	// Partial says that npctl has some of the values only: OneOf of the attribute.
	Partial bool
	// Note is for the report: the difference in meaning, or the reason why the key has no counterpart.
	Note string
	// Changed says that npctl behaves differently. A key without Attr has no effect if it is false.
	Changed bool
	// Guide overrides that of the driver.
	Guide string
}

// NpctlDefault stands for the default of npctl.
const NpctlDefault = "npctl"

// NodepoolForm is the form of a value in nodepool.yaml.
type NodepoolForm int

// The forms.
const (
	// AsAttribute is the form of the attribute.
	AsAttribute NodepoolForm = iota
	// AsJSON is any value for a text with JSON.
	AsJSON
	// AsInverse is a number of seconds between calls for a number of calls per second.
	AsInverse
	// AsNamed is a list of mappings with a name and a value, or values, for a map.
	AsNamed
	// AsNested is a mapping of mappings for a map with keys such as outer.inner_name.
	AsNested
	// AsLabels are names of labels: one text, or a list, or a text with blanks for a list.
	AsLabels
)

// SameNodepoolKeys returns keys with counterparts of the same name, with underscores.
func SameNodepoolKeys(keys ...string) []NodepoolKey {
	var same []NodepoolKey
	for _, key := range keys {
		same = append(same, NodepoolKey{Key: key, Attr: underscored(key)})
	}
	return same
}

func underscored(key string) string { return strings.ReplaceAll(key, "-", "_") }
