package config

import (
	"cmp"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// problem reports an error at a position; at is nil for an error outside the files.
func (l *loader) problem(at *hcl.Range, summary, detail string) {
	l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: at})
}

// warning reports a valid setting that is probably unintended.
func (l *loader) warning(at *hcl.Range, summary, detail string) {
	l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: detail, Subject: at})
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
