package render

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
)

// Text from other sources appears only inside code: fenced blocks with a fence longer than any run of backticks in
// them, code spans in the table, and <code> in the summary of a fold. Neither Markdown nor HTML is interpreted there,
// and forges create no mentions, references or links.

// markdownLimit is the maximum length of a comment on GitHub.
const markdownLimit = 65535

// markdownLeast is the minimum limit: it fits the summary and the list of omissions.
const markdownLeast = 1024

const (
	markdownTitleLimit = 120  // bytes of a block's title
	markdownLineLimit  = 2000 // bytes of a line about a problem
	markdownReserve    = 320  // bytes reserved for the list of omissions
	markdownOpen       = 10   // maximum number of entries with open folds
)

// Markdown writes the plan for a review comment of at most limit bytes; 0 means 65,535. The summary is
// always present. The rest of the space is used, in this order, for problems, deferred providers, the table, the
// least number of ready nodes, the cost, the blocks one by one, and the notes. A block that does not fit is shortened to its titles, or else omitted and named.
func Markdown(w io.Writer, p plan.Plan, limit int) error {
	return writeMarkdown(w, "plan", limit, markdownLeast, func(limit int) string { return markdownText(p, limit) })
}

// writeMarkdown writes the text of at most limit bytes.
func writeMarkdown(w io.Writer, what string, limit, least int, within func(limit int) string) error {
	limit = cmp.Or(limit, markdownLimit)
	if limit < least {
		return fmt.Errorf("%s as Markdown in %d bytes: at least %d are needed", what, limit, least)
	}
	_, err := io.WriteString(w, within(limit))
	return err
}

func markdownText(p plan.Plan, limit int) string {
	summary := p.Summary()
	groups := groupSteps(p, false)
	head, tail := "### "+summary.String()+"\n\n", summary.String()+"\n"
	if !p.Unchanged.IsZero() {
		tail = "(" + strconv.Itoa(p.Unchanged.Count()) + " unchanged hidden)\n\n" + tail
	}
	budget := limit - len(head) - len(tail) - markdownReserve

	problems := markdownSection("Problems", markdownProblems(p.Problems), budget/2)
	budget -= len(problems)
	deferred := markdownSection("Skipped, because they could not be listed", markdownDeferred(p), budget/2)
	budget -= len(deferred)
	table := markdownTable(tableRows(groups, false), budget/2)
	budget -= len(table)
	least := markdownSection(leastTitle, leastLines(p.Least, false), budget/2)
	budget -= len(least)
	cost := markdownSection("Cost", costLines(p.Cost, false), budget/2)
	budget -= len(cost)
	details := markdownDetails(groups, &budget)
	notes := markdownSection("Notes", markdownNotes(p), budget)
	return head + table + problems + deferred + least + cost + details + notes + tail
}

// markdownSection prints as many lines as fit under a heading, and the number of missing ones.
func markdownSection(title string, lines []string, budget int) string {
	const frame = 120 // title, two fences and the count of missing lines
	if len(lines) == 0 || budget < frame {
		return ""
	}
	used, shown := frame, 0
	for shown < len(lines) && used+len(lines[shown])+1 <= budget {
		used += len(lines[shown]) + 1
		shown++
	}
	more := ""
	if shown < len(lines) {
		more = "(" + text.Count(len(lines)-shown, "more line", "more lines") + " left out)\n"
	}
	text := "**" + title + "**\n\n" + markdownFence("text", strings.Join(lines[:shown], "\n")+"\n"+more)
	if len(text) > budget { // long runs of backticks make long fences
		return ""
	}
	return text
}

// markdownFence puts text into a code block with a fence that the text does not contain.
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

func markdownProblems(problems []plan.Problem) []string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, text.Cut("error: "+problemText(p)+sourceText(p.Source.String()), markdownLineLimit))
		if p.Hint != "" {
			lines = append(lines, text.Cut("    "+safe(p.Hint), markdownLineLimit))
		}
	}
	if held := problemsHint(problems); held != "" {
		lines = append(lines, text.Cut(held, markdownLineLimit))
	}
	return lines
}

func markdownDeferred(p plan.Plan) []string {
	var lines []string
	for _, name := range p.Deferred {
		lines = append(lines, text.Cut("provider."+safe(name), markdownLineLimit))
		for _, n := range p.Notes {
			if isDeferralNote(n, name) {
				lines = append(lines, text.Cut(noteDetail("    ", n).String(), markdownLineLimit))
			}
		}
	}
	return lines
}

func markdownNotes(p plan.Plan) []string {
	var lines []string
	for _, n := range notesOf(p) {
		word := "note: "
		if n.Severity == plan.Warning {
			word = "warning: "
		}
		lines = append(lines, text.Cut(noteDetail(word, n).String(), markdownLineLimit))
	}
	return lines
}

// String returns the line without its styles.
func (l detail) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return b.String()
}

// markdownTable returns the summary table with as many rows as fit.
func markdownTable(rows []tableRow, budget int) string {
	titles, columns := columnsOf(rows)
	if len(rows) == 0 || len(columns) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| block | " + strings.Join(titles, " | ") + " |\n| --- |" + strings.Repeat(" ---: |", len(columns)) + "\n")
	for _, r := range rows {
		row := "| " + markdownCode(r.title) + " | " + strings.Join(r.cells(columns), " | ") + " |"
		if b.Len()+len(row)+2 > budget {
			break
		}
		b.WriteString(row + "\n")
	}
	return b.String() + "\n"
}

// markdownCode returns a code span for a table cell. It replaces pipes and backticks, because renderers disagree
// about escapes for them.
func markdownCode(s string) string {
	s = strings.NewReplacer("|", "¦", "`", "'").Replace(text.Cut(s, markdownTitleLimit))
	return "`" + s + "`"
}

// markdownDetails returns a fold for each block, and names the first block that does not fit.
func markdownDetails(groups []group, budget *int) string {
	entries := 0
	for _, g := range groups {
		entries += len(g.entries)
	}
	var b strings.Builder
	var left []string
	for _, g := range groups {
		fold := markdownFold(g, entries <= markdownOpen, false)
		if len(fold) > *budget {
			fold = markdownFold(g, false, true)
		}
		if len(fold) > *budget {
			left = append(left, safe(g.title))
			continue
		}
		*budget -= len(fold)
		b.WriteString(fold)
	}
	if len(left) > 0 {
		b.WriteString(text.Count(len(left), "block", "blocks") + " left out for lack of space, from " + markdownCode(left[0]) + " on.\n\n")
	}
	return b.String()
}

func markdownFold(g group, open, concise bool) string {
	var body strings.Builder
	for _, e := range g.entries {
		body.WriteString(e.symbol + " " + titleOf(e))
		if concise {
			body.WriteString(" (" + safe(string(e.lead[0].Reason)) + ")\n")
			continue
		}
		if estimate := estimateText(e); estimate != "" {
			body.WriteString(", " + estimate)
		}
		body.WriteByte('\n')
		for _, line := range detailsOf(e, false, true) {
			body.WriteString("    " + line.String() + "\n")
		}
	}
	tag := "<details>"
	if open {
		tag = "<details open>"
	}
	title := html.EscapeString(text.Cut(safe(g.title), markdownTitleLimit))
	return tag + "<summary><code>" + title + "</code>: " + text.Count(g.counts.Total, "step", "steps") + "</summary>\n\n" +
		markdownFence("diff", body.String()) + "</details>\n\n"
}
