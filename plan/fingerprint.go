package plan

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/npctl/npctl/resources"
)

// Fingerprint is a digest of a record or file that a step relies on. A saved plan with a changed fingerprint is
// stale. The digest covers the content of records and files, not their revision or path, so a copy of the state has
// the same fingerprints.
type Fingerprint struct {
	Subject string `json:"subject"` // such as node/0000000001 or provider.vexxhost/server/4f1c…
	Digest  string `json:"digest"`
}

// noRecord is the digest of a record that does not exist.
const noRecord = "none"

// Attributes are the attributes of a record, as JSON by name.
type Attributes map[string]string

// volatile lists attributes that change without any effect on a step.
var volatile = map[resources.Kind][]string{
	resources.KindNode: {"checked", "lease"},
}

// AttributesOf returns the attributes of a record, or nil without one.
func AttributesOf(record resources.Record) Attributes {
	if record == nil {
		return nil
	}
	text, err := json.Marshal(record)
	if err != nil {
		panic("plan: attributes of " + record.Key().String() + ": " + err.Error())
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		panic("plan: attributes of " + record.Key().String() + ": " + err.Error())
	}
	for _, name := range volatile[record.Key().Kind] {
		delete(raw, name)
	}
	attributes := make(Attributes, len(raw))
	for name, value := range raw {
		attributes[name] = string(value)
	}
	return attributes
}

// Digest returns the digest of the attributes in a Fingerprint.
func (a Attributes) Digest() string {
	if a == nil {
		return noRecord
	}
	parts := make([]string, 0, 2*len(a))
	for _, name := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, name, a[name])
	}
	return digest(parts...)
}

func (w *world) fingerprint(key resources.Key) Fingerprint {
	return Fingerprint{Subject: key.String(), Digest: AttributesOf(w.seen.Records.Get(key)).Digest()}
}
