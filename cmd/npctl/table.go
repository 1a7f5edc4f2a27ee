package main

import (
	"slices"

	"github.com/mattn/go-runewidth"
)

// tableGap is between two columns.
const tableGap = 2

// leastColumn is how narrow a column may become before the last ones are left out.
const leastColumn = 8

// fitTable lays cells out in columns, the first row being the head, for a screen of that width; 0 has no limit. In a table
// that is too wide columns without any value are left out, then the last ones as far as that is needed; the head ends with
// "…" then. Long values are shortened in the middle, but for the first column, which holds ids and names.
func fitTable(rows [][]string, width int) [][]string {
	cells := make([][]string, len(rows))
	for i, row := range rows {
		for _, value := range row {
			if value == "" {
				value = "-"
			}
			cells[i] = append(cells[i], visibleLine(value))
		}
	}
	widths := columnWidths(cells)
	if width > 0 && tableWidth(widths) > width {
		cells = dropColumns(cells, width)
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

// dropColumns leaves out what cannot fit, however much the rest is shortened.
func dropColumns(cells [][]string, width int) [][]string {
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
		keep, cut = keep[:len(keep)-1], true
	}
	cells = pick(cells, keep)
	if cut {
		cells[0][len(cells[0])-1] += "…"
	}
	return cells
}

// pick returns some columns.
func pick(cells [][]string, columns []int) [][]string {
	picked := make([][]string, len(cells))
	for i, row := range cells {
		for _, c := range columns {
			picked[i] = append(picked[i], row[c])
		}
	}
	return picked
}
