package render

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
)

// leastTitle states the assumptions of the lines below it.
const leastTitle = "Ready nodes at worst, if each step succeeds and no new request arrives"

// leastShown is the maximum number of labels with a line.
const leastShown = 10

// leastLines returns a line for each label of which the plan takes ready nodes, the lowest numbers first.
func leastLines(labels []plan.LeastReady, all bool) (lines []string) {
	labels = slices.SortedStableFunc(slices.Values(labels), func(a, b plan.LeastReady) int { return cmp.Compare(a.Least, b.Least) })
	for i, l := range labels {
		if i == leastShown && !all {
			return append(lines, "("+text.Count(len(labels)-i, "more label", "more labels")+" hidden)")
		}
		state := "never below " + strconv.Itoa(l.Least) + " ready"
		switch {
		case l.Least <= 0 && l.Stays:
			state = "empty, and no step makes a node ready"
		case l.Least <= 0 && l.Empty == 0:
			state = "empty for a time"
		case l.Least <= 0:
			state = "empty for about " + durationText(l.Empty)
		}
		lines = append(lines, "label "+safe(l.Label)+": "+state+" (now "+strconv.Itoa(l.Ready)+")")
	}
	return lines
}
