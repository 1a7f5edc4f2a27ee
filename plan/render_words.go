package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// Everything here returns text that renderSafe has been over, or that holds nothing foreign.

// renderItem names the thing a step is about, without its kind; empty when it has no name yet. It is not escaped.
func renderItem(s *Step) string {
	switch {
	case s.Thing == ThingFile:
		return renderFileName(s)
	case s.Thing == ThingLeftover:
		return s.External
	case s.Thing == ThingRecord:
		if s.Record.ID != "" {
			return s.Record.String()
		}
		return string(s.Address)
	case renderStatic(s) && strings.HasSuffix(string(s.Address), "]"):
		return s.Node + "[" + strconv.FormatInt(s.Slot, 10) + "]"
	case renderStatic(s):
		return s.Node
	case s.Record.ID != "":
		return s.Record.ID
	case s.Move != nil:
		return s.Move.Node
	case s.Thing == ThingBuild && s.Build != "":
		return s.Build
	default:
		return s.External
	}
}

// renderStatic reports whether a step is about a slot of a machine that exists, which goes by the machine's name.
func renderStatic(s *Step) bool {
	return s.Thing == ThingNode && s.Node != ""
}

func renderFileName(s *Step) string {
	for _, f := range s.Evidence {
		if f.Name == "file" {
			return f.Value
		}
	}
	return strings.TrimPrefix(string(s.Address), "file.")
}

// renderTitle says what an entry does, in one line that can be understood without those around it.
func renderTitle(e renderEntry) string {
	s, n := e.lead[0], len(e.lead)
	switch {
	case len(e.other) > 0:
		return "replace " + renderThings(e)
	case s.Action == ActionLaunch && s.Move != nil:
		return "move " + renderMoved(e) + " from " + renderSpot(s.Move.From) + " to " + renderSpot(s.Move.To)
	case s.Move != nil:
		return string(s.Action) + " " + renderThings(e) + ", moved to " + renderSpot(s.Move.To)
	case s.Action == ActionLaunch && s.Record.ID == "":
		return renderCount(n, "node") + renderPlaceText(s)
	case s.Action == ActionBuild:
		return "build " + renderSafe(s.Image) + renderParens(s.Formats)
	case s.Action == ActionConvert:
		return "convert " + renderSafe(s.Image) + " to " + renderSafe(s.Format)
	case s.Action == ActionUpload:
		return "upload " + renderSafe(s.Image) + renderParens([]string{s.Format}) + " to " + renderProviders(e.lead)
	default:
		return string(s.Action) + " " + renderThings(e)
	}
}

// renderThings names what an entry acts on, or counts it.
func renderThings(e renderEntry) string {
	s, n := e.lead[0], len(e.lead)
	item := renderSafe(renderItem(s))
	switch {
	case renderStatic(s) && n > 1:
		return renderMachines(e.lead) + renderPlaceText(s)
	case renderStatic(s):
		return item + renderPlaceText(s)
	case s.Thing == ThingLeftover && s.Reason == ReasonLeaked:
		return "leaked " + renderSafe(s.Type) + " " + item + " in " + renderSafe(s.Provider)
	case s.Thing == ThingLeftover:
		return renderSafe(s.Type) + " " + item + " in " + renderSafe(s.Provider)
	case s.Thing == ThingRecord && n == 1:
		return "record " + item
	case s.Thing == ThingNode && n > 1:
		return renderCount(n, "node") + renderPlaceText(s)
	case s.Thing == ThingNode:
		return "node " + item + renderPlaceText(s) + renderCloudID(s)
	case n > 1:
		return renderCount(n, string(s.Thing)) + renderOf(s)
	case s.Thing == ThingUpload:
		return "upload " + item + renderOf(s) + " in " + renderSafe(s.Provider) + renderCloudID(s)
	default:
		return string(s.Thing) + " " + item + renderOf(s)
	}
}

// renderMoved names a node that gets its successor elsewhere, or counts them.
func renderMoved(e renderEntry) string {
	s, text := e.lead[0], renderCount(len(e.lead), "node")
	if len(e.lead) == 1 {
		text = "node " + renderSafe(s.Move.Node)
	}
	if s.Label != "" {
		text += " " + renderSafe(s.Label)
	}
	return text
}

// renderSpot is a pool with the flavor of the node there, if it is known.
func renderSpot(at Spot) string {
	text := renderSafe(at.Provider) + "/" + renderSafe(at.Pool)
	if at.Flavor != "" {
		text += " (" + renderSafe(at.Flavor) + ")"
	}
	return text
}

func renderPlaceText(s *Step) string {
	text := ""
	if s.Label != "" {
		text = " " + renderSafe(s.Label)
	}
	switch {
	case s.Pool != "":
		return text + " in " + renderSafe(s.Provider) + "/" + renderSafe(s.Pool)
	case s.Provider != "":
		return text + " in " + renderSafe(s.Provider)
	default:
		return text
	}
}

func renderOf(s *Step) string {
	if s.Image == "" {
		return ""
	}
	return " of " + renderSafe(s.Image)
}

// renderCloudID is what people compare with the cloud's own listing before they agree to a delete.
func renderCloudID(s *Step) string {
	if s.External == "" || s.External == renderItem(s) {
		return ""
	}
	return ", cloud id " + renderSafe(s.External)
}

func renderCount(n int, noun string) string { return text.Count(n, noun, noun+"s") }

func renderParens(words []string) string {
	if text := renderSafe(strings.Join(words, ", ")); text != "" {
		return " (" + text + ")"
	}
	return ""
}

func renderProviders(steps []*Step) string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = renderSafe(s.Provider)
	}
	slices.Sort(names)
	return renderAnd(names)
}

// renderAnd joins words as people do.
func renderAnd(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
