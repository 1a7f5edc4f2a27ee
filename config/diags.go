package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// report collects the diagnostics of one Load. A step that reports an error continues with unknown values, so that one
// run reports every error, and each only once.
type report struct {
	diags hcl.Diagnostics
	// partial: a file could not be parsed, so objects that seem to be missing may be in it.
	partial bool
	// incomplete: some blocks of that kind could not be named or read, or depend on unknown values.
	incomplete map[string]bool
}

func newReport() *report { return &report{incomplete: map[string]bool{}} }

func (r *report) add(diags ...*hcl.Diagnostic) { r.diags = append(r.diags, diags...) }

// problem reports an error at a position; at is nil for an error outside the files.
func (r *report) problem(at *hcl.Range, summary, detail string) {
	r.add(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: at})
}

// warning reports a valid setting that is probably unintended.
func (r *report) warning(at *hcl.Range, summary, detail string) {
	r.add(&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: detail, Subject: at})
}

// sortDiags sorts diagnostics by file and line, errors before warnings at the same position, and removes duplicates:
// a block with for_each reports an error once for each instance.
func sortDiags(diags hcl.Diagnostics) hcl.Diagnostics {
	slices.SortStableFunc(diags, compareDiags)
	return slices.CompactFunc(diags, func(a, b *hcl.Diagnostic) bool {
		return compareDiags(a, b) == 0 && a.Summary == b.Summary && a.Detail == b.Detail
	})
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

// sameName reports an instance that has the name of another instance.
func (r *report) sameName(one instance, kind string, other hcl.Range) {
	r.problem(one.block.DefRange().Ptr(), "Duplicate name", fmt.Sprintf("This block defines %s named %q, and so does the block at %s.",
		article(kind), one.name, rangeText(other)))
}

func compareRanges(a, b hcl.Range) int {
	return compareDiags(&hcl.Diagnostic{Subject: &a}, &hcl.Diagnostic{Subject: &b})
}
