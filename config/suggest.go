package config

import (
	"fmt"
	"slices"
	"strings"

	plaintext "github.com/npctl/npctl/internal/text"
)

// didYouMean returns a sentence with a suggestion, or "".
func didYouMean(given string, options []string) string {
	if best := plaintext.Nearest(given, options); best != "" {
		return fmt.Sprintf(" Did you mean %q?", best)
	}
	return ""
}

// maxOptions is the number of options up to which a message lists all of them.
const maxOptions = 20

// oneOf returns a sentence that suggests the nearest option, or else lists all options if there are few. The noun is
// their plural: "drivers".
func oneOf(noun, given string, options []string) string {
	if hint := didYouMean(given, options); hint != "" {
		return hint
	}
	if len(options) == 0 || len(options) > maxOptions {
		return ""
	}
	quoted := make([]string, len(options))
	for i, option := range slices.Sorted(slices.Values(options)) {
		quoted[i] = fmt.Sprintf("%q", option)
	}
	return " Valid " + noun + ": " + strings.Join(quoted, ", ") + "."
}
