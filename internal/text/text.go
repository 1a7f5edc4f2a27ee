// Package text makes external text safe to display, and finds the intended word for a mistyped one.
//
// Names and error texts come from clouds and from API clients, so any user who may create a server or a request chooses
// them. Characters that a terminal or a browser would interpret or not display (escape sequences, line breaks,
// right-to-left text, invisible characters, invalid UTF-8) are replaced by an escape such as \x1b.
package text

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s with all hostile characters escaped. The result is one line.
func Line(s string) string { return escape(s, Hostile) }

// Block is Line for text of several lines: it keeps line breaks and tabs.
func Block(s string) string {
	return escape(s, func(r rune) bool { return r != '\n' && r != '\t' && Hostile(r) })
}

func escape(s string, hostile func(rune) bool) string {
	bad := strings.IndexFunc(s, hostile)
	if bad < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])>>4, 16) + strconv.FormatUint(uint64(s[i])&15, 16))
		case hostile(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// Hostile reports whether a rune must not reach a terminal: controls, formats, separators other than the plain space,
// and invisible letters.
func Hostile(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return !strconv.IsPrint(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

// JSON escapes characters in a JSON document that a terminal would interpret. JSON itself requires that only below
// U+0020; all of these characters occur only inside strings, where an escape has the same meaning.
func JSON(doc []byte) []byte {
	if bytes.IndexFunc(doc, hostileJSON) < 0 {
		return doc
	}
	out := make([]byte, 0, len(doc)+64)
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		if hostileJSON(r) {
			out = appendJSONEscape(out, r)
		} else {
			out = append(out, doc[:size]...)
		}
		doc = doc[size:]
	}
	return out
}

func hostileJSON(r rune) bool { return r >= 0x7f && Hostile(r) }

// appendJSONEscape writes r as one \uXXXX, or as a surrogate pair.
func appendJSONEscape(out []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	units := []rune{r}
	if r > 0xffff {
		r -= 0x10000
		units = []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
	}
	for _, u := range units {
		out = append(out, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
	}
	return out
}
