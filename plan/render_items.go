package plan

import (
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// renderShown is the maximum number of objects that a folded entry names.
const renderShown = 12

// renderItems lists the objects of a folded entry, at most renderShown unless all is set.
func renderItems(e renderEntry, all bool) string {
	s := e.lead[0]
	if len(e.lead) < 2 || s.Action == ActionUpload || renderItem(s) == "" {
		return ""
	}
	if renderStatic(s) && !all {
		if machines := renderSlots(e.lead); len(machines) > 1 {
			return renderList(machines, all)
		}
		return "" // the title names it
	}
	words := make([]string, 0, renderShown)
	for i, s := range e.lead {
		if i >= renderShown && !all {
			break
		}
		words = append(words, renderItemWords(s, all))
	}
	return renderList(words, all) + renderMore(len(e.lead)-len(words))
}

func renderItemWords(s *Step, all bool) string {
	word := renderSafe(renderItem(s))
	if s.Thing == ThingUpload {
		word += " in " + renderSafe(s.Provider)
	}
	if all && s.External != "" {
		word += " (" + renderSafe(s.External) + ")"
	}
	return word
}

func renderList(words []string, all bool) string {
	if len(words) > renderShown && !all {
		return strings.Join(words[:renderShown], ", ") + renderMore(len(words)-renderShown)
	}
	return strings.Join(words, ", ")
}

func renderMore(n int) string {
	if n == 0 {
		return ""
	}
	return " and " + strconv.Itoa(n) + " more"
}

// renderMachines counts static nodes, and their slots if one of them has several.
func renderMachines(steps []*Step) string {
	machines := renderSlots(steps)
	switch {
	case len(machines) == len(steps):
		return text.Count(len(machines), "static node", "static nodes")
	case len(machines) == 1:
		return machines[0]
	default:
		return text.Count(len(steps), "slot", "slots") + " of " + text.Count(len(machines), "static node", "static nodes")
	}
}

// renderSlots names each static node once, with its number of slots in the steps.
func renderSlots(steps []*Step) []string {
	slots := map[string]int{}
	var names []string
	for _, s := range steps {
		if slots[s.Node]++; slots[s.Node] == 1 {
			names = append(names, s.Node)
		}
	}
	for i, name := range names {
		names[i] = renderSafe(name)
		if n := slots[name]; n > 1 {
			names[i] += " (" + text.Count(n, "slot", "slots") + ")"
		}
	}
	return names
}
