package render

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
)

// style is the emphasis of a piece of text, for renderers that support it.
type style uint8

const (
	stylePlain style = iota
	styleMake
	styleRemove
	styleChange
	styleFaint
	styleStrong
)

// span is a piece of a line.
type span struct {
	text  string
	style style
}

// detail is a line of details under an entry.
type detail []span

// The maximum length of one printed value, in bytes; JSON and saved plans contain the whole value.
const (
	factLimit        = 240
	valueLengthLimit = 72
	fileLimit        = 5 // names of input files
)

// detailsOf returns the lines under an entry's title: the reason, the differences and the folded objects. With
// values, or all, they include the planned values of a launch or upload.
func detailsOf(e entry, all, values bool) []detail {
	lines := []detail{because("because ", e.lead, all)}
	if len(e.other) > 0 && (e.other[0].Reason != e.lead[0].Reason || all) {
		lines = append(lines, because("the new one because ", e.other, all))
	}
	if line := valuesDetail(e, all); line != nil && (all || values) {
		lines = append(lines, line)
	}
	lines = append(lines, changeDetails(e, all)...)
	lines = append(lines, fileDetails(e.lead[0].Files, all)...)
	if items := itemsText(e, all); items != "" {
		lines = append(lines, detail{{items, stylePlain}})
	}
	if all {
		lines = append(lines, originsOf(e)...)
	}
	return lines
}

// because returns the reason in words, its code, the evidence, and the position in the configuration.
func because(lead string, steps []*plan.Step, all bool) detail {
	s := steps[0]
	line := detail{{lead + safe(s.Reason.Text()), stylePlain}}
	if s.Reason.Text() != string(s.Reason) {
		line = append(line, span{" (" + safe(string(s.Reason)) + ")", styleFaint})
	}
	if facts := factsText(factsOf(steps), all); facts != "" {
		line = append(line, span{": " + facts, stylePlain})
	}
	if s.Source.File != "" {
		line = append(line, span{" [" + safe(s.Source.String()) + "]", styleFaint})
	}
	return line
}

// valuesDetail returns the planned values of an entry, or nil.
func valuesDetail(e entry, all bool) detail {
	values := e.creating()[0].Values
	if len(values) == 0 {
		return nil
	}
	words := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := safe(values[name])
		if !all {
			value = text.Cut(value, valueLengthLimit)
		}
		words = append(words, safe(name)+" "+value)
	}
	return detail{{"with " + strings.Join(words, ", "), stylePlain}}
}

func factsText(facts []fact, all bool) string {
	var b strings.Builder
	for i, f := range facts {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(safe(f.name))
		b.WriteByte(' ')
		b.WriteString(factValues(f.values, all))
	}
	return b.String()
}

// factValues joins up to three values; of more it prints the first, the last and their number.
func factValues(values []string, all bool) string {
	const few = 3
	if len(values) > few && !all {
		return factValue(values[0], all) + " … " + factValue(values[len(values)-1], all) +
			" (" + strconv.Itoa(len(values)) + " values)"
	}
	if len(values) == 1 {
		return factValue(values[0], all)
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = factValue(v, all)
	}
	return text.And(words)
}

// factValue quotes a value that could be read as more than one fact.
func factValue(v string, all bool) string {
	v = safe(v)
	if !all {
		v = text.Cut(v, factLimit)
	}
	if v == "" || strings.ContainsAny(v, ` ,"`) {
		return `"` + v + `"`
	}
	return v
}

// changeDetails returns a line for each attribute that differs, with the values before and after.
func changeDetails(e entry, all bool) []detail {
	changes := changesOf(e)
	if len(changes) == 0 {
		return nil
	}
	widest := 0
	for _, c := range changes {
		widest = max(widest, textWidth(safe(c.Attribute)))
	}
	lines := make([]detail, len(changes))
	for i, c := range changes {
		lines[i] = changeDetail(c, min(widest, 24), all, e.lead[0].Action)
	}
	return lines
}

func changeDetail(c plan.Change, width int, all bool, action plan.Action) detail {
	symbol, style, value := symbolChange, styleChange, ""
	before, after := safe(c.Before), safe(c.After)
	if !all {
		before, after = narrow(before, after)
	}
	switch {
	case c.Before == "" && c.After != "":
		symbol, style, value = symbolMake, styleMake, quoted(after)
	case c.Before != "" && c.After == "":
		symbol, style, value = symbolRemove, styleRemove, quoted(before)+" -> null"
	default:
		value = quoted(before) + " -> " + quoted(after)
	}
	line := detail{{symbol, style}, {" " + pad(safe(c.Attribute), width) + " = " + value, stylePlain}}
	if c.Forces && action == plan.ActionBuild {
		line = append(line, span{"  # forces a new build", styleRemove})
	} else if c.Forces {
		line = append(line, span{"  # forces replacement", styleRemove})
	}
	return line
}

// fileDetails lists the input files that differ, one per line.
func fileDetails(files []plan.FileChange, all bool) []detail {
	shown := len(files)
	if shown > fileLimit && !all {
		shown = fileLimit
	}
	lines := make([]detail, 0, shown+1)
	for _, f := range files[:shown] {
		path := safe(f.Path)
		if !all {
			path = text.Cut(path, factLimit)
		}
		symbol, style := fileSymbol(f.Change)
		lines = append(lines, detail{{symbol, style}, {" file " + path, stylePlain}, {"  # " + safe(string(f.Change)), styleFaint}})
	}
	if more := len(files) - shown; more > 0 {
		lines = append(lines, detail{{"and " + strconv.Itoa(more) + " more", styleFaint}})
	}
	return lines
}

func fileSymbol(change plan.FileState) (string, style) {
	switch change {
	case plan.FileAdded:
		return symbolMake, styleMake
	case plan.FileRemoved:
		return symbolRemove, styleRemove
	default:
		return symbolChange, styleChange
	}
}

// quoted quotes text; it returns numbers, words such as true, lists and objects unchanged.
func quoted(v string) string {
	if v == "true" || v == "false" || v == "null" || strings.HasPrefix(v, "[") || strings.HasPrefix(v, "{") || strings.HasPrefix(v, `"`) {
		return v
	}
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		return v
	}
	return `"` + v + `"`
}

// narrow shortens two long values to the part where they differ: their common start has no information.
func narrow(before, after string) (string, string) {
	if len(before) <= valueLengthLimit && len(after) <= valueLengthLimit {
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
	return text.Cut(before, valueLengthLimit), text.Cut(after, valueLengthLimit)
}

// originsOf returns the lines that only verbose output has: the addresses, and the steps that each step waits
// for.
func originsOf(e entry) []detail {
	var lines []detail
	last := ""
	for _, half := range [][]*plan.Step{e.lead, e.other} {
		for _, s := range half {
			text := "address " + safe(string(s.Address))
			if len(s.Needs) > 0 {
				text += ", needs " + safe(strings.Join(s.Needs, "; "))
			}
			if len(s.After) > 0 {
				text += ", after " + safe(strings.Join(s.After, "; "))
			}
			if text != last { // launches of one label share its address
				lines = append(lines, detail{{text, styleFaint}})
			}
			last = text
		}
	}
	return lines
}

func pad(s string, width int) string {
	if n := width - textWidth(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}
