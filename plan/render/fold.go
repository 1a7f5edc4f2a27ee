package render

import (
	"strings"

	"github.com/npctl/npctl/plan"
)

// foldKey is the common part of entries that are printed as one.
type foldKey struct {
	symbol, image, build, format, provider, pool, label, kind, changes, facts, values string
	action                                                                            plan.Action
	thing                                                                             plan.Thing
	reason, other                                                                     plan.Reason
	recorded                                                                          bool
	from, to                                                                          plan.NodePlacement // of a move
}

// fold joins entries that differ only in their object. Leaks and imports are always printed one by one: each is
// a claim that an object is ours, or is to become ours.
func fold(entries []entry, all bool) []entry {
	at := make(map[foldKey]int, len(entries))
	folded := entries[:0:0]
	for _, e := range entries {
		if e.symbol == symbolLeak || e.lead[0].Action == plan.ActionImport {
			folded = append(folded, e)
			continue
		}
		alike := foldKeyOf(e, all)
		if i, known := at[alike]; known {
			folded[i].lead = append(folded[i].lead, e.lead...)
			folded[i].other = append(folded[i].other, e.other...)
			continue
		}
		at[alike] = len(folded)
		folded = append(folded, e)
	}
	return folded
}

func foldKeyOf(e entry, all bool) foldKey {
	s := e.lead[0]
	alike := foldKey{symbol: e.symbol, image: s.Image, build: s.Build, format: s.Format, provider: s.Provider,
		pool: s.Pool, label: s.Label, kind: s.Type, action: s.Action, thing: s.Thing, reason: s.Reason,
		recorded: s.Record.ID != "", changes: changesKey(e), facts: factsKey(s, all)}
	if s.Thing == plan.ThingUpload {
		alike.provider = "" // the entry lists the providers
	}
	if s.Action == plan.ActionDelete && s.Thing != plan.ThingFile {
		alike.build = ""
	}
	if values := valuesDetail(e, true); values != nil {
		alike.values = values.String()
	}
	if s.Move != nil {
		alike.from, alike.to = s.Move.From, s.Move.To
	}
	if len(e.other) > 0 {
		alike.other = e.other[0].Reason
		alike.facts += "\x01" + factsKey(e.other[0], all)
	}
	return alike
}

func factsKey(s *plan.Step, all bool) string {
	switch {
	case len(s.Evidence) == 0:
		return ""
	case len(s.Evidence) == 1 && !all:
		return s.Evidence[0].Name
	}
	var b strings.Builder
	for _, f := range s.Evidence {
		b.WriteString(f.Name)
		if all {
			b.WriteByte('=')
			b.WriteString(f.Value)
		}
		b.WriteByte(0)
	}
	return b.String()
}

func changesKey(e entry) string {
	changes := changesOf(e)
	if len(changes) == 0 {
		return ""
	}
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.Attribute + "\x00" + c.Before + "\x00" + c.After + "\x00")
		if c.Forces {
			b.WriteByte('!')
		}
	}
	return b.String()
}

// changesOf returns the changes of an entry's first object, from both halves of a replacement.
func changesOf(e entry) []plan.Change {
	changes := e.lead[0].Changes
	if len(e.other) == 0 || len(e.other[0].Changes) == 0 {
		return changes
	}
	seen := make(map[plan.Change]bool, len(changes))
	both := make([]plan.Change, 0, len(changes))
	for _, half := range [][]plan.Change{changes, e.other[0].Changes} {
		for _, c := range half {
			if !seen[c] {
				seen[c] = true
				both = append(both, c)
			}
		}
	}
	return both
}

// fact is one name of evidence with the distinct values of the folded steps.
type fact struct {
	name   string
	values []string
	seen   map[string]bool
}

// factsOf merges the evidence of folded steps. It omits facts that the title contains.
func factsOf(steps []*plan.Step) []fact {
	var facts []fact
	for _, s := range steps {
		item := itemOf(s)
		for i, f := range s.Evidence {
			if f.Value == item || f.Name == estimateRunsFact {
				continue
			}
			j := factAt(facts, f.Name, i)
			if j < 0 {
				facts = append(facts, fact{name: f.Name})
				j = len(facts) - 1
			}
			facts[j].add(f.Value)
		}
	}
	return facts
}

func (f *fact) add(value string) {
	if len(f.values) == 0 {
		f.values = append(f.values, value)
		return
	}
	if f.seen == nil {
		f.seen = map[string]bool{f.values[0]: true}
	}
	if !f.seen[value] {
		f.seen[value] = true
		f.values = append(f.values, value)
	}
}

// factAt tries the index guess first: folded steps mostly have their facts in the same order.
func factAt(facts []fact, name string, guess int) int {
	if guess < len(facts) && facts[guess].name == name {
		return guess
	}
	for i := range facts {
		if facts[i].name == name {
			return i
		}
	}
	return -1
}
