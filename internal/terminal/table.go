package terminal

import (
	"slices"

	"github.com/mattn/go-runewidth"

	"github.com/npctl/npctl/internal/text"
)

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
			if value == "" {
				value = "-"
			}
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
