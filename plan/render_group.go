package plan

import (
	"cmp"
	"slices"

	"github.com/npctl/npctl/resources"
)

// renderGroup is the steps of one block of the configuration.
type renderGroup struct {
	title   string
	rank    int // images, then providers, then the rest
	counts  Summary
	entries []renderEntry
}

// renderEntry is one line of a plan with its details: one step, a replacement, or several folded steps.
type renderEntry struct {
	symbol string
	lead   []*Step // one per object; of replacements the deleting halves
	other  []*Step // of replacements the creating halves, in the same order
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

// creating returns the halves that create something; only these have estimates.
func (e renderEntry) creating() []*Step {
	if len(e.other) > 0 {
		return e.other
	}
	return e.lead
}

// renderGroups groups the steps of a plan by the blocks that they belong to, and folds similar ones. With all, it
// folds only steps with identical evidence.
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

// renderOrder orders entries by pool, label and action; entries without a pool come last.
func renderOrder(a, b renderEntry) int {
	x, y := a.lead[0], b.lead[0]
	if (x.Pool == "") != (y.Pool == "") {
		return cmp.Compare(y.Pool, x.Pool)
	}
	return cmp.Or(cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Label, y.Label),
		cmp.Compare(renderActionRank(a.creating()[0].Action), renderActionRank(b.creating()[0].Action)))
}

func renderActionRank(a Action) int {
	for i := range summaryActions {
		if summaryActions[i].action == a {
			return i
		}
	}
	return len(summaryActions)
}

// renderBlock returns the title of the block that a step belongs to, and its rank among the groups.
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

// renderEntries returns an entry for each step, and one for each pair of steps that is a replacement.
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

// pairKey identifies the pool or image in which the two halves of a replacement are paired.
type pairKey struct {
	thing                        Thing
	image, provider, pool, label string
}

func renderPlaceOf(s *Step) pairKey {
	if s.Thing == ThingNode {
		return pairKey{thing: s.Thing, provider: s.Provider, pool: s.Pool, label: s.Label}
	}
	return pairKey{thing: s.Thing, provider: s.Provider, image: s.Image}
}

// renderPairs finds the other half of each half of a replacement: a half that waits for the other, or else the next
// half with the same pairKey. A half without another one is printed as a single step, and so are the halves of a
// move, which belong to two pools.
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
	waiting := map[pairKey][]int{}
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
