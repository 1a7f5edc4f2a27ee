package plan

import (
	"strconv"
	"unicode/utf8"

	"github.com/npctl/npctl/internal/text"
)

// renderSafe returns s as one line without characters that a terminal or a browser would interpret.
func renderSafe(s string) string { return text.Line(s) }

// renderCut shortens s to about limit bytes and adds the number of missing bytes.
func renderCut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "… (" + strconv.Itoa(len(s)-end) + " bytes more)"
}
