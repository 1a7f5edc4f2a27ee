// Package render prints plans as text, Markdown, JSON and graphs.
package render

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
)

// TextOptions control the text output of a plan.
type TextOptions struct {
	Color   bool      // use colors; the caller has checked the terminal and NO_COLOR
	Width   int       // columns to wrap at; 0 means no wrapping
	Verbose bool      // no omissions: all evidence, names, addresses and dependencies
	Concise bool      // one line per entry
	Now     time.Time // current time, to print the estimated end; zero: not printed
}

// Text prints the plan: a table of the actions by block, the steps of each block, unchanged objects, deferred
// providers, notes and problems, and always the Summary as its last line. Names from clouds are escaped, so that they
// cannot control a terminal.
func Text(w io.Writer, p plan.Plan, o TextOptions) error {
	t := newTextWriter(w, o)
	summary := p.Summary()
	groups := groupSteps(p, o.Verbose)
	if !o.Concise {
		t.table(tableRows(groups, o.Verbose))
		t.takes(criticalPath(p.Steps), o.Now)
	}
	for _, g := range groups {
		t.group(g, o)
	}
	t.unchanged(p.Unchanged, o)
	if !o.Concise {
		t.section(leastTitle, leastLines(p.Least, o.Verbose))
		t.section("Cost", costLines(p.Cost, o.Verbose))
	}
	t.deferred(p)
	t.notes(p, o)
	t.problems(p.Problems)
	if !o.Concise && t.written {
		t.line("", 0)
	}
	t.unwrapped(span{summary.String(), styleStrong}) // on one line, for tools that search for it
	return t.flush()
}

// group prints the steps of one block.
func (t *textWriter) group(g group, o TextOptions) {
	if !o.Concise {
		t.heading(safe(g.title))
	}
	for _, e := range g.entries {
		title := " " + titleOf(e)
		if o.Concise {
			title += " (" + safe(string(e.lead[0].Reason)) + ")"
		} else if estimate := estimateText(e); estimate != "" {
			title += ", " + estimate
		}
		t.line(strings.Repeat(" ", 3-len(e.symbol)), 6, span{e.symbol, symbolStyle(e.symbol)}, span{title, stylePlain})
		if o.Concise {
			continue
		}
		for _, line := range detailsOf(e, o.Verbose, false) {
			t.line("      ", 8, line...)
		}
	}
}

func symbolStyle(symbol string) style {
	switch symbol {
	case symbolMake:
		return styleMake
	case symbolRemove, symbolLeak, symbolRemoveMake, symbolMakeRemove:
		return styleRemove
	default:
		return styleChange
	}
}

// heading starts a section, separated from the one before it.
func (t *textWriter) heading(text string) {
	if t.written {
		t.line("", 0)
	}
	t.line("", 0, span{text, styleStrong})
}

func (t *textWriter) takes(seconds float64, now time.Time) {
	if seconds == 0 {
		return
	}
	text := "Takes at least " + durationText(seconds) + ", based on earlier runs"
	if !now.IsZero() {
		end := now.Add(time.Duration(seconds * float64(time.Second)))
		text += ": until about " + end.Format("15:04 MST")
		if end.YearDay() != now.YearDay() {
			text = strings.TrimSuffix(text, end.Format("15:04 MST")) + end.Format("15:04 MST on 2 January")
		}
	}
	t.line("", 0)
	t.line("", 0, span{text + ".", stylePlain})
}

// unchanged prints the number of unchanged objects, or lists them.
func (t *textWriter) unchanged(things plan.Unchanged, o TextOptions) {
	switch {
	case things.IsZero() || o.Concise:
	case o.Verbose:
		t.heading("Unchanged")
		for _, at := range things.Addresses() {
			t.line("  ", 6, span{safe(string(at)), styleFaint})
		}
	default:
		if t.written {
			t.line("", 0)
		}
		t.line("", 0, span{"(" + strconv.Itoa(things.Count()) + " unchanged hidden)", styleFaint})
	}
}

// deferred lists the providers that could not be listed, with their notes.
func (t *textWriter) deferred(p plan.Plan) {
	if len(p.Deferred) == 0 {
		return
	}
	t.heading("Skipped, because they could not be listed")
	for _, name := range p.Deferred {
		t.line("  ", 6, span{"provider." + safe(name), styleChange})
		for _, n := range p.Notes {
			if isDeferralNote(n, name) {
				t.line("      ", 8, noteDetail("", n)...)
			}
		}
	}
}

func isDeferralNote(n plan.Note, provider string) bool {
	return n.Code == "deferred" && string(n.Address) == "provider."+provider
}

// notesShown is the maximum number of printed notes with the same code.
const notesShown = 10

// notes prints the notes, warnings first, and at most notesShown with the same code.
func (t *textWriter) notes(p plan.Plan, o TextOptions) {
	notes := notesOf(p)
	if len(notes) == 0 {
		return
	}
	t.heading("Notes")
	shown, hidden := map[string]int{}, map[string]int{}
	for _, n := range notes {
		if shown[n.Code] >= notesShown && !o.Verbose {
			hidden[n.Code]++
			continue
		}
		shown[n.Code]++
		word, style := "note", stylePlain
		if n.Severity == plan.Warning {
			word, style = "warning", styleChange
		}
		t.line("  ", 6, append([]span{{word, style}}, noteDetail(": ", n)...)...)
	}
	for _, n := range notes {
		if more := hidden[n.Code]; more > 0 {
			t.line("  ", 6, span{"(" + strconv.Itoa(more) + " more " + safe(n.Code) + " hidden)", styleFaint})
			hidden[n.Code] = 0
		}
	}
}

// notesOf returns the notes that no other section prints, warnings first.
func notesOf(p plan.Plan) []plan.Note {
	deferred := map[plan.Address]bool{}
	for _, name := range p.Deferred {
		deferred[plan.Address("provider."+name)] = true
	}
	var notes []plan.Note
	for _, n := range p.Notes {
		if n.Code != "deferred" || !deferred[n.Address] {
			notes = append(notes, n)
		}
	}
	slices.SortStableFunc(notes, func(a, b plan.Note) int {
		return cmp.Compare(severityRank(a.Severity), severityRank(b.Severity))
	})
	return notes
}

func severityRank(s plan.Severity) int {
	if s == plan.Warning {
		return 0
	}
	return 1
}

// noteDetail returns a note after lead.
func noteDetail(lead string, n plan.Note) detail {
	text := safe(n.Text)
	if at := safe(string(n.Address)); at != "" && n.Code != "deferred" && !strings.Contains(text, at) {
		text = at + ": " + text
	}
	return detail{{lead + text, stylePlain}, {" (" + safe(n.Code) + ")" + sourceText(n.Source.String()), styleFaint}}
}

func sourceText(source string) string {
	if source == "" {
		return ""
	}
	return " [" + safe(source) + "]"
}

// problems prints the problems, which prevent the plan from being applied.
func (t *textWriter) problems(problems []plan.Problem) {
	if len(problems) == 0 {
		return
	}
	t.heading("Problems")
	for _, p := range problems {
		t.line("  ", 6, span{"error", styleRemove}, span{": " + problemText(p), stylePlain},
			span{sourceText(p.Source.String()), styleFaint})
		if p.Hint != "" {
			t.line("      ", 8, span{safe(p.Hint), stylePlain})
		}
	}
	if held := problemsHint(problems); held != "" {
		t.line("  ", 6, span{held, styleChange})
	}
}

func problemText(p plan.Problem) string {
	if p.Address == "" {
		return safe(p.Text)
	}
	return safe(string(p.Address)) + ": " + safe(p.Text)
}

// problemsHint returns the effect of the problems: nothing is applied, so that a part of a plan is never mistaken for
// the whole.
func problemsHint(problems []plan.Problem) string {
	if len(problems) == 0 {
		return ""
	}
	return "npctl applies nothing until this is solved; -exclude=ADDRESS omits an object from the plan."
}
