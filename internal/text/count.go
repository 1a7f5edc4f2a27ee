package text

import (
	"fmt"
	"strings"
)

// Count formats a number with its noun, or with other words that agree with it: "1 file is", "2 files are".
func Count[N int | int64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// And joins words for a sentence: "a, b and c".
func And(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}
