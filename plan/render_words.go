package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// All functions below return text that renderSafe has escaped or that contains no text from other sources.

// renderItem returns the name of a step's object, without its kind, or "" if it has none yet. It is not escaped.
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

// renderStatic reports whether a step is about a slot of a static node, which is named after its machine.
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

// renderTitle describes an entry in one line that is clear without its context.
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
		return text.Count(n, "node", "nodes") + renderPlaceText(s)
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

// renderThings names the object of an entry, or counts its objects.
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
		return text.Count(n, "node", "nodes") + renderPlaceText(s)
	case s.Thing == ThingNode:
		return "node " + item + renderPlaceText(s) + renderCloudID(s)
	case n > 1:
		return text.Count(n, string(s.Thing), string(s.Thing)+"s") + renderOf(s)
	case s.Thing == ThingUpload:
		return "upload " + item + renderOf(s) + " in " + renderSafe(s.Provider) + renderCloudID(s)
	default:
		return string(s.Thing) + " " + item + renderOf(s)
	}
}

// renderMoved names a node with a successor in another pool, or counts them.
func renderMoved(e renderEntry) string {
	s, words := e.lead[0], text.Count(len(e.lead), "node", "nodes")
	if len(e.lead) == 1 {
		words = "node " + renderSafe(s.Move.Node)
	}
	if s.Label != "" {
		words += " " + renderSafe(s.Label)
	}
	return words
}

// renderSpot returns a pool with the flavor of the node, if it is known.
func renderSpot(at NodePlacement) string {
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

// renderCloudID returns the cloud's ID, which operators compare with the listing of the cloud before they approve a
// delete.
func renderCloudID(s *Step) string {
	if s.External == "" || s.External == renderItem(s) {
		return ""
	}
	return ", cloud id " + renderSafe(s.External)
}

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

// renderAnd joins words with commas and "and".
func renderAnd(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
