package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Everything here returns text that renderSafe has been over, or that holds nothing foreign.

// factRuns is the name of the fact that says how many earlier runs an estimate rests on.
const factRuns = "runs"

// renderShown is how many things of a folded entry are named.
const renderShown = 12

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
	case s.Action == ActionRegister && s.Slot > 0:
		return s.Node + "/" + strconv.FormatInt(s.Slot, 10)
	case s.Action == ActionRegister:
		return s.Node
	case s.Record.ID != "":
		return s.Record.ID
	case s.Thing == ThingBuild && s.Build != "":
		return s.Build
	default:
		return s.External
	}
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
	case s.Action == ActionRegister && n > 1:
		return renderCount(n, "static node") + renderPlaceText(s)
	case s.Action == ActionRegister:
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

func renderCount(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
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

// renderAnd joins words as people do.
func renderAnd(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// renderItems lists the things of a folded entry, the first few of them unless all are asked for.
func renderItems(e renderEntry, all bool) string {
	s := e.lead[0]
	if len(e.lead) < 2 || s.Action == ActionUpload || renderItem(s) == "" {
		return ""
	}
	shown := e.lead
	if !all && len(shown) > renderShown {
		shown = shown[:renderShown]
	}
	var b strings.Builder
	for i, s := range shown {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(renderSafe(renderItem(s)))
		if s.Thing == ThingUpload {
			b.WriteString(" in " + renderSafe(s.Provider))
		}
		if all && s.External != "" {
			b.WriteString(" (" + renderSafe(s.External) + ")")
		}
	}
	if more := len(e.lead) - len(shown); more > 0 {
		b.WriteString(" and " + strconv.Itoa(more) + " more")
	}
	return b.String()
}

// renderEstimate says how long an entry's steps will take, going by earlier runs: "about 12 min, from 14 runs".
func renderEstimate(e renderEntry) string {
	steps := e.made()
	least, most := math.Inf(1), 0.0
	for _, s := range steps {
		if s.Estimate > 0 {
			least, most = min(least, s.Estimate), max(most, s.Estimate)
		}
	}
	if most == 0 {
		return ""
	}
	text := renderDuration(most)
	if from := renderDuration(least); from != text {
		text = from + " to " + text
	}
	text = "about " + text
	if len(steps) > 1 {
		text += " each"
	}
	return text + renderRuns(steps[0])
}

func renderRuns(s *Step) string {
	for _, f := range s.Evidence {
		switch {
		case f.Name == factRuns && f.Value == "1":
			return ", from 1 run"
		case f.Name == factRuns:
			return ", from " + renderSafe(f.Value) + " runs"
		}
	}
	return ""
}

// renderDuration rounds to what a guess deserves.
func renderDuration(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)).Round(time.Second); {
	case d < time.Second:
		return "1 s"
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(math.Round(d.Minutes())))
	default:
		minutes := int(math.Round(d.Minutes()/5)) * 5
		if minutes%60 == 0 {
			return fmt.Sprintf("%d h", minutes/60)
		}
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	}
}

// renderTakes is the longest chain of estimates in the plan. Steps without an estimate count nothing, and nobody knows
// how many can run at a time, so it is the least that applying will take.
func renderTakes(steps []Step) float64 {
	if !slices.ContainsFunc(steps, func(s Step) bool { return s.Estimate > 0 }) {
		return 0
	}
	ends := make(map[string]float64, len(steps))
	longest := 0.0
	for i := range steps {
		s := &steps[i]
		start := 0.0
		for _, before := range [][]string{s.Needs, s.After} {
			for _, id := range before {
				start = max(start, ends[id])
			}
		}
		ends[s.ID] = start + s.Estimate
		longest = max(longest, ends[s.ID])
	}
	return longest
}
