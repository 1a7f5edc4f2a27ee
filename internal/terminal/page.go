package terminal

import (
	"strings"

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
