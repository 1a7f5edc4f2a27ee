package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// suggest returns the option that was probably meant, or "". The bound grows with the word, so that short words do not
// suggest unrelated ones.
func suggest(given string, options []string) string {
	best, bestDistance := "", 1+len(given)/3
	if bestDistance > 4 {
		bestDistance = 4
	}
	folded := fold(given)
	for _, option := range slices.Sorted(slices.Values(options)) {
		if abs(len(option)-len(given)) > bestDistance {
			continue
		}
		if fold(option) == folded {
			return option
		}
		if d := levenshtein.Distance(folded, fold(option), nil); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = option, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// fold makes words equal that differ in what people mix up.
func fold(word string) string {
	return strings.ToLower(strings.NewReplacer("-", "_", ".", "_").Replace(word))
}

// didYouMean is a sentence to append, or "".
func didYouMean(given string, options []string) string {
	if best := suggest(given, options); best != "" {
		return fmt.Sprintf(" Did you mean %q?", best)
	}
	return ""
}

// oneOf is a sentence that names the options when there are few, and else the nearest.
func oneOf(given string, options []string) string {
	if hint := didYouMean(given, options); hint != "" {
		return hint
	}
	if len(options) == 0 || len(options) > 12 {
		return ""
	}
	quoted := make([]string, len(options))
	for i, option := range slices.Sorted(slices.Values(options)) {
		quoted[i] = fmt.Sprintf("%q", option)
	}
	return " There is " + listed(quoted, "and") + "."
}

// listed joins words for a sentence.
func listed(words []string, last string) string {
	switch len(words) {
	case 0:
		return "nothing"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
	}
}
