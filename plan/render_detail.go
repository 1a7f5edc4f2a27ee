package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// renderStyle is the emphasis of a piece of text, for renderers that support it.
type renderStyle uint8

const (
	stylePlain renderStyle = iota
	styleMake
	styleRemove
	styleChange
	styleFaint
	styleStrong
)

// renderSpan is a piece of a line.
type renderSpan struct {
	text  string
	style renderStyle
}

// renderLine is a line of details under an entry.
type renderLine []renderSpan

// The maximum length of one printed value, in bytes; JSON and saved plans contain the whole value.
const (
	renderFactLimit  = 240
	renderValueLimit = 72
	renderFileCount  = 5 // names of input files
)

// renderDetails returns the lines under an entry's title: the reason, the differences and the folded objects. With
// values, or all, they include the planned values of a launch or upload.
func renderDetails(e renderEntry, all, values bool) []renderLine {
	lines := []renderLine{renderBecause("because ", e.lead, all)}
	if len(e.other) > 0 && (e.other[0].Reason != e.lead[0].Reason || all) {
		lines = append(lines, renderBecause("the new one because ", e.other, all))
	}
	if line := renderValues(e, all); line != nil && (all || values) {
		lines = append(lines, line)
	}
	lines = append(lines, renderChangeLines(e, all)...)
	lines = append(lines, renderFiles(e.lead[0].Files, all)...)
	if items := renderItems(e, all); items != "" {
		lines = append(lines, renderLine{{items, stylePlain}})
	}
	if all {
		lines = append(lines, renderOrigins(e)...)
	}
	return lines
}

// renderBecause returns the reason in words, its code, the evidence, and the position in the configuration.
func renderBecause(lead string, steps []*Step, all bool) renderLine {
	s := steps[0]
	line := renderLine{{lead + renderSafe(s.Reason.Text()), stylePlain}}
	if s.Reason.Text() != string(s.Reason) {
		line = append(line, renderSpan{" (" + renderSafe(string(s.Reason)) + ")", styleFaint})
	}
	if facts := renderFactsText(renderFacts(steps), all); facts != "" {
		line = append(line, renderSpan{": " + facts, stylePlain})
	}
	if s.Source.File != "" {
		line = append(line, renderSpan{" [" + renderSafe(s.Source.String()) + "]", styleFaint})
	}
	return line
}

// renderValues returns the planned values of an entry, or nil.
func renderValues(e renderEntry, all bool) renderLine {
	values := e.creating()[0].Values
	if len(values) == 0 {
		return nil
	}
	words := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := renderSafe(values[name])
		if !all {
			value = renderCut(value, renderValueLimit)
		}
		words = append(words, renderSafe(name)+" "+value)
	}
	return renderLine{{"with " + strings.Join(words, ", "), stylePlain}}
}

func renderFactsText(facts []renderFact, all bool) string {
	var b strings.Builder
	for i, f := range facts {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(renderSafe(f.name))
		b.WriteByte(' ')
		b.WriteString(renderFactValues(f.values, all))
	}
	return b.String()
}

// renderFactValues joins up to three values; of more it prints the first, the last and their number.
func renderFactValues(values []string, all bool) string {
	const few = 3
	if len(values) > few && !all {
		return renderFactValue(values[0], all) + " … " + renderFactValue(values[len(values)-1], all) +
			" (" + strconv.Itoa(len(values)) + " values)"
	}
	if len(values) == 1 {
		return renderFactValue(values[0], all)
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = renderFactValue(v, all)
	}
	return renderAnd(words)
}

// renderFactValue quotes a value that could be read as more than one fact.
func renderFactValue(v string, all bool) string {
	v = renderSafe(v)
	if !all {
		v = renderCut(v, renderFactLimit)
	}
	if v == "" || strings.ContainsAny(v, ` ,"`) {
		return `"` + v + `"`
	}
	return v
}

// renderChangeLines returns a line for each attribute that differs, with the values before and after.
func renderChangeLines(e renderEntry, all bool) []renderLine {
	changes := renderChanges(e)
	if len(changes) == 0 {
		return nil
	}
	widest := 0
	for _, c := range changes {
		widest = max(widest, textWidth(renderSafe(c.Attribute)))
	}
	lines := make([]renderLine, len(changes))
	for i, c := range changes {
		lines[i] = renderChange(c, min(widest, 24), all, e.lead[0].Action)
	}
	return lines
}

func renderChange(c Change, width int, all bool, action Action) renderLine {
	symbol, style, value := symbolChange, styleChange, ""
	before, after := renderSafe(c.Before), renderSafe(c.After)
	if !all {
		before, after = renderNarrow(before, after)
	}
	switch {
	case c.Before == "" && c.After != "":
		symbol, style, value = symbolMake, styleMake, renderValue(after)
	case c.Before != "" && c.After == "":
		symbol, style, value = symbolRemove, styleRemove, renderValue(before)+" -> null"
	default:
		value = renderValue(before) + " -> " + renderValue(after)
	}
	line := renderLine{{symbol, style}, {" " + renderPad(renderSafe(c.Attribute), width) + " = " + value, stylePlain}}
	if c.Forces && action == ActionBuild {
		line = append(line, renderSpan{"  # forces a new build", styleRemove})
	} else if c.Forces {
		line = append(line, renderSpan{"  # forces replacement", styleRemove})
	}
	return line
}

// renderFiles lists the input files that differ, one per line.
func renderFiles(files []FileChange, all bool) []renderLine {
	shown := len(files)
	if shown > renderFileCount && !all {
		shown = renderFileCount
	}
	lines := make([]renderLine, 0, shown+1)
	for _, f := range files[:shown] {
		path := renderSafe(f.Path)
		if !all {
			path = renderCut(path, renderFactLimit)
		}
		symbol, style := renderFileSymbol(f.Change)
		lines = append(lines, renderLine{{symbol, style}, {" file " + path, stylePlain}, {"  # " + renderSafe(string(f.Change)), styleFaint}})
	}
	if more := len(files) - shown; more > 0 {
		lines = append(lines, renderLine{{"and " + strconv.Itoa(more) + " more", styleFaint}})
	}
	return lines
}

func renderFileSymbol(change FileState) (string, renderStyle) {
	switch change {
	case FileAdded:
		return symbolMake, styleMake
	case FileRemoved:
		return symbolRemove, styleRemove
	default:
		return symbolChange, styleChange
	}
}

// renderValue quotes text; it returns numbers, words such as true, lists and objects unchanged.
func renderValue(v string) string {
	if v == "true" || v == "false" || v == "null" || strings.HasPrefix(v, "[") || strings.HasPrefix(v, "{") || strings.HasPrefix(v, `"`) {
		return v
	}
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		return v
	}
	return `"` + v + `"`
}

// renderNarrow shortens two long values to the part where they differ: their common start has no information.
func renderNarrow(before, after string) (string, string) {
	if len(before) <= renderValueLimit && len(after) <= renderValueLimit {
		return before, after
	}
	const context = 16
	b, a := []rune(before), []rune(after)
	head := 0
	for head < len(b) && head < len(a) && b[head] == a[head] {
		head++
	}
	if head = max(0, head-context); head > 0 && min(len(b), len(a)) > 0 {
		before, after = "…"+string(b[head:]), "…"+string(a[head:])
	}
	return renderCut(before, renderValueLimit), renderCut(after, renderValueLimit)
}

// renderOrigins returns the lines that only verbose output has: the addresses, and the steps that each step waits
// for.
func renderOrigins(e renderEntry) []renderLine {
	var lines []renderLine
	last := ""
	for _, half := range [][]*Step{e.lead, e.other} {
		for _, s := range half {
			text := "address " + renderSafe(string(s.Address))
			if len(s.Needs) > 0 {
				text += ", needs " + renderSafe(strings.Join(s.Needs, "; "))
			}
			if len(s.After) > 0 {
				text += ", after " + renderSafe(strings.Join(s.After, "; "))
			}
			if text != last { // launches of one label share its address
				lines = append(lines, renderLine{{text, styleFaint}})
			}
			last = text
		}
	}
	return lines
}

func renderPad(s string, width int) string {
	if n := width - textWidth(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}
