package plan

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// changes returns the differences between replacing attributes and those behind a recorded hash.
func (w *world) changes(recorded resources.Hash, now map[string]string) []Change {
	template := w.template(recorded)
	if template == nil {
		return nil
	}
	before := template.Static
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range now {
		names[name] = true
	}
	var changes []Change
	for name := range names {
		if before[name] != now[name] {
			changes = append(changes, Change{Attribute: name, Before: before[name], After: now[name], Forces: true})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Attribute, b.Attribute) })
	return changes
}

// template returns the template of a recorded hash, or nil.
func (w *world) template(recorded resources.Hash) *resources.Template {
	i := slices.IndexFunc(w.seen.Records.Templates, func(t *resources.Template) bool { return t.Hash == recorded })
	if i < 0 {
		return nil
	}
	return w.seen.Records.Templates[i]
}

// changedFiles lists the input files that differ from those behind a recorded hash, by path. It returns nil if one
// side has no list.
func (w *world) changedFiles(recorded resources.Hash, now map[string]string) (changes []FileChange) {
	template := w.template(recorded)
	if template == nil || template.Files == nil || now == nil {
		return nil
	}
	for path, digest := range now {
		switch before, known := template.Files[path]; {
		case !known:
			changes = append(changes, FileChange{path, FileAdded})
		case before != digest:
			changes = append(changes, FileChange{path, FileChanged})
		}
	}
	for path := range template.Files {
		if _, still := now[path]; !still {
			changes = append(changes, FileChange{path, FileRemoved})
		}
	}
	slices.SortFunc(changes, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return changes
}
