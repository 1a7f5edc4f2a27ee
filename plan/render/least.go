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

// leastShown is the maximum number of lines.
const leastShown = 10

// leastLines returns a line for each label of which the plan takes ready nodes, and for each image that a provider may be without, the
// lowest numbers first. all adds the other images of which the plan takes uploads.
func leastLines(supplies []plan.LeastReady, all bool) (lines []string) {
	supplies = slices.SortedStableFunc(slices.Values(supplies), func(a, b plan.LeastReady) int { return cmp.Compare(a.Least, b.Least) })
	if !all {
		supplies = slices.DeleteFunc(supplies, func(l plan.LeastReady) bool { return l.Image != "" && l.Least > 0 })
	}
	for i, l := range supplies {
		if i == leastShown && !all {
			return append(lines, "("+text.Count(len(supplies)-i, "more line", "more lines")+" hidden)")
		}
		name, none, next := "label "+safe(l.Label), "empty", "a node"
		if l.Image != "" {
			name, none, next = "image "+safe(l.Image)+" in "+safe(l.Provider), "no upload", "an upload"
		}
		state := "never below " + strconv.Itoa(l.Least) + " ready"
		switch {
		case l.Least <= 0 && l.Stays:
			state = none + ", and no step makes " + next + " ready"
		case l.Least <= 0 && l.Empty == 0:
			state = none + " for a time"
		case l.Least <= 0:
			state = none + " for about " + durationText(l.Empty)
		}
		lines = append(lines, name+": "+state+" (now "+strconv.Itoa(l.Ready)+")")
	}
	return lines
}
