// Package text makes external text safe to display, and finds the intended word for a mistyped one.
//
// Names and error texts come from clouds and from API clients, so any user who may create a server or a request chooses
// them. Characters that a terminal or a browser would interpret or not display (escape sequences, line breaks,
// right-to-left text, invisible characters, invalid UTF-8) are replaced by an escape such as \x1b.
package text

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
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
	hostile := func(r rune) bool { return r >= 0x7f && Hostile(r) }
	if bytes.IndexFunc(doc, hostile) < 0 {
		return doc
	}
	out := make([]byte, 0, len(doc)+64)
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		if hostile(r) {
			out = appendJSONEscape(out, r)
		} else {
			out = append(out, doc[:size]...)
		}
		doc = doc[size:]
	}
	return out
}

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

// Shorten returns at most most characters of a text, with an ellipsis for the rest.
func Shorten(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// Bytes formats a number of bytes, such as 1.5 GiB.
func Bytes(n int64) string {
	value, unit := float64(n), 0
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// Amount formats an amount of money, such as 1,234.50. An amount of less than a cent has up to six decimals.
func Amount(x float64) string {
	decimals := 2
	if size := math.Abs(x); size > 0 && size < 0.01 {
		decimals = 6
	}
	digits := strconv.FormatFloat(x, 'f', decimals, 64)
	if decimals > 2 {
		digits = strings.TrimRight(digits, "0")
	}
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + "." + fraction
}

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

const (
	maxEdits = 4   // between a word and its suggestions
	maxWord  = 256 // bytes; longer words get no suggestion
)

// Nearest returns the option that a word most probably stands for, or "".
func Nearest(word string, options []string) string {
	if near := Near(word, options); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Near returns the options that a word may stand for, the most probable first. They differ from it by one edit for
// every three characters, at most four: an insertion, a deletion, a substitution, or a transposition. Case and the
// separators dash, dot and underscore do not count. An option with a different long number, such as that of another
// node, does not match.
func Near(word string, options []string) []string {
	if word == "" || len(word) > maxWord {
		return nil
	}
	given, numbers := []rune(fold(word)), longNumbers(word)
	bound := min(max(len(given)/3, 1), maxEdits)
	edits := map[string]int{}
	var near []string
	for _, option := range options {
		if _, known := edits[option]; known || option == "" || len(option) > maxWord {
			continue
		}
		folded := []rune(fold(option))
		if len(folded) > len(given)+bound || len(given) > len(folded)+bound {
			continue
		}
		if n := distance(given, folded); n <= bound && slices.Equal(numbers, longNumbers(option)) {
			edits[option] = n
			near = append(near, option)
		}
	}
	slices.SortFunc(near, func(a, b string) int {
		return cmp.Or(cmp.Compare(edits[a], edits[b]), cmp.Compare(a, b))
	})
	return near
}

var folder = strings.NewReplacer("-", "_", ".", "_")

func fold(word string) string { return strings.ToLower(folder.Replace(word)) }

var longNumber = regexp.MustCompile(`\d{5,}`)

// longNumbers returns the numbers in a word that are IDs and not versions.
func longNumbers(word string) []string {
	all := longNumber.FindAllString(word, -1)
	for i := range all {
		all[i] = strings.TrimLeft(all[i], "0")
	}
	return all
}

// distance returns the optimal string alignment distance: no character is edited twice.
func distance(a, b []rune) int {
	var before, above []int // rows of the table, for i-2 and i-1 characters of a
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := above[j-1]
			if a[i-1] != b[j-1] {
				substitution++
			}
			row[j] = min(above[j]+1, row[j-1]+1, substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
