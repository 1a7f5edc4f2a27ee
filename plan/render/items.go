package render

import (
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
)

// itemLimit is the maximum number of objects that a folded entry names.
const itemLimit = 12

// itemsText lists the objects of a folded entry, at most itemLimit unless all is set.
func itemsText(e entry, all bool) string {
	s := e.lead[0]
	if len(e.lead) < 2 || s.Kind == plan.KindUpload || itemOf(s) == "" {
		return ""
	}
	if isStatic(s) && !all {
		if machines := machineNames(e.lead); len(machines) > 1 {
			return listText(machines, all)
		}
		return "" // the title names it
	}
	words := make([]string, 0, itemLimit)
	for i, s := range e.lead {
		if i >= itemLimit && !all {
			break
		}
		words = append(words, itemText(s, all))
	}
	return listText(words, all) + moreText(len(e.lead)-len(words))
}

func itemText(s *plan.Step, all bool) string {
	word := safe(itemOf(s))
	if s.Thing == plan.ThingUpload {
		word += " in " + safe(s.Provider)
	}
	if all && s.External != "" {
		word += " (" + safe(s.External) + ")"
	}
	return word
}

func listText(words []string, all bool) string {
	if len(words) > itemLimit && !all {
		return strings.Join(words[:itemLimit], ", ") + moreText(len(words)-itemLimit)
	}
	return strings.Join(words, ", ")
}

func moreText(n int) string {
	if n == 0 {
		return ""
	}
	return " and " + strconv.Itoa(n) + " more"
}

// machinesText counts static nodes, and their slots if one of them has several.
func machinesText(steps []*plan.Step) string {
	machines := machineNames(steps)
	switch {
	case len(machines) == len(steps):
		return text.Count(len(machines), "static node", "static nodes")
	case len(machines) == 1:
		return machines[0]
	default:
		return text.Count(len(steps), "slot", "slots") + " of " + text.Count(len(machines), "static node", "static nodes")
	}
}

// machineNames names each static node once, with its number of slots in the steps.
func machineNames(steps []*plan.Step) []string {
	slots := map[string]int{}
	var names []string
	for _, s := range steps {
		if slots[s.Node]++; slots[s.Node] == 1 {
			names = append(names, s.Node)
		}
	}
	for i, name := range names {
		names[i] = safe(name)
		if n := slots[name]; n > 1 {
			names[i] += " (" + text.Count(n, "slot", "slots") + ")"
		}
	}
	return names
}
