package nodepoolapi

import (
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/npctl/npctl/internal/text"
)

// draw draws lines of cells with borders; the first line is the header.
func draw(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for k := range line {
			line[k] = text.Line(line[k])
			widths[k] = max(widths[k], runewidth.StringWidth(line[k]))
		}
	}
	var border strings.Builder
	for _, width := range widths {
		border.WriteString("+" + strings.Repeat("-", width+2))
	}
	border.WriteString("+")
	all := []string{border.String()}
	for i, line := range lines {
		var b strings.Builder
		for k, value := range line {
			b.WriteString("| " + runewidth.FillRight(value, widths[k]) + " ")
		}
		all = append(all, b.String()+"|")
		if i == 0 {
			all = append(all, border.String())
		}
	}
	return strings.Join(append(all, border.String()), "\n")
}
