package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns source text in the canonical layout: two spaces for each level, equals signs of neighbours in one
// column. Formatted text comes back unchanged. Text with syntax errors comes back as it is, with the errors.
func Format(src []byte, filename string) ([]byte, hcl.Diagnostics) {
	if len(src) > maxTotalBytes {
		return src, hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Configuration too large",
			Detail: filename + " has " + sizeText(int64(len(src))) + "; at most " + sizeText(maxTotalBytes) + " are formatted.",
		}}
	}
	signs := maxSigns
	if _, diags := parseSource(src, filename, &signs); diags.HasErrors() {
		return src, sortDiags(diags)
	}
	return hclwrite.Format(src), nil
}
