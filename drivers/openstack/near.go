package openstack

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// near returns the names, at most five, that somebody who wrote name may have meant, the likeliest first: those that are
// spelled alike, and then those that have the name in them, or are in it.
func near(name string, names []string) []string {
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

// meant is the tail of an error about a name that does not exist.
func meant(name string, names []string) string {
	if n := near(name, names); len(n) > 0 {
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
