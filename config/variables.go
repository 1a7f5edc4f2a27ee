package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// VariableValue is the value of a variable in a plan file. Value given as -var has the same meaning.
type VariableValue struct {
	Value     string // text of a string, number or bool; an HCL expression otherwise; empty when sensitive
	Sensitive bool
	From      string // "default", "NPCTL_VAR_name", "-var" or a file name
}

// variable is a variable block.
type variable struct {
	name        string
	at          hcl.Range
	want        cty.Type // DynamicPseudoType without a type attribute
	defaults    *typeexpr.Defaults
	fallback    cty.Value // the default; cty.NilVal when there is none
	Nullable    bool      `config:"nullable"`
	Sensitive   bool      `config:"sensitive"`
	validations []part
	given       *externalValue
	value       cty.Value
}

// variableReader reads variable blocks and the values of variables.
type variableReader struct {
	*blockReader
	eval      *evaluator
	sources   *sourceFiles
	arguments []string // -var
	files     []string // -var-file
	values    hcl.Attributes
	lookupEnv func(string) (string, bool)
	inputs    map[string]*externalValue // of a module block
	checkOnly bool
	others    bool // arguments may name variables that the configuration does not have

	shown map[string]VariableValue // the values, for the Result; nil in a module
	unset []string                 // variables without a value
}

// variables reads all variable blocks and determines their values. auto are the files with values that npctl always
// reads. It returns the object `var`.
func (r *variableReader) variables(blocks []*hclsyntax.Block, auto []string, base *hcl.EvalContext) cty.Value {
	all := map[string]*variable{}
	for _, block := range blocks {
		name := block.Labels[0]
		if other, twice := all[name]; twice {
			r.duplicate(block, "variable", name, other.at)
			continue
		}
		if !hclsyntax.ValidIdentifier(name) {
			r.invalidIdentifier(block, "a variable")
			continue
		}
		all[name] = r.variable(block, base)
	}
	r.eval.declared["var"] = slices.Sorted(maps.Keys(all))
	r.collectValues(all, auto)
	attrs := map[string]cty.Value{}
	for _, name := range r.eval.declared["var"] {
		attrs[name] = r.variableValue(all[name])
	}
	object := cty.ObjectVal(attrs)
	r.validateVariables(all, object, base)
	return object
}

// variable reads one variable block.
func (r *variableReader) variable(block *hclsyntax.Block, base *hcl.EvalContext) *variable {
	v := &variable{name: block.Labels[0], at: block.DefRange(), want: cty.DynamicPseudoType, Nullable: true}
	body := *block.Body
	body.Attributes = maps.Clone(body.Attributes)
	typeAttr, defaultAttr := body.Attributes["type"], body.Attributes["default"]
	delete(body.Attributes, "type")
	delete(body.Attributes, "default")
	c := r.bodies.decode(&body, base, r.specs.variable, block.DefRange())
	all := r.bodies.complete(c, nil)
	all.decode(v)
	v.validations = c.parts
	if typeAttr != nil {
		want, defaults, diags := typeexpr.TypeConstraintWithDefaults(typeAttr.Expr)
		r.add(diags...)
		v.want, v.defaults = want, defaults
	}
	if defaultAttr != nil {
		r.variableDefault(v, defaultAttr, typeAttr != nil, base)
	}
	return v
}

func (r *variableReader) variableDefault(v *variable, attr *hclsyntax.Attribute, typed bool, base *hcl.EvalContext) {
	if v.Sensitive {
		r.sources.hide(attr.Expr)
	}
	if r.defaultRefers(attr.Expr) {
		v.fallback = cty.DynamicVal
		return
	}
	value, ok := r.eval.evaluate(attr.Expr, base)
	if !ok {
		v.fallback = cty.DynamicVal
		return
	}
	if !typed && value.Type().IsPrimitiveType() && !value.IsNull() {
		v.want = value.Type()
	}
	v.fallback, ok = r.convertToVariable(v, value, attr.Expr.Range(), "the default")
	if !ok {
		v.fallback = cty.DynamicVal
	}
}

// defaultRefers reports references in a default. Other values of the configuration are not known at that time.
func (r *variableReader) defaultRefers(expr hclsyntax.Expression) bool {
	found := false
	for _, traversal := range expr.Variables() {
		if _, known := referable[traversal.RootName()]; known {
			found = true
			r.problem(traversal.SourceRange().Ptr(), "Reference in a default", fmt.Sprintf("The default of a variable must not refer to "+
				"other values such as %s. A local value may: locals { name = %[1]s }.", traversalText(traversal)))
		}
	}
	return found
}

// convertToVariable converts a value to the variable's type.
func (r *variableReader) convertToVariable(v *variable, value cty.Value, at hcl.Range, what string) (cty.Value, bool) {
	if v.defaults != nil && !value.IsNull() {
		value = v.defaults.Apply(value)
	}
	converted, err := convert.Convert(value, v.want)
	if err != nil {
		r.problem(at.Ptr(), "Wrong type", fmt.Sprintf("For the variable %q, %s is not valid: %s.", v.name, what, conversionError(err, v.want)))
		return cty.DynamicVal, false
	}
	if converted.IsNull() && !v.Nullable {
		if v.fallback != cty.NilVal && what != "the default" {
			return v.fallback, true
		}
		r.problem(at.Ptr(), "Value is null", fmt.Sprintf("The variable %q cannot be null.", v.name))
		return cty.DynamicVal, false
	}
	return converted, true
}

// variableValue returns the given value, or the default.
func (r *variableReader) variableValue(v *variable) cty.Value {
	value, from := v.fallback, "default"
	if v.given != nil {
		from = v.given.from
		value = r.givenValue(v)
	}
	switch {
	case value == cty.NilVal && r.checkOnly:
		r.unset = append(r.unset, v.name)
		value = unknownOf(v)
	case value == cty.NilVal && r.module != "": // reported for the module block
		value = cty.DynamicVal
	case value == cty.NilVal:
		r.problem(v.at.Ptr(), "No value for variable", fmt.Sprintf("The variable %q has no default. Give it a value with "+
			"-var '%s=…', with -var-file, or with %s%s in the environment.", v.name, v.name, envPrefix, v.name))
		value = cty.DynamicVal
	}
	v.value = value
	if r.shown != nil {
		shown := VariableValue{Sensitive: v.Sensitive || value.ContainsMarked(), From: from}
		if !shown.Sensitive && value.IsWhollyKnown() {
			shown.Value = argumentText(value)
		}
		r.shown[v.name] = shown
	}
	if v.Sensitive {
		return value.Mark(sensitive)
	}
	return value
}

// unknownOf returns an unknown value of the variable's type.
func unknownOf(v *variable) cty.Value {
	value := cty.UnknownVal(plainType(v.want))
	if v.Nullable || value.Type() == cty.DynamicPseudoType {
		return value
	}
	return value.RefineNotNull()
}

// argumentText formats a value for -var.
func argumentText(value cty.Value) string {
	if !value.IsNull() && value.Type().IsPrimitiveType() {
		text, _ := convert.Convert(value, cty.String)
		return text.AsString()
	}
	return string(tokensOf(value).Bytes())
}

// tokensOf returns the expression of a known value.
func tokensOf(value cty.Value) hclwrite.Tokens {
	tokens := hclwrite.TokensForValue(value)
	for _, t := range tokens {
		// hclwrite writes a key with a byte order mark as an identifier, which HCL accepts only at the start of a text.
		if rest, ok := bytes.CutPrefix(t.Bytes, []byte("\ufeff")); ok && t.Type == hclsyntax.TokenIdent {
			t.Bytes = fmt.Appendf(nil, `"\ufeff%s"`, rest)
		}
	}
	return tokens
}

func (r *variableReader) validateVariables(all map[string]*variable, object cty.Value, base *hcl.EvalContext) {
	ctx := base.NewChild()
	ctx.Variables = map[string]cty.Value{"var": object}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, validation := range all[name].validations {
			r.validate(all[name], validation.block, ctx)
		}
	}
}

// validate checks one condition of a variable. It shows the author's message unless the message contains a secret.
func (r *variableReader) validate(v *variable, block *hclsyntax.Block, ctx *hcl.EvalContext) {
	condition, message, ok := r.conditionOf(block, r.specs.validation)
	if !ok {
		return
	}
	passed, ok := r.condition(condition, ctx)
	if !ok || !passed.IsKnown() || passed.True() {
		return
	}
	r.add(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: v.origin(), Extra: FailedRule{r.address("var." + v.name)},
		Detail: fmt.Sprintf("%s\n\nThis was checked by the validation rule at %s.",
			r.errorMessage(message, ctx, fmt.Sprintf("The value of %q is not valid.", v.name)), rangeText(block.DefRange()))})
}

// origin returns the position of the value, or else that of the variable.
func (v *variable) origin() *hcl.Range {
	if v.given != nil && v.given.at.Filename != "" {
		return v.given.at.Ptr()
	}
	return v.at.Ptr()
}
