package render

import (
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
)

// tableRow is one line of the summary table: a block, or several merged ones.
type tableRow struct {
	title  string
	counts plan.Summary
}

// titleLimit is the maximum length of a block's title in the table, in bytes.
const titleLimit = 60

// rowLimit is the maximum number of images or providers with separate rows.
const rowLimit = 20

// tableRows returns a row for each block, or one for all images, or all providers, if there are more than
// rowLimit.
func tableRows(groups []group, all bool) []tableRow {
	var rows []tableRow
	for start := 0; start < len(groups); {
		end := start
		for end < len(groups) && groups[end].rank == groups[start].rank {
			end++
		}
		if end-start > rowLimit && !all {
			rows = append(rows, mergeRows(groups[start:end]))
		} else {
			for _, g := range groups[start:end] {
				rows = append(rows, tableRow{text.Cut(safe(g.title), titleLimit), g.counts})
			}
		}
		start = end
	}
	return rows
}

func mergeRows(groups []group) tableRow {
	noun := map[int]string{0: "image", 1: "provider"}[groups[0].rank]
	row := tableRow{title: text.Count(len(groups), noun, noun+"s")}
	for _, g := range groups {
		row.counts.Merge(g.counts)
	}
	return row
}

// columnsOf returns the positions of the printed counts that occur in the rows. A node that moves to another provider is a launch in one row
// and a deletion in another one.
func columnsOf(rows []tableRow) (titles []string, columns []int) {
	var all plan.Summary
	for _, r := range rows {
		all.Merge(r.counts)
	}
	for i, c := range all.Printed() {
		if c.Count > 0 {
			titles, columns = append(titles, c.Word), append(columns, i)
		}
	}
	return titles, columns
}

// cells returns the counts of a row in the columns.
func (r tableRow) cells(columns []int) (cells []string) {
	all := r.counts.Printed()
	for _, c := range columns {
		cells = append(cells, cell(all[c].Count))
	}
	return cells
}

func cell(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// table prints the number of steps of each action in each block.
func (t *textWriter) table(rows []tableRow) {
	titles, columns := columnsOf(rows)
	if len(rows) == 0 || len(columns) == 0 {
		return
	}
	widest := 0
	for _, r := range rows {
		widest = max(widest, textWidth(r.title))
	}
	var head strings.Builder
	head.WriteString(strings.Repeat(" ", widest))
	for _, title := range titles {
		head.WriteString("  " + title)
	}
	t.unwrapped(span{head.String(), styleFaint})
	for _, r := range rows {
		var b strings.Builder
		b.WriteString(pad(r.title, widest))
		for i, cell := range r.cells(columns) {
			b.WriteString(strings.Repeat(" ", max(0, 2+len(titles[i])-len(cell))) + cell)
		}
		t.unwrapped(span{strings.TrimRight(b.String(), " "), stylePlain})
	}
}
