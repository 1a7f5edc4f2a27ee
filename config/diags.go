package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	plaintext "github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// report collects the diagnostics of one Load. A step that reports an error continues with unknown values, so that one
// run reports every error, and each only once. Each module instance has a report of its own, which adds the instance to
// its diagnostics; all of them share the findings.
type report struct {
	*findings
	module   string    // address of the module instance, such as module.cloud["a"]; "" for the configuration itself
	calledAt hcl.Range // the module block of the instance
}

// findings are the results of all reports of one Load.
type findings struct {
	diags hcl.Diagnostics
	// partial: a file could not be parsed or a module not be evaluated, so objects that seem to be missing may be in it.
	partial bool
	// incomplete: some blocks of that kind could not be named or read, or depend on unknown values.
	incomplete map[string]bool
}

func newReport() *report { return &report{findings: &findings{incomplete: map[string]bool{}}} }

func (r *report) add(diags ...*hcl.Diagnostic) {
	if r.module != "" {
		for _, diag := range diags {
			diag.Extra = inModule{r, diag.Extra}
		}
	}
	r.diags = append(r.diags, diags...)
}

// inModule is the Extra of a diagnostic that occurs in a module instance. It contains the Extra that it replaces.
type inModule struct {
	*report
	extra any
}

// UnwrapDiagnosticExtra implements hcl.DiagnosticExtraUnwrapper.
func (m inModule) UnwrapDiagnosticExtra() any { return m.extra }

// address returns the address of a block that is not global, such as check.name, with the module instance.
func (r *report) address(local string) string {
	if r.module == "" {
		return local
	}
	return r.module + "." + local
}

// sourceOf returns the place of a block.
func (r *report) sourceOf(at hcl.Range) resources.Source {
	return resources.Source{File: at.Filename, Line: at.Start.Line, Module: r.module}
}

// problem reports an error at a position; at is nil for an error outside the files.
func (r *report) problem(at *hcl.Range, summary, detail string) {
	r.add(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: at})
}

// warning reports a valid setting that is probably unintended.
func (r *report) warning(at *hcl.Range, summary, detail string) {
	r.add(&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: detail, Subject: at})
}

// sortDiags sorts diagnostics by file and line, errors before warnings at the same position, and removes duplicates:
// a block with for_each or in a module reports an error once for each instance.
func sortDiags(diags hcl.Diagnostics) hcl.Diagnostics {
	slices.SortStableFunc(diags, compareDiags)
	var kept hcl.Diagnostics
	for first, i := 0, 1; i <= len(diags); i++ {
		if i == len(diags) || compareDiags(diags[first], diags[i]) != 0 {
			kept = append(kept, withModules(diags[first:i]))
			first = i
		}
	}
	return kept
}

// withModules returns one of several equal diagnostics, with the module instances in which it occurs.
func withModules(equal hcl.Diagnostics) *hcl.Diagnostic {
	var first *report
	instances := map[string]bool{}
	for _, diag := range equal {
		in, ok := hcl.DiagnosticExtra[inModule](diag)
		if !ok {
			return diag
		}
		if first == nil {
			first = in.report
		}
		instances[in.module] = true
	}
	more := ""
	if n := len(instances) - 1; n > 0 {
		more = " and " + plaintext.Count(n, "more instance", "more instances")
	}
	made := *equal[0]
	made.Detail += fmt.Sprintf("\n\nIn %s%s, called at %s.", first.module, more, rangeText(first.calledAt))
	return &made
}

func compareDiags(a, b *hcl.Diagnostic) int {
	left, right := place(a), place(b)
	return cmp.Or(
		cmp.Compare(left.Filename, right.Filename),
		cmp.Compare(left.Start.Byte, right.Start.Byte),
		cmp.Compare(left.End.Byte, right.End.Byte),
		cmp.Compare(a.Severity, b.Severity),
		cmp.Compare(a.Summary, b.Summary),
		cmp.Compare(a.Detail, b.Detail),
	)
}

func place(d *hcl.Diagnostic) hcl.Range {
	if d.Subject == nil {
		return hcl.Range{}
	}
	return *d.Subject
}

// duplicate reports a block that has the name of another block.
func (r *report) duplicate(block *hclsyntax.Block, kind, name string, other hcl.Range) {
	r.problem(block.DefRange().Ptr(), "Duplicate block", fmt.Sprintf("There is %s %q already, at %s.", article(kind), name, rangeText(other)))
}

// sameName reports an instance that has the name of another instance. Names are global: a module that has several
// instances, or is beside a block with the same name, computes them.
func (r *report) sameName(one instance, kind string, other resources.Source) {
	hint := ""
	if _, named := one.block.Body.Attributes[metaName]; !named && (r.module != "" || other.Module != "") {
		hint = " Names are global: set the attribute name in the block of the module, with the value of an input."
	}
	r.problem(one.block.DefRange().Ptr(), "Duplicate name", fmt.Sprintf("This block defines %s named %q, and so does the block at %s.%s",
		article(kind), one.name, other, hint))
}

func compareRanges(a, b hcl.Range) int {
	return compareDiags(&hcl.Diagnostic{Subject: &a}, &hcl.Diagnostic{Subject: &b})
}

// didYouMean returns a sentence with a suggestion, or "".
func didYouMean(given string, options []string) string {
	if best := plaintext.Nearest(given, options); best != "" {
		return fmt.Sprintf(" Did you mean %q?", best)
	}
	return ""
}

// maxOptions is the number of options up to which a message lists all of them.
const maxOptions = 20

// oneOf returns a sentence that suggests the nearest option, or else lists all options if there are few. The noun is
// their plural: "drivers".
func oneOf(noun, given string, options []string) string {
	if hint := didYouMean(given, options); hint != "" {
		return hint
	}
	if len(options) == 0 || len(options) > maxOptions {
		return ""
	}
	quoted := make([]string, len(options))
	for i, option := range slices.Sorted(slices.Values(options)) {
		quoted[i] = fmt.Sprintf("%q", option)
	}
	return " Valid " + noun + ": " + strings.Join(quoted, ", ") + "."
}
