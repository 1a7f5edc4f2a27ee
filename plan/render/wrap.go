package render

import (
	"bufio"
	"io"
	"strings"

	"github.com/fatih/color"
	"github.com/rivo/uniseg"
)

// textWriter writes lines of spans, wrapped and colored. flush returns its first error.
type textWriter struct {
	out    *bufio.Writer
	width  int // 0: no wrapping
	colors map[style]textColor
	// written reports whether a line has been written, so that the next section starts with an empty line.
	written bool
}

// textLeast is the minimum width for wrapping, in columns; wrapping to less does not improve the output.
const textLeast = 40

func newTextWriter(w io.Writer, o TextOptions) *textWriter {
	t := &textWriter{out: bufio.NewWriterSize(w, 64<<10), width: o.Width}
	if o.Width > 0 {
		t.width = max(o.Width, textLeast)
	}
	if !o.Color {
		return t
	}
	t.colors = map[style]textColor{
		styleMake:   newTextColor(color.FgGreen),
		styleRemove: newTextColor(color.FgRed),
		styleChange: newTextColor(color.FgYellow),
		styleFaint:  newTextColor(color.Faint),
		styleStrong: newTextColor(color.Bold),
	}
	return t
}

// textColor is the escape sequences before and after a colored text.
type textColor struct{ on, off string }

func newTextColor(attribute color.Attribute) textColor {
	c := color.New(attribute)
	c.EnableColor() // the caller has checked the terminal and NO_COLOR
	on, off, _ := strings.Cut(c.Sprint("|"), "|")
	return textColor{on, off}
}

func (t *textWriter) flush() error { return t.out.Flush() }

// line writes one line that starts with lead and, if it is wrapped, continues after indent spaces.
func (t *textWriter) line(lead string, indent int, spans ...span) {
	t.out.WriteString(lead)
	column := textWidth(lead)
	start := column
	for _, s := range spans {
		if width := textWidth(s.text); t.width == 0 || column+width <= t.width {
			t.styled(s.text, s.style)
			column += width
			continue
		}
		if s.style == styleRemove && strings.HasPrefix(s.text, "  #") { // "# forces replacement" is not broken
			column = t.word(s.text, s.style, column, start, indent)
			continue
		}
		for text := s.text; text != ""; {
			word, rest := textWord(text)
			column = t.word(word, s.style, column, start, indent)
			text = rest
		}
	}
	t.end()
}

// unwrapped writes a line that must not be wrapped, such as a table row.
func (t *textWriter) unwrapped(s span) {
	t.styled(s.text, s.style)
	t.end()
}

func (t *textWriter) end() {
	t.out.WriteByte('\n')
	t.written = true
}

// textWord splits off the next word with its leading spaces.
func textWord(text string) (word, rest string) {
	spaces := len(text) - len(strings.TrimLeft(text, " "))
	if end := strings.IndexByte(text[spaces:], ' '); end >= 0 {
		return text[:spaces+end], text[spaces+end:]
	}
	return text, ""
}

// word writes a word at a column, on a new line if it begins with a space and does not fit, and returns the next
// column. It does not break a word that is wider than a line: the word is an ID or a path to copy.
func (t *textWriter) word(word string, style style, column, start, indent int) int {
	width := textWidth(word)
	bare := strings.TrimLeft(word, " ")
	if t.width > 0 && column > start && column+width > t.width && bare != word && column > indent {
		t.out.WriteByte('\n')
		t.spaces(indent)
		word, column = bare, indent
		width = textWidth(bare)
	}
	t.styled(word, style)
	return column + width
}

func (t *textWriter) styled(text string, style style) {
	c := t.colors[style]
	if text == "" {
		return
	}
	t.out.WriteString(c.on)
	t.out.WriteString(text)
	t.out.WriteString(c.off)
}

func (t *textWriter) spaces(n int) {
	for range n {
		t.out.WriteByte(' ')
	}
}

// textWidth returns the width of text on a terminal, in columns.
func textWidth(text string) int {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return uniseg.StringWidth(text)
		}
	}
	return len(text)
}
