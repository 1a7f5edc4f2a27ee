package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Secrets could get into diagnostics in three ways: as the values of variables that HCL prints below the source line
// (it leaves out marked ones), in the words of an error that quotes a value (such diagnostics lose their words, here),
// and as text in the source line itself (blanked out in the files of the Result).

// mark is the type of our cty marks.
type mark string

// sensitive marks values that are never shown.
const sensitive mark = "sensitive"

// redact takes the words from diagnostics that might quote a sensitive value.
func redact(diags hcl.Diagnostics) hcl.Diagnostics {
	for i, diag := range diags {
		if diag.Expression == nil || !touchesSecret(diag.Expression, diag.EvalContext) {
			continue
		}
		plain := *diag
		plain.Detail = "What is wrong is not shown, because the expression has a sensitive value in it."
		plain.Expression, plain.EvalContext, plain.Extra = nil, nil, nil
		diags[i] = &plain
	}
	return diags
}

// touchesSecret tells whether a sensitive value, or the function that makes one, is part of an expression.
func touchesSecret(expr hcl.Expression, ctx *hcl.EvalContext) bool {
	for _, traversal := range expr.Variables() {
		if longestValue(traversal, ctx).ContainsMarked() {
			return true
		}
	}
	node, ok := expr.(hclsyntax.Node)
	return ok && callsSensitive(node)
}

// longestValue follows a reference as far as it goes. The bare root, such as var, stands for nothing in particular when
// more was meant.
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

// hide blanks out the literal text of an expression whose value is sensitive, wherever source lines are shown.
func (l *loader) hide(expr hclsyntax.Expression) {
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if literal, ok := n.(*hclsyntax.LiteralValueExpr); ok && !literal.Val.IsNull() {
			l.hidden = append(l.hidden, literal.SrcRange)
		}
		return nil
	})
}

// shownFiles are the files with what is hidden blanked out, byte for byte, so that places stay right.
func (l *loader) shownFiles() map[string]*hcl.File {
	shown := map[string]*hcl.File{}
	for name, file := range l.files {
		shown[name] = file
	}
	for _, r := range l.hidden {
		file := shown[r.Filename]
		if file == nil || r.End.Byte > len(file.Bytes) {
			continue
		}
		if file == l.files[r.Filename] {
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
