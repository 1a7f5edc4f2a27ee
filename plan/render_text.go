package plan

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TextOptions control the text output of a plan.
type TextOptions struct {
	Color   bool      // use colors; the caller has checked the terminal and NO_COLOR
	Width   int       // columns to wrap at; 0 means no wrapping
	Verbose bool      // no omissions: all evidence, names, addresses and dependencies
	Concise bool      // one line per entry
	Now     time.Time // current time, to print the estimated end; zero: not printed
}

// WriteText prints the plan: a table of the actions by block, the steps of each block, unchanged objects, deferred
// providers, notes and problems, and always the Summary as its last line. Names from clouds are escaped, so that they
// cannot control a terminal.
func (p Plan) WriteText(w io.Writer, o TextOptions) error {
	t := newTextWriter(w, o)
	summary := p.Summary()
	groups := renderGroups(p, o.Verbose)
	if !o.Concise {
		t.table(renderTable(groups, o.Verbose), summary)
		t.takes(criticalPath(p.Steps), o.Now)
	}
	for _, g := range groups {
		t.group(g, o)
	}
	t.unchanged(p.Unchanged, o)
	t.deferred(p)
	t.notes(p, o)
	t.problems(p.Problems)
	if !o.Concise && t.written {
		t.line("", 0)
	}
	t.unwrapped(renderSpan{summary.String(), styleStrong}) // on one line, for tools that search for it
	return t.flush()
}

// group prints the steps of one block.
func (t *textWriter) group(g renderGroup, o TextOptions) {
	if !o.Concise {
		t.heading(renderSafe(g.title))
	}
	for _, e := range g.entries {
		title := " " + renderTitle(e)
		if o.Concise {
			title += " (" + renderSafe(string(e.lead[0].Reason)) + ")"
		} else if estimate := renderEstimate(e); estimate != "" {
			title += ", " + estimate
		}
		t.line(strings.Repeat(" ", 3-len(e.symbol)), 6, renderSpan{e.symbol, renderSymbolStyle(e.symbol)}, renderSpan{title, stylePlain})
		if o.Concise {
			continue
		}
		for _, line := range renderDetails(e, o.Verbose, false) {
			t.line("      ", 8, line...)
		}
	}
}

func renderSymbolStyle(symbol string) renderStyle {
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
	t.line("", 0, renderSpan{text, styleStrong})
}

func (t *textWriter) takes(seconds float64, now time.Time) {
	if seconds == 0 {
		return
	}
	text := "Takes at least " + renderDuration(seconds) + ", based on earlier runs"
	if !now.IsZero() {
		end := now.Add(time.Duration(seconds * float64(time.Second)))
		text += ": until about " + end.Format("15:04 MST")
		if end.YearDay() != now.YearDay() {
			text = strings.TrimSuffix(text, end.Format("15:04 MST")) + end.Format("15:04 MST on 2 January")
		}
	}
	t.line("", 0)
	t.line("", 0, renderSpan{text + ".", stylePlain})
}

// unchanged prints the number of unchanged objects, or lists them.
func (t *textWriter) unchanged(things Unchanged, o TextOptions) {
	switch {
	case things.IsZero() || o.Concise:
	case o.Verbose:
		t.heading("Unchanged")
		for _, at := range things.Addresses() {
			t.line("  ", 6, renderSpan{renderSafe(string(at)), styleFaint})
		}
	default:
		if t.written {
			t.line("", 0)
		}
		t.line("", 0, renderSpan{"(" + strconv.Itoa(things.Count()) + " unchanged hidden)", styleFaint})
	}
}

// deferred lists the providers that could not be queried, with their notes.
func (t *textWriter) deferred(p Plan) {
	if len(p.Deferred) == 0 {
		return
	}
	t.heading("Skipped, because they could not be queried")
	for _, name := range p.Deferred {
		t.line("  ", 6, renderSpan{"provider." + renderSafe(name), styleChange})
		for _, n := range p.Notes {
			if isDeferralNote(n, name) {
				t.line("      ", 8, renderNote("", n)...)
			}
		}
	}
}

func isDeferralNote(n Note, provider string) bool {
	return n.Code == "deferred" && string(n.Address) == "provider."+provider
}

// notesShown is the maximum number of printed notes with the same code.
const notesShown = 10

// notes prints the notes, warnings first, and at most notesShown with the same code.
func (t *textWriter) notes(p Plan, o TextOptions) {
	notes := renderNotes(p)
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
		if n.Severity == Warning {
			word, style = "warning", styleChange
		}
		t.line("  ", 6, append([]renderSpan{{word, style}}, renderNote(": ", n)...)...)
	}
	for _, n := range notes {
		if more := hidden[n.Code]; more > 0 {
			t.line("  ", 6, renderSpan{"(" + strconv.Itoa(more) + " more " + renderSafe(n.Code) + " hidden)", styleFaint})
			hidden[n.Code] = 0
		}
	}
}

// renderNotes returns the notes that no other section prints, warnings first.
func renderNotes(p Plan) []Note {
	deferred := map[Address]bool{}
	for _, name := range p.Deferred {
		deferred[Address("provider."+name)] = true
	}
	var notes []Note
	for _, n := range p.Notes {
		if n.Code != "deferred" || !deferred[n.Address] {
			notes = append(notes, n)
		}
	}
	slices.SortStableFunc(notes, func(a, b Note) int {
		return cmp.Compare(renderSeverity(a.Severity), renderSeverity(b.Severity))
	})
	return notes
}

func renderSeverity(s Severity) int {
	if s == Warning {
		return 0
	}
	return 1
}

// renderNote returns a note after lead.
func renderNote(lead string, n Note) renderLine {
	text := renderSafe(n.Text)
	if at := renderSafe(string(n.Address)); at != "" && n.Code != "deferred" && !strings.Contains(text, at) {
		text = at + ": " + text
	}
	return renderLine{{lead + text, stylePlain}, {" (" + renderSafe(n.Code) + ")" + renderSourceText(n.Source.String()), styleFaint}}
}

func renderSourceText(source string) string {
	if source == "" {
		return ""
	}
	return " [" + renderSafe(source) + "]"
}

// problems prints the problems, which prevent the plan from being applied.
func (t *textWriter) problems(problems []Problem) {
	if len(problems) == 0 {
		return
	}
	t.heading("Problems")
	for _, p := range problems {
		t.line("  ", 6, renderSpan{"error", styleRemove}, renderSpan{": " + renderProblem(p), stylePlain},
			renderSpan{renderSourceText(p.Source.String()), styleFaint})
		if p.Hint != "" {
			t.line("      ", 8, renderSpan{renderSafe(p.Hint), stylePlain})
		}
	}
	if held := renderHeld(problems); held != "" {
		t.line("  ", 6, renderSpan{held, styleChange})
	}
}

func renderProblem(p Problem) string {
	if p.Address == "" {
		return renderSafe(p.Text)
	}
	return renderSafe(string(p.Address)) + ": " + renderSafe(p.Text)
}

// renderHeld returns the effect of the problems: nothing is applied, so that a part of a plan is never mistaken for
// the whole.
func renderHeld(problems []Problem) string {
	if len(problems) == 0 {
		return ""
	}
	return "npctl applies nothing until this is solved; -exclude=ADDRESS omits an object from the plan."
}
