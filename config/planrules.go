package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/npctl/npctl/resources"
)

// PlanRoots are the roots of references that exist only after a plan: a check that refers to one is a PlanRule.
var PlanRoots = []string{"plan", "effect", "cost", "desired", "state"}

// RuleSeverity is the severity of a check block.
type RuleSeverity string

// The severities.
const (
	RuleError   RuleSeverity = "error"   // a plan with a false condition is not applied
	RuleWarning RuleSeverity = "warning" // the default
)

// PlanRule is an assert block about a plan. It is evaluated after the plan is made.
type PlanRule struct {
	Address  string // "check.name"
	Severity RuleSeverity
	Source   resources.Source
	// Roots are the PlanRoots that it refers to.
	Roots []string
	rule  rule
	scope Scope
	meter *meter
}

// rule is a condition with its error message.
type rule struct{ condition, message hclsyntax.Expression }

// planRoots returns the roots of a rule that exist only after a plan.
func (l rule) planRoots() (roots []string) {
	for _, expr := range []hclsyntax.Expression{l.condition, l.message} {
		for _, traversal := range expr.Variables() {
			if name := traversal.RootName(); slices.Contains(PlanRoots, name) && !slices.Contains(roots, name) {
				roots = append(roots, name)
			}
		}
	}
	return roots
}

// Evaluate returns the error message if the condition is false, and otherwise "". values has the Roots.
func (p PlanRule) Evaluate(values map[string]cty.Value) (message string, diags hcl.Diagnostics) {
	r := newReport()
	message = p.rule.evaluate(r, p.meter, p.scope, values)
	return message, redact(r.diags)
}

// evaluate returns the error message if the condition is false, and otherwise "", also after an error.
func (l rule) evaluate(r *report, m *meter, scope Scope, more map[string]cty.Value) string {
	at := l.condition.Range()
	value, ok := scope.evaluate(r, m, l.condition, more)
	if !ok {
		return ""
	}
	passed, err := convert.Convert(value, cty.Bool)
	passed, _ = passed.Unmark()
	if err != nil || passed.IsNull() || !passed.IsKnown() {
		r.problem(&at, "Invalid condition", "A condition must be true or false.")
		return ""
	}
	if passed.True() {
		return ""
	}
	text, ok := scope.evaluate(r, m, l.message, more)
	if !ok {
		return ""
	}
	if text, err = convert.Convert(text, cty.String); err != nil || text.IsNull() || !text.IsKnown() {
		return "The condition is false, and its error_message is not a string."
	}
	if IsSensitive(text) {
		return "The error message is hidden, because it contains a sensitive value."
	}
	if text.AsString() == "" {
		return "The condition is false."
	}
	return text.AsString()
}
