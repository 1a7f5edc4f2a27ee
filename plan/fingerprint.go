package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// attributesOf returns nil without a record.
func attributesOf(record resources.Record) Attributes {
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

func (a Attributes) digest() string {
	if a == nil {
		return noRecord
	}
	parts := make([]string, 0, 2*len(a))
	for _, name := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, name, a[name])
	}
	return digest(parts...)
}

// differences describes the attributes that differ.
func (a Attributes) differences(now Attributes) []string {
	names := map[string]bool{}
	for _, from := range []Attributes{a, now} {
		for name := range from {
			names[name] = true
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] != now[name] {
			all = append(all, fmt.Sprintf("%s was %s, is now %s", name, staleValue(a[name]), staleValue(now[name])))
		}
	}
	return all
}

func (c *computation) fingerprint(key resources.Key) Fingerprint {
	return Fingerprint{Subject: key.String(), Digest: attributesOf(c.seen.Records.Get(key)).digest()}
}

// Reviewed returns the attributes of the records that the steps of a plan rely on, by subject.
func Reviewed(p Plan, r *Records) map[string]Attributes {
	all := map[string]Attributes{}
	for i := range p.Steps {
		for _, f := range p.Steps[i].Preconditions {
			if _, done := all[f.Subject]; done {
				continue
			}
			if attributes := attributesOf(r.Get(keyOf(f.Subject))); attributes != nil {
				all[f.Subject] = attributes
			}
		}
	}
	return all
}

// keyOf returns the key of the record that is the subject of a fingerprint, or a zero key for other subjects.
func keyOf(subject string) resources.Key {
	kind, id, _ := strings.Cut(subject, "/")
	if resources.NewRecord(resources.Kind(kind)) == nil {
		return resources.Key{}
	}
	return resources.Key{Kind: resources.Kind(kind), ID: id}
}
