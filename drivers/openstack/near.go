package openstack

import (
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// near returns the names, at most five, that somebody who wrote name may have meant, the likeliest first.
func near(name string, names []string) []string {
	type candidate struct {
		name string
		rank int
	}
	var found []candidate
	low := strings.ToLower(name)
	for _, n := range names {
		other := strings.ToLower(n)
		distance := levenshtein.Distance(low, other, nil)
		switch {
		case n == "":
		case distance <= max(1, min(len(low), len(other))/3):
			found = append(found, candidate{n, distance})
		case low != "" && (strings.Contains(other, low) || strings.Contains(low, other)):
			found = append(found, candidate{n, 100 + distance})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return strings.Compare(a.name, b.name)
	})
	var result []string
	for _, c := range found {
		if !slices.Contains(result, c.name) && len(result) < 5 {
			result = append(result, c.name)
		}
	}
	return result
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
