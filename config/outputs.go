package config

import (
	"fmt"
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/npctl/npctl/resources"
)

// Output is the value of an output block.
type Output struct {
	Value       cty.Value // without marks; unknown if it depends on a variable without a value
	Sensitive   bool      // npctl shows the value only on request
	Description string
	Source      resources.Source
}

// CheckResult is the result of one assert block of a check block.
type CheckResult struct {
	Address  string // "check.name"
	Severity RuleSeverity
	Passed   bool
	Unknown  bool   // it depends on a variable without a value
	Message  string // error_message, if it failed
	Source   resources.Source
}

// outputReader reads output blocks.
type outputReader struct{ *blockReader }

// readOutputs evaluates all output blocks. It also returns the object `output`, in which values keep their marks. A
// sensitive output of a module needs no attribute, because other blocks use the value with its mark.
func (r *outputReader) readOutputs(blocks []*hclsyntax.Block, ctx *hcl.EvalContext) (map[string]Output, cty.Value) {
	outputs, attrs, seen := map[string]Output{}, map[string]cty.Value{}, map[string]hcl.Range{}
	for _, block := range blocks {
		name := block.Labels[0]
		if other, twice := seen[name]; twice {
			r.duplicate(block, "output", name, other)
			continue
		}
		seen[name] = block.DefRange()
		if !hclsyntax.ValidIdentifier(name) {
			r.invalidIdentifier(block, "an output")
			continue
		}
		value, made := r.output(block, ctx)
		if value.ContainsMarked() && !made.Sensitive && r.module == "" {
			r.problem(block.Body.Attributes["value"].Expr.Range().Ptr(), "Sensitive output", fmt.Sprintf("The value of the output %q is sensitive. Set sensitive = true, "+
				"or use nonsensitive() if the value is not secret.", name))
		}
		if made.Sensitive {
			value = value.Mark(sensitive)
		}
		attrs[name] = value
		made.Value, _ = value.UnmarkDeep()
		outputs[name] = made
	}
	return outputs, cty.ObjectVal(attrs)
}

// output evaluates one output block.
func (r *outputReader) output(block *hclsyntax.Block, ctx *hcl.EvalContext) (cty.Value, Output) {
	body := *block.Body
	body.Attributes = maps.Clone(body.Attributes)
	attr := body.Attributes["value"]
	delete(body.Attributes, "value")
	c := r.bodies.decode(&body, ctx, r.specs.output, block.DefRange())
	made := Output{Source: r.sourceOf(block.DefRange())}
	if s, ok := c.attrs["description"]; ok && s.value.IsKnown() {
		made.Description = s.value.AsString()
	}
	if s, ok := c.attrs["sensitive"]; ok && s.value.IsKnown() {
		made.Sensitive = s.value.True()
	}
	if attr == nil {
		r.problem(block.DefRange().Ptr(), "Missing attribute", fmt.Sprintf("The output %q needs the attribute value.", block.Labels[0]))
		return cty.DynamicVal, made
	}
	if made.Sensitive {
		r.bodies.sources.hide(attr.Expr)
	}
	value, _ := r.bodies.eval.evaluate(attr.Expr, ctx)
	return value, made
}

func (r *report) invalidIdentifier(block *hclsyntax.Block, what string) {
	r.problem(block.LabelRanges[0].Ptr(), "Invalid name", fmt.Sprintf("%q cannot be the name of %s: a name "+
		"starts with a letter and consists of letters, digits, dashes and underscores.", block.Labels[0], what))
}

// readChecks evaluates all check blocks, and returns those about plans. A failed check is a warning: the configuration is valid.
func (r *outputReader) readChecks(blocks []*hclsyntax.Block, scope Scope) (results []CheckResult, rules []PlanRule) {
	ctx := scope.ctx
	seen := map[string]hcl.Range{}
	for _, block := range blocks {
		name := block.Labels[0]
		if other, twice := seen[name]; twice {
			r.duplicate(block, "check", name, other)
			continue
		}
		seen[name] = block.DefRange()
		c := r.bodies.decode(block.Body, ctx, r.specs.check, block.DefRange())
		if len(c.parts) == 0 && !c.open["assert"] {
			r.problem(block.DefRange().Ptr(), "Missing block", fmt.Sprintf("The check %q needs an assert block.", name))
		}
		address, severity := r.address("check."+name), RuleWarning
		if s, ok := c.attrs["severity"]; ok && s.value.IsKnown() {
			severity = RuleSeverity(s.value.AsString())
		}
		for _, p := range c.parts {
			condition, message, ok := r.conditionOf(p.block, r.specs.assert)
			if !ok {
				continue
			}
			about := rule{condition.Expr, message.Expr}
			if roots := about.planRoots(); len(roots) > 0 {
				rules = append(rules, PlanRule{Address: address, Severity: severity, Source: r.sourceOf(p.block.DefRange()), Roots: roots, rule: about, scope: scope, meter: r.bodies.eval.meter})
				continue
			}
			if result, ok := r.assert(p, condition, message); ok {
				result.Address, result.Severity = address, severity
				results = append(results, result)
				if !result.Passed && !result.Unknown {
					r.add(&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Check failed", Subject: p.block.DefRange().Ptr(),
						Detail: result.Address + ": " + result.Message, Extra: FailedRule{result.Address}})
				}
			}
		}
	}
	return results, rules
}

// assert evaluates one assert block. It returns false after an error.
func (r *outputReader) assert(p part, condition, message *hclsyntax.Attribute) (CheckResult, bool) {
	result := CheckResult{Source: r.sourceOf(p.block.DefRange())}
	passed, ok := r.condition(condition, p.ctx)
	if !ok {
		return result, false
	}
	if result.Unknown = !passed.IsKnown(); result.Unknown {
		return result, true
	}
	if result.Passed = passed.True(); !result.Passed {
		result.Message = r.errorMessage(message, p.ctx, "The condition is false.")
	}
	return result, true
}

// conditionOf returns the two attributes of a validation or assert block, or reports errors.
func (r *blockReader) conditionOf(block *hclsyntax.Block, s *spec) (condition, message *hclsyntax.Attribute, ok bool) {
	for name, attr := range block.Body.Attributes {
		if _, known := s.attrs[name]; !known {
			r.bodies.unknownAttribute(s, attr)
		}
	}
	for _, inner := range block.Body.Blocks {
		r.bodies.unknownBlock(s, inner)
	}
	condition, message = block.Body.Attributes["condition"], block.Body.Attributes["error_message"]
	if condition == nil || message == nil {
		r.problem(block.DefRange().Ptr(), "Missing attribute", fmt.Sprintf("%s block needs condition and error_message.", capitalized(s.what)))
		return nil, nil, false
	}
	return condition, message, true
}

// condition evaluates a condition. The result is a bool that is neither null nor marked, and may be unknown.
func (r *blockReader) condition(attr *hclsyntax.Attribute, ctx *hcl.EvalContext) (cty.Value, bool) {
	value, ok := r.bodies.eval.evaluate(attr.Expr, ctx)
	if !ok {
		return cty.NilVal, false
	}
	passed, err := convert.Convert(value, cty.Bool)
	if err != nil || passed.IsNull() {
		r.problem(attr.Expr.Range().Ptr(), "Invalid condition", "A condition must be true or false.")
		return cty.NilVal, false
	}
	passed, _ = passed.Unmark()
	return passed, true
}

// errorMessage returns the author's message unless it contains a secret.
func (r *blockReader) errorMessage(attr *hclsyntax.Attribute, ctx *hcl.EvalContext, fallback string) string {
	value, ok := r.bodies.eval.evaluate(attr.Expr, ctx)
	if !ok {
		return fallback
	}
	text, err := convertTo(value, cty.String)
	if err == nil && !text.IsKnown() {
		return fallback
	}
	if err != nil || text.IsNull() {
		r.problem(attr.Expr.Range().Ptr(), "Invalid error message", "An error_message must be a string.")
		return fallback
	}
	if text.IsMarked() {
		return fallback + " The error message is hidden, because it contains a sensitive value."
	}
	return text.AsString()
}

// PlainText returns a string, number or bool without quotes.
func PlainText(value cty.Value) (string, error) {
	if value.IsNull() || !value.IsKnown() || !value.Type().IsPrimitiveType() {
		return "", fmt.Errorf("the value is %s, and only a string, number or bool that is not null has a plain text", article(value.Type().FriendlyName()))
	}
	return argumentText(value), nil
}
