package terminal

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/mattn/go-runewidth"

	"github.com/npctl/npctl/internal/text"
)

// Page builds a text for a terminal. It escapes all values.
type Page struct {
	strings.Builder
	Columns int // 0: no limit
	Color   bool
	Live    bool             // redrawn repeatedly, so it is limited to the size of the screen
	Cells   map[string]Style // the colours of values in tables
}

// Page returns an empty page with the width of Out.
func (u *UI) Page() *Page { return &Page{Columns: u.OutWidth(), Color: u.OutColor, Cells: u.Cells} }

// WidePage returns an empty page of unlimited width, because people copy its values.
func (u *UI) WidePage() *Page { return &Page{Color: u.OutColor, Cells: u.Cells} }

// Rows returns a head and the row of each element of a list.
func Rows[T any](head []string, list []T, row func(*T) []string) [][]string {
	rows := [][]string{head}
	for i := range list {
		rows = append(rows, row(&list[i]))
	}
	return rows
}

// Table prints a table; see Page.Table.
func (u *UI) Table(rows [][]string, spare ...string) error {
	p := u.Page()
	p.Table(rows, spare...)
	return u.Write(p.String())
}

// WideTable prints a table on a wide page.
func (u *UI) WideTable(rows [][]string) error {
	p := u.WidePage()
	p.Table(rows)
	return u.Write(p.String())
}

// Line adds a line. It wraps a line that is wider than the screen between words.
func (p *Page) Line(s Style, line string) {
	p.WriteString(Paint(p.Color, s, WrapWords(text.Line(line), p.Columns)) + "\n")
}

// Table adds rows, the first of which is the head. On a narrow screen it omits the columns named in spare first.
func (p *Page) Table(rows [][]string, spare ...string) {
	for i, row := range fitTable(rows, p.Columns, spare...) {
		for j, cell := range row {
			s, known := p.Cells[strings.TrimRight(cell, " ")]
			if i == 0 {
				s, known = StyleStrong, true
			}
			if j == len(row)-1 {
				cell = strings.TrimRight(cell, " ")
			}
			p.WriteString(Paint(p.Color && known, s, cell))
		}
		p.WriteString("\n")
	}
}

// Facts adds lines of a name and a value.
func (p *Page) Facts(rows [][2]string) {
	width := 0
	for i, r := range rows {
		rows[i] = [2]string{text.Line(r[0]), text.Line(r[1])}
		width = max(width, runewidth.StringWidth(rows[i][0]))
	}
	for _, r := range rows {
		p.WriteString(runewidth.FillRight(r[0], width+tableGap) + r[1] + "\n")
	}
}

// tableGap is the number of spaces between two columns.
const tableGap = 2

// leastColumn is the minimum width of a column; below it the last columns are omitted.
const leastColumn = 8

// fitTable formats cells as columns for a screen of the given width; the first row is the head, and width 0 means no
// limit. If a table is too wide, fitTable omits columns in this order as far as necessary: all without values, those
// named in spare, and the last ones. The head ends with "…" if a column with values is omitted. fitTable shortens long
// values in the middle, except in the first column, which holds IDs and names.
func fitTable(rows [][]string, width int, spare ...string) [][]string {
	cells := make([][]string, len(rows))
	for i, row := range rows {
		for _, value := range row {
			value = cmp.Or(value, "-")
			cells[i] = append(cells[i], text.Line(value))
		}
	}
	widths := columnWidths(cells)
	if width > 0 && tableWidth(widths) > width {
		cells = dropColumns(cells, width, spare)
		widths = columnWidths(cells)
		for tableWidth(widths) > width && len(widths) > 1 {
			widest := slices.Index(widths[1:], slices.Max(widths[1:])) + 1
			if widths[widest] <= leastColumn {
				break
			}
			widths[widest]--
		}
	}
	for _, row := range cells {
		for i := range row {
			row[i] = shortenMiddle(row[i], widths[i])
			if i < len(row)-1 {
				row[i] = runewidth.FillRight(row[i], widths[i]+tableGap)
			}
		}
	}
	return cells
}

func columnWidths(cells [][]string) []int {
	var widths []int
	for _, row := range cells {
		for i, value := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], runewidth.StringWidth(value))
		}
	}
	return widths
}

func tableWidth(widths []int) int {
	sum := max(len(widths)-1, 0) * tableGap
	for _, w := range widths {
		sum += w
	}
	return sum
}

// dropColumns removes the columns that do not fit even if all values are shortened.
func dropColumns(cells [][]string, width int, spare []string) [][]string {
	keep := make([]int, 0, len(cells[0]))
	for i := range cells[0] {
		if i == 0 || slices.ContainsFunc(cells[1:], func(row []string) bool { return row[i] != "-" }) {
			keep = append(keep, i)
		}
	}
	least := func() int {
		var widths []int
		for n, i := range keep {
			w := columnWidths(pick(cells, []int{i}))[0]
			if n > 0 {
				w = min(w, leastColumn)
			}
			widths = append(widths, w)
		}
		return tableWidth(widths)
	}
	cut := false
	for len(keep) > 1 && least()+tableGap > width {
		next := nextToDrop(cells[0], keep, spare)
		keep, cut = slices.Delete(keep, next, next+1), true
	}
	cells = pick(cells, keep)
	if cut {
		cells[0][len(cells[0])-1] += "…"
	}
	return cells
}

// nextToDrop returns the index in keep of the column to omit next. It never returns the first column.
func nextToDrop(head []string, keep []int, spare []string) int {
	for _, name := range spare {
		if i := slices.IndexFunc(keep, func(column int) bool { return head[column] == name }); i > 0 {
			return i
		}
	}
	return len(keep) - 1
}

// pick returns the given columns.
func pick(cells [][]string, columns []int) [][]string {
	picked := make([][]string, len(cells))
	for i, row := range cells {
		for _, c := range columns {
			picked[i] = append(picked[i], row[c])
		}
	}
	return picked
}

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
