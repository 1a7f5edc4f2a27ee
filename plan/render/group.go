package render

import (
	"cmp"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// group is the steps of one block of the configuration.
type group struct {
	title   string
	rank    int // images, then providers, then the rest
	counts  plan.Summary
	entries []entry
}

// entry is one line of a plan with its details: one step, a replacement, or several folded steps.
type entry struct {
	symbol string
	lead   []*plan.Step // one per object; of replacements the deleting halves
	other  []*plan.Step // of replacements the creating halves, in the same order
	paired bool         // the steps are halves of replacements in this block; the two halves of a move are two entries
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
func (e entry) creating() []*plan.Step {
	if len(e.other) > 0 {
		return e.other
	}
	return e.lead
}

// groupSteps groups the steps of a plan by the blocks that they belong to, and folds similar ones. With all, it
// folds only steps with identical evidence.
func groupSteps(p plan.Plan, all bool) []group {
	at := map[string]int{}
	var groups []group
	for _, e := range entriesOf(p.Steps) {
		rank, title := blockOf(e.lead[0])
		i, known := at[title]
		if !known {
			i = len(groups)
			at[title] = i
			groups = append(groups, group{title: title, rank: rank})
		}
		g := &groups[i]
		g.entries = append(g.entries, e)
		for _, half := range [][]*plan.Step{e.lead, e.other} {
			for _, s := range half {
				if e.paired {
					g.counts.AddHalf(s.Action)
				} else {
					g.counts.Add(s.Action)
				}
			}
		}
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.title, b.title))
	})
	for i := range groups {
		slices.SortStableFunc(groups[i].entries, compareEntries)
		groups[i].entries = fold(groups[i].entries, all)
	}
	return groups
}

// compareEntries orders entries by pool, label and action; entries without a pool come last.
func compareEntries(a, b entry) int {
	x, y := a.lead[0], b.lead[0]
	if (x.Pool == "") != (y.Pool == "") {
		return cmp.Compare(y.Pool, x.Pool)
	}
	return cmp.Or(cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Label, y.Label),
		cmp.Compare(actionRank(a.creating()[0].Action), actionRank(b.creating()[0].Action)))
}

// actions lists the actions in the order of a summary.
var actions = plan.ActionKinds()

func actionRank(a plan.Action) int {
	if i := slices.IndexFunc(actions, func(k plan.ActionKind) bool { return k.Action == a }); i >= 0 {
		return i
	}
	return len(actions)
}

// blockOf returns the title of the block that a step belongs to, and its rank among the groups.
func blockOf(s *plan.Step) (rank int, title string) {
	ofImage := s.Thing == plan.ThingBuild || s.Thing == plan.ThingUpload || s.Thing == plan.ThingFile || s.Record.Kind == resources.KindImage
	switch {
	case ofImage && s.Image != "":
		if s.ImageKind == "" {
			return 0, "image " + s.Image
		}
		return 0, string(s.ImageKind) + "." + s.Image
	case s.Thing == plan.ThingRequest:
		return 2, "requests"
	case s.Provider != "":
		return 1, "provider." + s.Provider
	case s.Thing == plan.ThingFile:
		return 2, "image files"
	default:
		return 3, "records"
	}
}

// entriesOf returns an entry for each step, and one for each pair of steps that is a replacement in one pool.
func entriesOf(steps []plan.Step) []entry {
	partner := plan.Replacements(steps)
	entries := make([]entry, 0, len(steps))
	for i := range steps {
		s := &steps[i]
		j, paired := partner[i]
		switch {
		case !paired || s.Move != nil:
			entries = append(entries, entry{symbol: symbolOf(s), lead: []*plan.Step{s}, paired: paired && s.Provider == steps[j].Provider})
		case s.Action == plan.ActionDelete:
			made := &steps[j]
			symbol := symbolRemoveMake
			if slices.Contains(s.Needs, made.ID) || slices.Contains(s.After, made.ID) {
				symbol = symbolMakeRemove
			}
			entries = append(entries, entry{symbol: symbol, lead: []*plan.Step{s}, other: []*plan.Step{made}, paired: true})
		}
	}
	return entries
}

func symbolOf(s *plan.Step) string {
	switch {
	case s.Reason == plan.ReasonLeaked || s.Thing == plan.ThingLeftover:
		return symbolLeak
	case s.Removes():
		return symbolRemove
	case s.Action == plan.ActionForget:
		return symbolForget
	case s.Action == plan.ActionUpdate, s.Action == plan.ActionMove:
		return symbolChange
	default:
		return symbolMake
	}
}
