package render

import (
	"io"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// effectParts groups the steps of an effect by block, with words before the titles of blocks with dropped or altered steps.
func effectParts(e plan.Effect) []group {
	groups := groupSteps(plan.Plan{Steps: e.Added}, false)
	groups = append(groups, titled("no longer: ", groupSteps(plan.Plan{Steps: e.Dropped}, false))...)
	return append(groups, titled("differently: ", groupSteps(plan.Plan{Steps: e.Altered}, false))...)
}

func titled(words string, groups []group) []group {
	for i := range groups {
		groups[i].title = words + groups[i].title
	}
	return groups
}

// effectNotes returns a plan without steps that has the notes and problems of the effect.
func effectNotes(e plan.Effect) plan.Plan {
	return plan.Plan{Deferred: e.Deferred, Notes: e.Notes, Problems: e.Problems}
}

// EffectText prints the effect of a change: the settings that differ, the steps that only one of the plans has or that differ, and always
// its summary as the last line.
func EffectText(w io.Writer, e plan.Effect, o TextOptions) error {
	t := newTextWriter(w, o)
	t.settings(e.Differences)
	for _, g := range effectParts(e) {
		t.group(g, o)
	}
	t.section(leastTitle, leastLines(e.Least, o.Verbose))
	t.section("Cost", costChangeLines(e.Cost, o.Verbose))
	p := effectNotes(e)
	t.deferred(p)
	t.notes(p, o)
	t.problems(p.Problems)
	for _, line := range commonLines(e) {
		if t.written {
			t.line("", 0)
		}
		t.line("", 0, span{line, styleFaint})
	}
	if t.written {
		t.line("", 0)
	}
	t.unwrapped(span{e.String(), styleStrong})
	return t.flush()
}

// commonLines counts the steps and problems that both plans have.
func commonLines(e plan.Effect) (lines []string) {
	if e.Common > 0 {
		lines = append(lines, "("+text.Count(e.Common, "step that is", "steps that are")+" due with and without the change hidden)")
	}
	if n := len(e.CommonProblems); n > 0 {
		lines = append(lines, "("+text.Count(n, "problem", "problems")+" with and without the change: npctl plan shows them)")
	}
	return lines
}

// whenApplied says when a difference of a class takes effect.
var whenApplied = map[string]string{"in place": "at once", "applied to new": "for new objects", "replacing": "replaces objects"}

// settings prints the differences of the configuration.
func (t *textWriter) settings(differences []resources.Difference) {
	if len(differences) == 0 {
		return
	}
	t.heading("Settings")
	for _, d := range differences {
		t.line("  ", 6, settingDetail(d)...)
	}
}

// settingDetail returns the line of a difference.
func settingDetail(d resources.Difference) detail {
	at := sourceText(d.Source.String())
	if d.Block != "" {
		symbol, style := symbolMake, styleMake
		if d.Block == resources.BlockRemoved {
			symbol, style = symbolRemove, styleRemove
		}
		return detail{{symbol, style}, {" " + safe(d.Address), stylePlain}, {at, styleFaint}}
	}
	value := func(text string) string {
		if text == "" {
			return "(not set)"
		}
		return safe(text)
	}
	line := detail{{symbolChange, styleChange}, {" " + safe(d.Address) + " " + safe(d.Attribute) + ": ", stylePlain}}
	if d.Before == "" && d.Attribute == plan.InputFiles {
		line = append(line, span{safe(d.After), stylePlain})
	} else {
		line = append(line, span{value(d.Before) + " -> " + value(d.After), stylePlain})
	}
	if when := whenApplied[d.Class]; when != "" {
		line = append(line, span{", " + when, stylePlain})
	}
	return append(line, span{at, styleFaint})
}

// effectLeast is the minimum limit of an effect, which has two or three times the counts of a plan in its summary.
const effectLeast = 2 * markdownLeast

// EffectMarkdown writes the effect for a review comment of at most limit bytes, as Markdown does for a plan.
func EffectMarkdown(w io.Writer, e plan.Effect, limit int) error {
	return writeMarkdown(w, "effect", limit, effectLeast, func(limit int) string { return effectMarkdown(e, limit) })
}

func effectMarkdown(e plan.Effect, limit int) string {
	head, tail := "### "+e.String()+"\n\n", e.String()+"\n"
	if common := commonLines(e); len(common) > 0 {
		tail = strings.Join(common, "\n\n") + "\n\n" + tail
	}
	budget := limit - len(head) - len(tail) - markdownReserve
	p := effectNotes(e)
	problems := markdownSection("Problems", markdownProblems(p.Problems), budget/2)
	budget -= len(problems)
	deferred := markdownSection("Skipped, because they could not be listed", markdownDeferred(p), budget/2)
	budget -= len(deferred)
	var lines []string
	for _, d := range e.Differences {
		lines = append(lines, text.Cut(settingDetail(d).String(), markdownLineLimit))
	}
	settings := markdownSection("Settings", lines, budget/2)
	budget -= len(settings)
	least := markdownSection(leastTitle, leastLines(e.Least, false), budget/2)
	budget -= len(least)
	cost := markdownSection("Cost", costChangeLines(e.Cost, false), budget/2)
	budget -= len(cost)
	details := markdownDetails(effectParts(e), &budget)
	notes := markdownSection("Notes", markdownNotes(p), budget)
	return head + problems + deferred + settings + least + cost + details + notes + tail
}
