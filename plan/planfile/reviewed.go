package planfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// Reviewed returns the attributes of the records that the steps of a plan rely on, by subject.
func Reviewed(p plan.Plan, r *plan.Records) map[string]plan.Attributes {
	all := map[string]plan.Attributes{}
	for i := range p.Steps {
		for _, f := range p.Steps[i].Preconditions {
			if _, done := all[f.Subject]; done {
				continue
			}
			if attributes := plan.AttributesOf(r.Get(keyOf(f.Subject))); attributes != nil {
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

// attributeDifferences describes the attributes that differ.
func attributeDifferences(saved, now plan.Attributes) []string {
	names := map[string]bool{}
	for _, from := range []plan.Attributes{saved, now} {
		for name := range from {
			names[name] = true
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if saved[name] != now[name] {
			all = append(all, fmt.Sprintf("%s was %s, is now %s", name, valueText(saved[name]), valueText(now[name])))
		}
	}
	return all
}
