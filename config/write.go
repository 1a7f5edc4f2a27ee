package config

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/mattn/go-runewidth"
	"github.com/mitchellh/go-wordwrap"
	"github.com/zclconf/go-cty/cty"

	plaintext "github.com/npctl/npctl/internal/text"
)

// The layout is that of HCL's own writer, which users know from other tools. That writer scans the whole file for
// each diagnostic and marks the range only by colour; this one seeks to the lines and draws carets.

const (
	maxShown      = 20   // diagnostics; the first errors often cause the others
	maxShownLines = 12   // source lines of one diagnostic
	maxShownLine  = 2000 // bytes; longer lines are omitted
)

// WriteDiagnostics writes at most 20 diagnostics as text, with the source lines, carets below the range and the
// values of variables in it. A width of 0 disables wrapping. Callers check w for write errors.
func WriteDiagnostics(w io.Writer, diags hcl.Diagnostics, files map[string]*hcl.File, color bool, width int) {
	shown, rest := firstOf(diags, maxShown)
	defer func() {
		if len(rest) > 0 {
			_, _ = fmt.Fprintf(w, "%s.\n\n", moreText(rest))
		}
	}()
	for _, diag := range shown {
		var b bytes.Buffer
		p := painter{color}
		fmt.Fprintf(&b, "%s: %s\n\n", p.severity(diag.Severity), diag.Summary)
		if diag.Subject != nil {
			writeSource(&b, diag, files[diag.Subject.Filename], p)
			writeValues(&b, diag)
		}
		if diag.Detail != "" {
			detail := diag.Detail
			if width > 0 {
				detail = wordwrap.WrapString(detail, uint(width))
			}
			fmt.Fprintf(&b, "%s\n\n", detail)
		}
		_, _ = w.Write(b.Bytes())
	}
}

// WriteCompact is like WriteDiagnostics, but writes errors first, and one line for each warning: summary and
// position.
func WriteCompact(w io.Writer, diags hcl.Diagnostics, files map[string]*hcl.File, color bool, width int) {
	var errors, warnings hcl.Diagnostics
	for _, diag := range diags {
		if diag.Severity == hcl.DiagWarning {
			warnings = append(warnings, diag)
		} else {
			errors = append(errors, diag)
		}
	}
	WriteDiagnostics(w, errors, files, color, width)
	shown, rest := firstOf(warnings, maxShown)
	for _, diag := range shown {
		at := ""
		if diag.Subject != nil {
			at = fmt.Sprintf(" (%s)", rangeText(*diag.Subject))
		}
		_, _ = fmt.Fprintf(w, "%s: %s%s\n", painter{color}.severity(diag.Severity), diag.Summary, plaintext.Line(at))
	}
	if len(rest) > 0 {
		_, _ = fmt.Fprintf(w, "%s.\n", moreText(rest))
	}
}

// firstOf splits diagnostics at a limit. If it is exceeded, errors come before warnings.
func firstOf(diags hcl.Diagnostics, limit int) (first, rest hcl.Diagnostics) {
	if len(diags) <= limit {
		return diags, nil
	}
	sorted := slices.Clone(diags)
	slices.SortStableFunc(sorted, func(a, b *hcl.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) })
	return sorted[:limit], sorted[limit:]
}

// moreText counts omitted diagnostics: "3 more errors and 1 more warning".
func moreText(rest hcl.Diagnostics) string {
	warnings := 0
	for _, diag := range rest {
		if diag.Severity == hcl.DiagWarning {
			warnings++
		}
	}
	var parts []string
	if n := len(rest) - warnings; n > 0 {
		parts = append(parts, plaintext.Count(n, "more error", "more errors"))
	}
	if warnings > 0 {
		parts = append(parts, plaintext.Count(warnings, "more warning", "more warnings"))
	}
	return strings.Join(parts, " and ")
}

// painter colours text if on is set.
type painter struct{ on bool }

func (p painter) severity(s hcl.DiagnosticSeverity) string {
	if s == hcl.DiagWarning {
		return p.paint("33", "Warning")
	}
	return p.paint("31", "Error")
}

func (p painter) paint(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[1;" + code + "m" + text + "\x1b[0m"
}

func writeSource(b *bytes.Buffer, diag *hcl.Diagnostic, file *hcl.File, p painter) {
	at := *diag.Subject
	part := snippet(at, file)
	if part == nil {
		fmt.Fprintf(b, "  on %s line %d\n\n", at.Filename, at.Start.Line)
		return
	}
	in := ""
	if part.Context != "" {
		in = ", in " + part.Context
	}
	fmt.Fprintf(b, "  on %s line %d%s:\n", at.Filename, at.Start.Line, in)
	whole := at
	if diag.Context != nil {
		whole = hcl.RangeOver(at, *diag.Context)
	}
	first := max(whole.Start.Line, at.Start.Line-maxShownLines/2)
	last := min(whole.End.Line, first+maxShownLines-1)
	for number, line := range linesOf(file.Bytes, at, first, last) {
		fmt.Fprintf(b, "%4d: %s\n", first+number, line)
		if first+number == at.Start.Line {
			fmt.Fprintf(b, "%s%s\n", strings.Repeat(" ", len(fmt.Sprintf("%4d: ", first+number))), p.paint("36", carets(part)))
		}
	}
	b.WriteByte('\n')
}

// linesOf returns the lines first to last, searching outwards from the position.
func linesOf(src []byte, at hcl.Range, first, last int) []string {
	begin := lineStart(src, at.Start.Byte)
	for n := at.Start.Line; n > first && begin > 0; n-- {
		begin = lineStart(src, begin-1)
	}
	var lines []string
	for n := first; n <= max(last, at.Start.Line) && begin <= len(src); n++ {
		line, _, more := bytes.Cut(src[begin:], []byte("\n"))
		begin += len(line) + 1
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) > maxShownLine {
			line = []byte("…")
		}
		lines = append(lines, string(line))
		if !more {
			break
		}
	}
	return lines
}

func lineStart(src []byte, offset int) int { return bytes.LastIndexByte(src[:offset], '\n') + 1 }

// carets repeats the tabs of the line, so that the carets align at any tab width.
func carets(part *jsonSnippet) string {
	var b strings.Builder
	for _, r := range part.Code[:part.HighlightStart] {
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteString(strings.Repeat(" ", runewidth.RuneWidth(r)))
		}
	}
	marked := runewidth.StringWidth(part.Code[part.HighlightStart:part.HighlightEnd])
	return b.String() + strings.Repeat("^", max(1, marked))
}

// writeValues writes the values of the variables in the expression, since it may have been evaluated several times.
// It omits sensitive values.
func writeValues(b *bytes.Buffer, diag *hcl.Diagnostic) {
	if diag.Expression == nil || diag.EvalContext == nil {
		return
	}
	var facts []string
	for _, traversal := range diag.Expression.Variables() {
		value, diags := traversal.TraverseAbs(diag.EvalContext)
		if diags.HasErrors() || !value.IsKnown() || value.ContainsMarked() {
			continue
		}
		facts = append(facts, fmt.Sprintf("%s is %s", traversalText(traversal), briefText(value)))
	}
	slices.Sort(facts)
	facts = slices.Compact(facts)
	for i, fact := range facts {
		before, after := "      ", ","
		if i == 0 {
			before = "with: "
		}
		if i == len(facts)-1 {
			after = ".\n"
		}
		fmt.Fprintf(b, "%s%s%s\n", before, fact, after)
	}
}

func traversalText(traversal hcl.Traversal) string {
	text := traversal.RootName()
	for _, step := range traversal[1:] {
		switch s := step.(type) {
		case hcl.TraverseAttr:
			text += "." + s.Name
		case hcl.TraverseIndex:
			text += "[" + briefText(s.Key) + "]"
		}
	}
	return text
}

// briefText formats a known value without marks: short text in full, large values by type and length.
func briefText(value cty.Value) string {
	t := value.Type()
	switch {
	case value.IsNull():
		return "null"
	case t == cty.String:
		return fmt.Sprintf("%q", plaintext.Shorten(value.AsString(), 100))
	case t == cty.Number:
		return value.AsBigFloat().Text('g', 10)
	case t == cty.Bool:
		return strconv.FormatBool(value.True())
	case t.IsCollectionType() || t.IsTupleType() || t.IsObjectType():
		return fmt.Sprintf("%s of length %d", article(strings.SplitN(t.FriendlyName(), " ", 2)[0]), value.LengthInt())
	default:
		return article(t.FriendlyName())
	}
}
