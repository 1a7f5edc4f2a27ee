package openstack

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// suggestions returns at most five names that are similar to name, the most similar first: similar spellings, then
// names that contain name or are contained in it.
func suggestions(name string, names []string) []string {
	const most = 5
	low := strings.ToLower(name)
	var around []string
	for _, n := range names {
		if other := strings.ToLower(n); low != "" && n != "" && (strings.Contains(other, low) || strings.Contains(low, other)) {
			around = append(around, n)
		}
	}
	slices.Sort(around)
	result := text.Near(name, names)
	for _, n := range around {
		if !slices.Contains(result, n) {
			result = append(result, n)
		}
	}
	return result[:min(len(result), most)]
}

// suggestionText returns the end of an error about an unknown name.
func suggestionText(name string, names []string) string {
	if n := suggestions(name, names); len(n) > 0 {
		return "; did you mean " + strings.Join(n, ", ") + "?"
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	sorted = slices.DeleteFunc(slices.Compact(sorted), func(s string) bool { return s == "" })
	switch {
	case len(sorted) == 0:
		return ""
	case len(sorted) > 10:
		return "; there are " + strings.Join(sorted[:10], ", ") + ", …"
	default:
		return "; there are " + strings.Join(sorted, ", ")
	}
}
