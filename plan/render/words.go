package render

import (
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
)

// All functions below return text that safe has escaped or that contains no text from other sources.

// itemOf returns the name of a step's object, without its kind, or "" if it has none yet. It is not escaped.
func itemOf(s *plan.Step) string {
	switch {
	case s.Thing == plan.ThingFile:
		return fileName(s)
	case s.Thing == plan.ThingLeftover:
		return s.External
	case s.Thing == plan.ThingRecord:
		if s.Record.ID != "" {
			return s.Record.String()
		}
		return string(s.Address)
	case isStatic(s) && strings.HasSuffix(string(s.Address), "]"):
		return s.Node + "[" + strconv.FormatInt(s.Slot, 10) + "]"
	case isStatic(s):
		return s.Node
	case s.Record.ID != "":
		return s.Record.ID
	case s.Move != nil:
		return s.Move.Node
	case s.Thing == plan.ThingBuild && s.Build != "":
		return s.Build
	default:
		return s.External
	}
}

// isStatic reports whether a step is about a slot of a static node, which is named after its machine.
func isStatic(s *plan.Step) bool {
	return s.Thing == plan.ThingNode && s.Node != ""
}

func fileName(s *plan.Step) string {
	for _, f := range s.Evidence {
		if f.Name == "file" {
			return f.Value
		}
	}
	return strings.TrimPrefix(string(s.Address), "file.")
}

// titleOf describes an entry in one line that is clear without its context.
func titleOf(e entry) string {
	s, n := e.lead[0], len(e.lead)
	switch {
	case len(e.other) > 0:
		return "replace " + objectsText(e)
	case s.Kind == plan.KindLaunch && s.Move != nil:
		return "move " + movedText(e) + " from " + placementText(s.Move.From) + " to " + placementText(s.Move.To)
	case s.Move != nil:
		return string(s.Action) + " " + objectsText(e) + ", moved to " + placementText(s.Move.To)
	case s.Kind == plan.KindLaunch && s.Record.ID == "":
		return text.Count(n, "node", "nodes") + poolText(s)
	case s.Kind == plan.KindValidate:
		return "test the new build of " + safe(s.Image) + " in " + safe(s.Provider) + " with " + text.Count(n, "node", "nodes") + poolText(s)
	case s.Kind == plan.KindBuild:
		return "build " + safe(s.Image) + parens(s.Formats)
	case s.Kind == plan.KindConvert:
		return "convert " + safe(s.Image) + " to " + safe(s.Format)
	case s.Kind == plan.KindUpload:
		return "upload " + safe(s.Image) + parens([]string{s.Format}) + " to " + providersText(e.lead)
	default:
		return string(s.Action) + " " + objectsText(e)
	}
}

// objectsText names the object of an entry, or counts its objects.
func objectsText(e entry) string {
	s, n := e.lead[0], len(e.lead)
	item := safe(itemOf(s))
	switch {
	case isStatic(s) && n > 1:
		return machinesText(e.lead) + poolText(s)
	case isStatic(s):
		return item + poolText(s)
	case s.Thing == plan.ThingLeftover && s.Reason == plan.ReasonLeaked:
		return "leaked " + safe(s.Type) + " " + item + " in " + safe(s.Provider)
	case s.Thing == plan.ThingLeftover:
		return safe(s.Type) + " " + item + " in " + safe(s.Provider)
	case s.Thing == plan.ThingRecord && n == 1:
		return "record " + item
	case s.Thing == plan.ThingNode && n > 1:
		return text.Count(n, "node", "nodes") + poolText(s)
	case s.Thing == plan.ThingNode:
		return "node " + item + poolText(s) + cloudID(s)
	case n > 1:
		return text.Count(n, string(s.Thing), string(s.Thing)+"s") + ofImage(s)
	case s.Thing == plan.ThingUpload:
		return "upload " + item + ofImage(s) + " in " + safe(s.Provider) + cloudID(s)
	default:
		return string(s.Thing) + " " + item + ofImage(s)
	}
}

// movedText names a node with a successor in another pool, or counts them.
func movedText(e entry) string {
	s, words := e.lead[0], text.Count(len(e.lead), "node", "nodes")
	if len(e.lead) == 1 {
		words = "node " + safe(s.Move.Node)
	}
	if s.Label != "" {
		words += " " + safe(s.Label)
	}
	return words
}

// placementText returns a pool with the flavor of the node, if it is known.
func placementText(at plan.NodePlacement) string {
	text := safe(at.Provider) + "/" + safe(at.Pool)
	if at.Flavor != "" {
		text += " (" + safe(at.Flavor) + ")"
	}
	return text
}

func poolText(s *plan.Step) string {
	text := ""
	if s.Label != "" {
		text = " " + safe(s.Label)
	}
	switch {
	case s.Pool != "":
		return text + " in " + safe(s.Provider) + "/" + safe(s.Pool)
	case s.Provider != "":
		return text + " in " + safe(s.Provider)
	default:
		return text
	}
}

func ofImage(s *plan.Step) string {
	if s.Image == "" {
		return ""
	}
	return " of " + safe(s.Image)
}

// cloudID returns the cloud's ID, which operators compare with the listing of the cloud before they approve a
// delete.
func cloudID(s *plan.Step) string {
	if s.External == "" || s.External == itemOf(s) {
		return ""
	}
	return ", cloud id " + safe(s.External)
}

func parens(words []string) string {
	if text := safe(strings.Join(words, ", ")); text != "" {
		return " (" + text + ")"
	}
	return ""
}

func providersText(steps []*plan.Step) string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = safe(s.Provider)
	}
	slices.Sort(names)
	return text.And(names)
}

// safe returns s as one line without characters that a terminal or a browser would interpret.
func safe(s string) string { return text.Line(s) }
