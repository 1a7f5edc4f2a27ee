package text

import (
	"strconv"
	"unicode/utf8"
)

// Cut shortens s to about limit bytes and adds the number of missing bytes.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "… (" + strconv.Itoa(len(s)-end) + " bytes more)"
}
