package openstack

import (
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
)

// suggestionText returns the end of an error about an unknown name.
func suggestionText(name string, names []string) string {
	if n := drivers.Suggestions(name, names); len(n) > 0 {
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
