package convert

import (
	"fmt"
	"strings"

	words "github.com/npctl/npctl/internal/text"
)

// report collects the entries.
type report struct{ entries []Entry }

// guide is the page that the links of the report refer to.
const guide = "docs/coming-from-nodepool.md#"

func link(anchor string) string {
	if anchor == "" {
		return ""
	}
	return guide + anchor
}

// note adds the entry of a key.
func (r *report) note(e *entry, verdict Verdict, note, anchor string) {
	if !e.done {
		e.done = true
		r.entries = append(r.entries, Entry{e.value.src.name, e.path, e.line, verdict, note, link(anchor)})
	}
}

// amend changes the entry of a key.
func (r *report) amend(e *entry, verdict Verdict, note, anchor string) {
	for i := range r.entries {
		if old := &r.entries[i]; old.Path == e.path && old.File == e.value.src.name {
			old.Verdict, old.Note, old.Link = verdict, note, link(anchor)
		}
	}
}

// mark adds the entry of a key and of all keys below it.
func (r *report) mark(e *entry, verdict Verdict, note, anchor string) {
	r.note(e, verdict, note, anchor)
	if verdict == Converted || verdict == Changed {
		note = ""
	}
	r.markAll(e.value, verdict, note, anchor)
}

// markAll adds the entries of all keys below a value.
func (r *report) markAll(n *node, verdict Verdict, note, anchor string) {
	for _, e := range n.entries {
		r.note(e, verdict, note, anchor)
		r.markAll(e.value, verdict, note, anchor)
	}
	for _, it := range n.items {
		r.markAll(it, verdict, note, anchor)
	}
}

// Count returns the number of entries with a verdict.
func (r *Result) Count(v Verdict) int {
	n := 0
	for _, e := range r.Report {
		if e.Verdict == v {
			n++
		}
	}
	return n
}

// verdicts are in the order of the report, with their words for a reader.
var verdicts = []struct {
	verdict Verdict
	title   string
}{{Unsupported, "not supported"}, {Changed, "changed in meaning"}, {NoEffect, "without effect"}, {Converted, "converted"}}

// Text returns the report as text: one line for each key that needs a reader, or for each key if all is set.
func (r *Result) Text(all bool) string {
	var w strings.Builder
	for _, v := range verdicts {
		if v.verdict == Converted && !all {
			continue
		}
		for _, e := range r.Report {
			if e.Verdict != v.verdict {
				continue
			}
			fmt.Fprintf(&w, "%s:%d: %s: %s", e.File, e.Line, words.Line(e.Path), v.title)
			if e.Note != "" {
				w.WriteString(": " + words.Line(e.Note))
			}
			if e.Link != "" && v.verdict != Converted {
				w.WriteString(" [" + e.Link + "]")
			}
			w.WriteString("\n")
		}
	}
	w.WriteString(r.Summary() + "\n")
	return w.String()
}

// Summary returns the number of keys with each verdict.
func (r *Result) Summary() string {
	return fmt.Sprintf("%s: %d converted, %d changed in meaning, %d without effect, %d not supported.",
		words.Count(len(r.Report), "key", "keys"), r.Count(Converted), r.Count(Changed), r.Count(NoEffect), r.Count(Unsupported))
}

// Markdown returns the report as Markdown.
func (r *Result) Markdown() string {
	var w strings.Builder
	w.WriteString("# Conversion of the Nodepool configuration\n\n" + r.Summary() + "\n")
	for _, v := range verdicts {
		if r.Count(v.verdict) == 0 {
			continue
		}
		fmt.Fprintf(&w, "\n## Keys: %s\n\n| key | line | note |\n| --- | --- | --- |\n", v.title)
		for _, e := range r.Report {
			if e.Verdict == v.verdict {
				note := e.Note
				if e.Link != "" && v.verdict != Converted {
					note = strings.TrimSpace(note + " ([more](" + e.Link + "))")
				}
				fmt.Fprintf(&w, "| `%s` | %s:%d | %s |\n", cell(e.Path), e.File, e.Line, cell(note))
			}
		}
	}
	return w.String()
}

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(words.Line(text), "|", `\|`), "`", "'")
}
