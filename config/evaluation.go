package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Scope is the scope of the expressions in a configuration: variables, locals, blocks and functions. The zero value
// is empty.
type Scope struct {
	ctx      *hcl.EvalContext
	declared map[string][]string
}

// Evaluate evaluates an expression in text that is in no file, such as one that an operator has typed. name stands for
// the file in diagnostics, more has further roots of references. The value may be sensitive, see IsSensitive.
func (s Scope) Evaluate(src []byte, name string, more map[string]cty.Value) (cty.Value, hcl.Diagnostics) {
	r := newReport()
	sources := newSourceFiles(r, newMeter(nil))
	expr, diags := sources.parseExpression(src, name)
	r.add(diags...)
	if expr == nil {
		return cty.DynamicVal, r.diags
	}
	value, _ := s.evaluate(r, sources.meter, expr, more)
	return value, r.diags
}

// evaluate evaluates an expression whose for expressions the meter counts, or reports an error and returns false.
func (s Scope) evaluate(r *report, m *meter, expr hclsyntax.Expression, more map[string]cty.Value) (cty.Value, bool) {
	ctx := s.with(more)
	return (&evaluator{report: r, meter: m, declared: s.declared}).evaluate(expr, ctx)
}

// with returns the scope with further roots.
func (s Scope) with(more map[string]cty.Value) *hcl.EvalContext {
	ctx := s.ctx.NewChild()
	ctx.Variables = more
	return ctx
}

// IsSensitive reports whether a value or a part of it is sensitive, so that it must not be shown.
func IsSensitive(value cty.Value) bool { return value.ContainsMarked() }
