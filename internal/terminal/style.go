package terminal

import (
	"regexp"
	"strings"

	"github.com/fatih/color"
	"github.com/mattn/go-runewidth"
)

// Style is the look of a text.
type Style int

// The styles.
const (
	StyleError Style = iota
	StyleWarning
	StyleStrong
	StyleGood
	StyleFaint
	StylePlain
)

var attributes = map[Style]color.Attribute{StyleError: color.FgRed, StyleWarning: color.FgYellow,
	StyleStrong: color.Bold, StyleGood: color.FgGreen, StyleFaint: color.Faint}

// Style colours text for Err.
func (u *UI) Style(s Style, text string) string { return Paint(u.ErrColor, s, text) }

// Paint colours text if on is true.
func Paint(on bool, s Style, text string) string {
	if !on || s == StylePlain {
		return text
	}
	c := color.New(attributes[s])
	c.EnableColor()
	return c.Sprint(text)
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// WrapWords wraps lines between words and keeps the indentation of each line; columns 0 means no limit. It does not
// break a word that is too wide, so that the word can be copied.
func WrapWords(text string, columns int) string {
	if columns == 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		bare := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(bare)]
		at, wrapped := 0, ""
		for word := range strings.SplitSeq(bare, " ") {
			width := runewidth.StringWidth(colours.ReplaceAllString(word, ""))
			switch {
			case wrapped == "":
				wrapped, at = indent+word, len(indent)+width
			case at+1+width > columns:
				wrapped, at = wrapped+"\n"+indent+word, len(indent)+width
			default:
				wrapped, at = wrapped+" "+word, at+1+width
			}
		}
		lines[i] = wrapped
	}
	return strings.Join(lines, "\n")
}

// shortenMiddle keeps the start and the end of a text, because the end of an address identifies the object.
func shortenMiddle(text string, width int) string {
	if runewidth.StringWidth(text) <= width {
		return text
	}
	head := runewidth.Truncate(text, (width-1)*2/5, "")
	rest := width - 1 - runewidth.StringWidth(head)
	return head + runewidth.TruncateLeft(text, runewidth.StringWidth(text)-rest, "…")
}

// Shorten cuts the end of a text that is wider than width.
func Shorten(text string, width int) string { return runewidth.Truncate(text, width, "…") }
