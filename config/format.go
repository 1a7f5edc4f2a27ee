package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/npctl/npctl/internal/syntax"
	plaintext "github.com/npctl/npctl/internal/text"
)

// Format returns source text in the canonical layout: two spaces for each level, equals signs of adjacent lines in
// one column. Formatting is idempotent. Text with syntax errors is returned unchanged, with the errors.
func Format(src []byte, filename string) ([]byte, hcl.Diagnostics) {
	if len(src) > maxTotalBytes {
		return src, hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Configuration too large",
			Detail: filename + " has " + plaintext.Bytes(int64(len(src))) + "; at most " + plaintext.Bytes(maxTotalBytes) + " are formatted.",
		}}
	}
	if _, diags := syntax.NewParser(syntax.Shape{}).File(src, filename); diags.HasErrors() {
		return src, sortDiags(diags)
	}
	return hclwrite.Format(src), nil
}
