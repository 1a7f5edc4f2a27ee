package plan

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TextOptions say how a plan is shown to people.
type TextOptions struct {
	Color   bool      // use colours; the caller has looked at the terminal and at NO_COLOR
	Width   int       // columns to wrap at; 0 means lines are never broken
	Verbose bool      // nothing hidden or shortened: all evidence, all names, addresses, what each step waits for
	Concise bool      // one line an entry
	Now     time.Time // for saying until when applying will take; zero: do not say
}

// WriteText shows the plan to people: a table of what happens to which block, the steps of each block, what else was
// noticed, and as its last line always Summary. Names from clouds are escaped, so that they cannot drive a terminal.
func (p Plan) WriteText(w io.Writer, o TextOptions) error {
	t := newTextWriter(w, o)
	summary := p.Summary()
	groups := renderGroups(p, o.Verbose)
	if !o.Concise {
		t.table(renderTable(groups, o.Verbose), summary)
		t.takes(renderTakes(p.Steps), o.Now)
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
	t.unwrapped(renderSpan{summary.String(), styleStrong}) // tools look for it as one line
	return t.flush()
}

// group shows the steps of one block.
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

// heading starts a section, apart from the one before it.
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
	text := "Takes at least " + renderDuration(seconds) + ", going by earlier runs"
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

// unchanged counts what is as wanted, or lists it.
func (t *textWriter) unchanged(things []Address, o TextOptions) {
	switch {
	case len(things) == 0 || o.Concise:
	case o.Verbose:
		t.heading("Unchanged")
		for _, at := range things {
			t.line("  ", 6, renderSpan{renderSafe(string(at)), styleFaint})
		}
	default:
		if t.written {
			t.line("", 0)
		}
		t.line("", 0, renderSpan{"(" + strconv.Itoa(len(things)) + " unchanged hidden)", styleFaint})
	}
}

// deferred names the providers that could not be queried; their notes say why.
func (t *textWriter) deferred(p Plan) {
	if len(p.Deferred) == 0 {
		return
	}
	t.heading("Skipped, because they could not be queried")
	for _, name := range p.Deferred {
		t.line("  ", 6, renderSpan{"provider." + renderSafe(name), styleChange})
		for _, n := range p.Notes {
			if renderTellsDeferral(n, name) {
				t.line("      ", 8, renderNote("", n)...)
			}
		}
	}
}

func renderTellsDeferral(n Note, provider string) bool {
	return n.Code == "deferred" && string(n.Address) == "provider."+provider
}

// notesShown is how many notes of one code are shown.
const notesShown = 10

// notes shows what was noticed, warnings first, and of many with the same code only the first few.
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

// renderNotes are the notes not told elsewhere, warnings first.
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

// renderNote is a note behind a word that says what it is, if there is one.
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

// problems shows what keeps a provider, or everything, from being applied.
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

// renderHeld says what the problems keep from being done: everything, so that a part of a plan is never mistaken for it.
func renderHeld(problems []Problem) string {
	if len(problems) == 0 {
		return ""
	}
	return "Until this is solved, nothing is applied; -exclude=ADDRESS leaves something out."
}
