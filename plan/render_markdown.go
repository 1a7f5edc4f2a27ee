package plan

import (
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"
)

// Foreign text stands only inside code: fenced blocks with a fence longer than any run of backticks in them, code
// spans in the table, and <code> in the line of a fold. There neither Markdown nor HTML means anything, and forges
// make no mention, reference or link of what they find.

// MarkdownLimit is what a comment on GitHub may hold.
const MarkdownLimit = 65535

// markdownLeast is the least that has room for the summary and for saying what was left out.
const markdownLeast = 1024

const (
	markdownTitleLimit = 120  // bytes of a block's title
	markdownLineLimit  = 2000 // bytes of a line about a problem
	markdownReserve    = 320  // bytes kept for saying what was left out
	markdownOpen       = 10   // entries up to which the folds are open
)

// WriteMarkdown writes the plan for a review comment of at most limit bytes; 0 means MarkdownLimit. The summary is always
// there; then, as far as there is room, come problems, providers left alone, the table, the blocks one by one, and the
// notes. A block that does not fit is shortened to its titles, or else left out and named.
func (p Plan) WriteMarkdown(w io.Writer, limit int) error {
	if limit == 0 {
		limit = MarkdownLimit
	}
	if limit < markdownLeast {
		return fmt.Errorf("plan as Markdown in %d bytes: at least %d are needed", limit, markdownLeast)
	}
	_, err := io.WriteString(w, p.markdown(limit))
	return err
}

func (p Plan) markdown(limit int) string {
	summary := p.Summary()
	groups := renderGroups(p, false)
	head, tail := "### "+summary.String()+"\n\n", summary.String()+"\n"
	if len(p.Unchanged) > 0 {
		tail = "(" + strconv.Itoa(len(p.Unchanged)) + " unchanged hidden)\n\n" + tail
	}
	room := limit - len(head) - len(tail) - markdownReserve

	problems := markdownSection("Problems", markdownProblems(p.Problems), room/2)
	room -= len(problems)
	deferred := markdownSection("Skipped, because they could not be queried", markdownDeferred(p), room/2)
	room -= len(deferred)
	table := markdownTable(renderTable(groups, false), summary, room/2)
	room -= len(table)
	details := markdownDetails(groups, &room)
	notes := markdownSection("Notes", markdownNotes(p), room)
	return head + table + problems + deferred + details + notes + tail
}

// markdownSection puts as many lines as there is room for under a heading, and says how many are missing.
func markdownSection(title string, lines []string, room int) string {
	const frame = 120 // title, two fences and the count of missing lines
	if len(lines) == 0 || room < frame {
		return ""
	}
	used, shown := frame, 0
	for shown < len(lines) && used+len(lines[shown])+1 <= room {
		used += len(lines[shown]) + 1
		shown++
	}
	more := ""
	if shown < len(lines) {
		more = "(" + renderCount(len(lines)-shown, "more line") + " left out)\n"
	}
	text := "**" + title + "**\n\n" + markdownFence("text", strings.Join(lines[:shown], "\n")+"\n"+more)
	if len(text) > room { // long runs of backticks make long fences
		return ""
	}
	return text
}

// markdownFence puts text into a code block that nothing in the text can end.
func markdownFence(language, text string) string {
	longest, run := 0, 0
	for i := range len(text) {
		if text[i] == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	fence := strings.Repeat("`", max(3, longest+1))
	return fence + language + "\n" + text + fence + "\n\n"
}

func markdownProblems(problems []Problem) []string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, renderCut("error: "+renderProblem(p)+renderSourceText(p.Source.String()), markdownLineLimit))
		if p.Hint != "" {
			lines = append(lines, renderCut("    "+renderSafe(p.Hint), markdownLineLimit))
		}
	}
	if held := renderHeld(problems); held != "" {
		lines = append(lines, renderCut(held, markdownLineLimit))
	}
	return lines
}

func markdownDeferred(p Plan) []string {
	var lines []string
	for _, name := range p.Deferred {
		lines = append(lines, renderCut("provider."+renderSafe(name), markdownLineLimit))
		for _, n := range p.Notes {
			if renderTellsDeferral(n, name) {
				lines = append(lines, renderCut(renderNote("    ", n).String(), markdownLineLimit))
			}
		}
	}
	return lines
}

func markdownNotes(p Plan) []string {
	var lines []string
	for _, n := range renderNotes(p) {
		word := "note: "
		if n.Severity == Warning {
			word = "warning: "
		}
		lines = append(lines, renderCut(renderNote(word, n).String(), markdownLineLimit))
	}
	return lines
}

// String is the line without its styles.
func (l renderLine) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return b.String()
}

// markdownTable is the summary table with as many rows as there is room for.
func markdownTable(rows []renderRow, summary Summary, room int) string {
	columns := renderColumns(summary)
	if len(rows) == 0 || len(columns) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| block |")
	for _, c := range columns {
		b.WriteString(" " + string(c) + " |")
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(columns)) + "\n")
	for _, r := range rows {
		row := "| " + markdownCode(r.title) + " |"
		for _, c := range columns {
			row += " " + renderCell(r.counts.Count(c)) + " |"
		}
		if b.Len()+len(row)+2 > room {
			break
		}
		b.WriteString(row + "\n")
	}
	return b.String() + "\n"
}

// markdownCode is a code span that may stand in a table: within a cell neither a pipe nor a backtick can be escaped in
// a way that every renderer agrees on.
func markdownCode(s string) string {
	s = strings.NewReplacer("|", "¦", "`", "'").Replace(renderCut(s, markdownTitleLimit))
	return "`" + s + "`"
}

// markdownDetails has a fold for each block, and names those there was no room for.
func markdownDetails(groups []renderGroup, room *int) string {
	entries := 0
	for _, g := range groups {
		entries += len(g.entries)
	}
	var b strings.Builder
	var left []string
	for _, g := range groups {
		fold := markdownFold(g, entries <= markdownOpen, false)
		if len(fold) > *room {
			fold = markdownFold(g, false, true)
		}
		if len(fold) > *room {
			left = append(left, renderSafe(g.title))
			continue
		}
		*room -= len(fold)
		b.WriteString(fold)
	}
	if len(left) > 0 {
		b.WriteString(renderCount(len(left), "block") + " left out for lack of room, from " + markdownCode(left[0]) + " on.\n\n")
	}
	return b.String()
}

func markdownFold(g renderGroup, open, concise bool) string {
	var body strings.Builder
	for _, e := range g.entries {
		body.WriteString(e.symbol + " " + renderTitle(e))
		if concise {
			body.WriteString(" (" + renderSafe(string(e.lead[0].Reason)) + ")\n")
			continue
		}
		if estimate := renderEstimate(e); estimate != "" {
			body.WriteString(", " + estimate)
		}
		body.WriteByte('\n')
		for _, line := range renderDetails(e, false, true) {
			body.WriteString("    " + line.String() + "\n")
		}
	}
	tag := "<details>"
	if open {
		tag = "<details open>"
	}
	title := html.EscapeString(renderCut(renderSafe(g.title), markdownTitleLimit))
	return tag + "<summary><code>" + title + "</code>: " + renderCount(g.counts.Total, "step") + "</summary>\n\n" +
		markdownFence("diff", body.String()) + "</details>\n\n"
}
