package plan

import (
	"cmp"
	"slices"

	"github.com/npctl/npctl/resources"
)

// renderGroup is what happens to one block of the configuration.
type renderGroup struct {
	title   string
	rank    int // images, then providers, then what belongs to neither
	counts  Summary
	entries []renderEntry
}

// renderEntry is one line of a plan with what belongs under it: one step, a replacement, or several alike folded.
type renderEntry struct {
	symbol string
	lead   []*Step // one a thing; of replacements the halves that remove
	other  []*Step // of replacements the halves that make, in the same order
}

// The symbols.
const (
	symbolMake       = "+"
	symbolRemove     = "-"
	symbolChange     = "~"
	symbolForget     = "."
	symbolLeak       = "!"
	symbolRemoveMake = "-/+"
	symbolMakeRemove = "+/-"
)

// made returns the halves that make something, which are those an estimate is known for.
func (e renderEntry) made() []*Step {
	if len(e.other) > 0 {
		return e.other
	}
	return e.lead
}

// renderGroups sorts the steps of a plan under the blocks they belong to, and folds what is alike. With all, only
// what has the very same evidence is folded.
func renderGroups(p Plan, all bool) []renderGroup {
	at := map[string]int{}
	var groups []renderGroup
	for _, e := range renderEntries(p.Steps) {
		rank, title := renderBlock(e.lead[0])
		i, known := at[title]
		if !known {
			i = len(groups)
			at[title] = i
			groups = append(groups, renderGroup{title: title, rank: rank})
		}
		g := &groups[i]
		g.entries = append(g.entries, e)
		for _, half := range [][]*Step{e.lead, e.other} {
			for _, s := range half {
				g.counts.add(s.Action)
			}
		}
	}
	slices.SortFunc(groups, func(a, b renderGroup) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.title, b.title))
	})
	for i := range groups {
		slices.SortStableFunc(groups[i].entries, renderOrder)
		groups[i].entries = renderFold(groups[i].entries, all)
	}
	return groups
}

// renderOrder puts entries in the order pool, label, action; what belongs to no pool comes last.
func renderOrder(a, b renderEntry) int {
	x, y := a.lead[0], b.lead[0]
	if (x.Pool == "") != (y.Pool == "") {
		return cmp.Compare(y.Pool, x.Pool)
	}
	return cmp.Or(cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Label, y.Label),
		cmp.Compare(renderActionRank(a.made()[0].Action), renderActionRank(b.made()[0].Action)))
}

func renderActionRank(a Action) int {
	for i := range summaryActions {
		if summaryActions[i].action == a {
			return i
		}
	}
	return len(summaryActions)
}

// renderBlock names the block a step belongs to, and its rank among the groups.
func renderBlock(s *Step) (rank int, title string) {
	ofImage := s.Thing == ThingBuild || s.Thing == ThingUpload || s.Thing == ThingFile || s.Record.Kind == resources.KindImage
	switch {
	case ofImage && s.Image != "":
		if s.ImageKind == "" {
			return 0, "image " + s.Image
		}
		return 0, string(imageAddress(s.ImageKind, s.Image))
	case s.Thing == ThingRequest:
		return 2, "requests"
	case s.Provider != "":
		return 1, "provider." + s.Provider
	case s.Thing == ThingFile:
		return 2, "image files"
	default:
		return 3, "records"
	}
}

// renderEntries makes one entry of each step, and one of each pair of steps that replaces something.
func renderEntries(steps []Step) []renderEntry {
	partner := renderPairs(steps)
	entries := make([]renderEntry, 0, len(steps))
	for i := range steps {
		s := &steps[i]
		j, paired := partner[i]
		switch {
		case !paired:
			entries = append(entries, renderEntry{symbol: renderSymbol(s), lead: []*Step{s}})
		case s.Action == ActionDelete:
			made := &steps[j]
			symbol := symbolRemoveMake
			if slices.Contains(s.Needs, made.ID) || slices.Contains(s.After, made.ID) {
				symbol = symbolMakeRemove
			}
			entries = append(entries, renderEntry{symbol: symbol, lead: []*Step{s}, other: []*Step{made}})
		}
	}
	return entries
}

func renderSymbol(s *Step) string {
	switch {
	case s.Reason == ReasonLeaked || s.Thing == ThingLeftover:
		return symbolLeak
	case s.Removes():
		return symbolRemove
	case s.Action == ActionForget:
		return symbolForget
	case s.Action == ActionUpdate:
		return symbolChange
	default:
		return symbolMake
	}
}

// renderPlace is where the two halves of a replacement meet.
type renderPlace struct {
	thing                        Thing
	image, provider, pool, label string
}

func renderPlaceOf(s *Step) renderPlace {
	if s.Thing == ThingNode {
		return renderPlace{thing: s.Thing, provider: s.Provider, pool: s.Pool, label: s.Label}
	}
	return renderPlace{thing: s.Thing, provider: s.Provider, image: s.Image}
}

// renderPairs finds for each half of a replacement its other half: the one it waits for or that waits for it, or else
// the next one at the same place. A half without another is a step like any other, and so are the halves of a move, which
// belong to two places.
func renderPairs(steps []Step) map[int]int {
	pairs := map[int]int{}
	halves := map[string]int{}
	for i := range steps {
		if steps[i].Replaces && steps[i].Move == nil {
			halves[steps[i].ID] = i
		}
	}
	join := func(i, j int) {
		_, a := pairs[i]
		_, b := pairs[j]
		removes := steps[i].Action == ActionDelete
		if a || b || removes == (steps[j].Action == ActionDelete) || steps[i].Thing != steps[j].Thing {
			return
		}
		pairs[i], pairs[j] = j, i
	}
	for i := range steps {
		if !steps[i].Replaces || steps[i].Move != nil {
			continue
		}
		for _, id := range slices.Concat(steps[i].Needs, steps[i].After) {
			if j, half := halves[id]; half {
				join(i, j)
			}
		}
	}
	waiting := map[renderPlace][]int{}
	for i := range steps {
		if _, paired := pairs[i]; paired || !steps[i].Replaces || steps[i].Move != nil {
			continue
		}
		place := renderPlaceOf(&steps[i])
		if w := waiting[place]; len(w) > 0 && (steps[w[0]].Action == ActionDelete) != (steps[i].Action == ActionDelete) {
			join(i, w[0])
			waiting[place] = w[1:]
			continue
		}
		waiting[place] = append(waiting[place], i)
	}
	return pairs
}
