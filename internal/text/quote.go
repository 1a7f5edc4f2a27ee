package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// quoteLimit is the maximum number of bytes that Quote repeats.
const quoteLimit = 200

// Quote quotes text from outside for a message, truncated and as valid UTF-8.
func Quote(text string) string {
	if len(text) > quoteLimit {
		text = strings.ToValidUTF8(text[:quoteLimit], "") + "…"
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return fmt.Sprintf("%q", text)
}
