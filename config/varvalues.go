package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// envPrefix is the prefix of environment variables that set variables.
const envPrefix = "NPCTL_VAR_"

// externalValue is a value from outside the configuration: text from the command line or environment, or an
// expression from a file.
type externalValue struct {
	from string
	text string
	expr hcl.Expression // nil for text
	// value is the value of an input, which is evaluated in the scope of the module block.
	value cty.Value
	at    hcl.Range // position of the expression
}

// collectValues determines for each variable the value of the source with the highest precedence.
func (r *variableReader) collectValues(all map[string]*variable, auto []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if r.lookupEnv == nil {
			break
		}
		if text, ok := r.lookupEnv(envPrefix + name); ok {
			all[name].given = &externalValue{from: envPrefix + name, text: text}
		}
	}
	for _, path := range auto {
		r.readValues(path, regularFile, all)
	}
	for _, path := range r.files {
		r.readValues(path, fileOrPipe, all)
	}
	for _, argument := range r.arguments {
		r.readArgument(argument, all)
	}
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		r.setValue(r.values[name], all)
	}
	for name, v := range all {
		if v.given = cmp.Or(r.inputs[name], v.given); r.inputs[name] != nil && v.Sensitive {
			r.sources.hideRange(v.given.at)
		}
	}
}

// setValue sets the value of a variable in a run of npctl test.
func (r *variableReader) setValue(attr *hcl.Attribute, all map[string]*variable) {
	v, ok := all[attr.Name]
	if !ok {
		r.problem(attr.NameRange.Ptr(), "Unknown variable", fmt.Sprintf("The configuration has no variable %q.%s",
			attr.Name, oneOf("variables", attr.Name, r.eval.declared["var"])))
		return
	}
	v.given = &externalValue{from: attr.Range.Filename, expr: attr.Expr, at: attr.Expr.Range()}
}

// readArgument reads one name=value argument. Messages do not repeat its value, which may be a secret.
func (r *variableReader) readArgument(argument string, all map[string]*variable) {
	name, text, ok := strings.Cut(argument, "=")
	name = strings.TrimSpace(name)
	if !ok || name == "" {
		r.problem(nil, "Invalid -var", "The option -var takes name=value, such as -var 'region=ca-ymq-1'.")
		return
	}
	v, ok := all[name]
	if !ok {
		if !r.partial && !r.others {
			r.problem(nil, "Unknown variable", fmt.Sprintf("The configuration has no variable %q, which -var sets.%s",
				name, oneOf("variables", name, r.eval.declared["var"])))
		}
		return
	}
	v.given = &externalValue{from: "-var", text: text}
}

// readValues reads the values of one file. An undeclared name is only a warning, so that one file can serve several
// configurations.
func (r *variableReader) readValues(path string, accept fileType, all map[string]*variable) {
	attrs := r.sources.attributes(path, accept)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		attr := attrs[name]
		v, ok := all[name]
		if !ok && r.partial {
			continue // a file that could not be parsed may declare it
		}
		if !ok {
			r.warning(attr.NameRange.Ptr(), "Unknown variable", fmt.Sprintf("The configuration has no variable %q.%s",
				name, oneOf("variables", name, r.eval.declared["var"])))
			continue
		}
		v.given = &externalValue{from: path, expr: attr.Expr, at: attr.Expr.Range()}
		if v.Sensitive {
			r.sources.hideRange(attr.Expr.Range())
		}
	}
}

// givenValue evaluates the given value. Text is used verbatim if the variable is a string, number or bool, and parsed
// as an HCL expression if it is a list, map or object. For a variable without a type, text that starts with a bracket
// is an expression.
func (r *variableReader) givenValue(v *variable) cty.Value {
	expr, at := v.given.expr, v.given.at
	if v.given.value != cty.NilVal {
		value, _ := r.convertToVariable(v, v.given.value, at, "the value from "+v.given.from)
		return value
	}
	if expr == nil {
		if !takesExpression(v.want, v.given.text) {
			at = r.showText(v)
			value, _ := r.convertToVariable(v, cty.StringVal(v.given.text), at, "the value from "+v.given.from)
			return value
		}
		parsed := r.parseArgument(v)
		if parsed == nil {
			return cty.DynamicVal
		}
		expr, at = parsed, parsed.Range()
	}
	value, diags := r.eval.meter.value(expr, nil)
	if diags.HasErrors() {
		if v.Sensitive {
			diags = hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: at.Ptr(),
				Detail: fmt.Sprintf("The value of the sensitive variable %q cannot be evaluated.", v.name)}}
		}
		r.add(diags...)
		return cty.DynamicVal
	}
	value, _ = r.convertToVariable(v, value, at, "the value from "+v.given.from)
	return value
}

func takesExpression(want cty.Type, text string) bool {
	if want == cty.DynamicPseudoType {
		trimmed := strings.TrimSpace(text)
		return strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{")
	}
	return !want.IsPrimitiveType()
}

// showText makes text from the command line or environment the source of diagnostics.
func (r *variableReader) showText(v *variable) hcl.Range {
	name := fmt.Sprintf("<value of var.%s from %s>", v.name, v.given.from)
	src := []byte(v.given.text)
	if v.Sensitive {
		src = []byte("(sensitive)")
	}
	v.given.at = r.sources.addText(name, src)
	return v.given.at
}

// parseArgument parses text from the command line or environment. It reports an error and returns nil.
func (r *variableReader) parseArgument(v *variable) hclsyntax.Expression {
	at := r.showText(v)
	expr, diags := r.sources.parseExpression([]byte(v.given.text), at.Filename)
	if diags.HasErrors() && v.Sensitive {
		diags = hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: at.Ptr(),
			Detail: fmt.Sprintf("The value of the sensitive variable %q is not an HCL expression.", v.name)}}
	}
	r.add(diags...)
	return expr
}
