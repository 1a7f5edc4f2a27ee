package plan

import (
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// renderRow is one line of the summary table: a block, or several merged ones.
type renderRow struct {
	title  string
	counts Summary
}

// renderTitleLimit is the maximum length of a block's title in the table, in bytes.
const renderTitleLimit = 60

// renderRows is the maximum number of images or providers with separate rows.
const renderRows = 20

// renderTable returns a row for each block, or one for all images, or all providers, if there are more than
// renderRows.
func renderTable(groups []renderGroup, all bool) []renderRow {
	var rows []renderRow
	for start := 0; start < len(groups); {
		end := start
		for end < len(groups) && groups[end].rank == groups[start].rank {
			end++
		}
		if end-start > renderRows && !all {
			rows = append(rows, mergeRows(groups[start:end]))
		} else {
			for _, g := range groups[start:end] {
				rows = append(rows, renderRow{renderCut(renderSafe(g.title), renderTitleLimit), g.counts})
			}
		}
		start = end
	}
	return rows
}

func mergeRows(groups []renderGroup) renderRow {
	noun := map[int]string{0: "image", 1: "provider"}[groups[0].rank]
	row := renderRow{title: text.Count(len(groups), noun, noun+"s")}
	for _, g := range groups {
		for _, a := range summaryActions {
			if n := row.counts.of(a.action); n != nil {
				*n += g.counts.Count(a.action)
			}
		}
	}
	return row
}

// renderColumns returns the actions that occur.
func renderColumns(summary Summary) []Action {
	var columns []Action
	for _, a := range summaryActions {
		if summary.Count(a.action) > 0 {
			columns = append(columns, a.action)
		}
	}
	return columns
}

func renderCell(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// table prints the number of steps of each action in each block.
func (t *textWriter) table(rows []renderRow, summary Summary) {
	columns := renderColumns(summary)
	if len(rows) == 0 || len(columns) == 0 {
		return
	}
	widest := 0
	for _, r := range rows {
		widest = max(widest, textWidth(r.title))
	}
	var head strings.Builder
	head.WriteString(strings.Repeat(" ", widest))
	for _, c := range columns {
		head.WriteString("  " + string(c))
	}
	t.unwrapped(renderSpan{head.String(), styleFaint})
	for _, r := range rows {
		var b strings.Builder
		b.WriteString(renderPad(r.title, widest))
		for _, c := range columns {
			cell := renderCell(r.counts.Count(c))
			b.WriteString(strings.Repeat(" ", max(0, 2+len(c)-len(cell))) + cell)
		}
		t.unwrapped(renderSpan{strings.TrimRight(b.String(), " "), stylePlain})
	}
}
