package config

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Diagnostics could reveal secrets in three ways: as values of variables that HCL prints below the source line (it
// omits marked ones), in the text of an error that quotes a value (redact removes that text), and as text in the
// source line itself (masked in the files of the Result).

// mark is the type of the cty marks of this package.
type mark string

// sensitive marks values that npctl never shows.
const sensitive mark = "sensitive"

// redact removes the text of diagnostics that might quote a sensitive value.
func redact(diags hcl.Diagnostics) hcl.Diagnostics {
	for i, diag := range diags {
		if diag.Expression == nil || !refersToSensitive(diag.Expression, diag.EvalContext) {
			continue
		}
		plain := *diag
		plain.Detail = "The reason is hidden, because the expression contains a sensitive value."
		plain.Expression, plain.EvalContext, plain.Extra = nil, nil, nil
		diags[i] = &plain
	}
	return diags
}

// refersToSensitive reports whether an expression contains a sensitive value or the function that creates one.
func refersToSensitive(expr hcl.Expression, ctx *hcl.EvalContext) bool {
	for _, traversal := range expr.Variables() {
		if longestValue(traversal, ctx).ContainsMarked() {
			return true
		}
	}
	node, ok := expr.(hclsyntax.Node)
	return ok && callsSensitive(node)
}

// longestValue resolves as much of a reference as possible. The bare root of a longer reference, such as var, does
// not count.
func longestValue(traversal hcl.Traversal, ctx *hcl.EvalContext) cty.Value {
	for n := len(traversal); n > 1 || n == len(traversal) && n > 0; n-- {
		if value, diags := traversal[:n].TraverseAbs(ctx); !diags.HasErrors() {
			return value
		}
	}
	return cty.DynamicVal
}

func callsSensitive(node hclsyntax.Node) bool {
	found := false
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		found = found || ok && call.Name == "sensitive"
		return nil
	})
	return found
}

// hide masks the literal text of an expression with a sensitive value, wherever source lines are shown.
func (s *sourceFiles) hide(expr hclsyntax.Expression) {
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if literal, ok := n.(*hclsyntax.LiteralValueExpr); ok && !literal.Val.IsNull() {
			s.hideRange(literal.SrcRange)
		}
		return nil
	})
}

func (s *sourceFiles) hideRange(r hcl.Range) { s.hidden = append(s.hidden, r) }

// shownFiles returns the files with the hidden ranges masked byte for byte, so that positions stay valid.
func (s *sourceFiles) shownFiles() map[string]*hcl.File {
	shown := maps.Clone(s.files)
	for _, r := range s.hidden {
		file := shown[r.Filename]
		if file == nil || r.End.Byte > len(file.Bytes) {
			continue
		}
		if file == s.files[r.Filename] {
			clone := *file
			clone.Bytes = slices.Clone(file.Bytes)
			file = &clone
			shown[r.Filename] = file
		}
		for i := r.Start.Byte; i < r.End.Byte; i++ {
			if file.Bytes[i] != '\n' && file.Bytes[i] != '\r' {
				file.Bytes[i] = '*'
			}
		}
	}
	return shown
}
