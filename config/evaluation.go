package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/syntax"
)

// Scope is the scope of the expressions in a configuration: variables, locals, blocks and functions. The zero value
// is empty.
type Scope struct {
	ctx      *hcl.EvalContext
	declared map[string][]string
	repeated map[string]bool
}

// Evaluate evaluates an expression in text that is in no file, such as the input of an operator. name stands for
// the file in diagnostics, more has further roots of references. The value may be sensitive, see IsSensitive.
func (s Scope) Evaluate(src []byte, name string, more map[string]cty.Value) (cty.Value, hcl.Diagnostics) {
	r := newReport()
	sources := newSourceFiles(r, newMeter(nil), syntax.Shape{})
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
	return (&evaluator{report: r, meter: m, declared: s.declared, repeated: s.repeated}).evaluate(expr, ctx)
}

// with returns the scope with further roots.
func (s Scope) with(more map[string]cty.Value) *hcl.EvalContext {
	ctx := s.ctx.NewChild()
	ctx.Variables = more
	return ctx
}

// IsSensitive reports whether a value or a part of it is sensitive, so that it must not be shown.
func IsSensitive(value cty.Value) bool { return value.ContainsMarked() }

// Masked returns a value in which the text "(sensitive value)" replaces every sensitive part. A list or a map with a
// sensitive element is replaced as a whole, because its elements have one type.
func Masked(value cty.Value) cty.Value {
	t := value.Type()
	switch {
	case !value.ContainsMarked():
		return value
	case value.IsMarked() || !t.IsObjectType() && !t.IsTupleType():
		return cty.StringVal("(sensitive value)")
	case t.IsObjectType():
		attrs := map[string]cty.Value{}
		for name, part := range value.AsValueMap() {
			attrs[name] = Masked(part)
		}
		return cty.ObjectVal(attrs)
	default:
		var parts []cty.Value
		for _, part := range value.AsValueSlice() {
			parts = append(parts, Masked(part))
		}
		return cty.TupleVal(parts)
	}
}

// ExpressionText formats a value as an expression of the language, with sensitive parts masked.
func ExpressionText(value cty.Value) string {
	value = Masked(value)
	if !value.IsWhollyKnown() {
		return "(unknown value)"
	}
	return string(hclwrite.Format(tokensOf(value).Bytes()))
}
