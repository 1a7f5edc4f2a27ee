package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
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
	at   hcl.Range      // position of the expression
}

// collectValues determines for each variable the value of the source with the highest precedence.
func (l *loader) collectValues(all map[string]*variable) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if l.opts.LookupEnv == nil {
			break
		}
		if text, ok := l.opts.LookupEnv(envPrefix + name); ok {
			all[name].given = &externalValue{from: envPrefix + name, text: text}
		}
	}
	for _, path := range l.found.auto {
		l.readValues(path, all)
	}
	for _, path := range l.opts.VarFiles {
		l.readValues(path, all)
	}
	for _, argument := range l.opts.Vars {
		l.readArgument(argument, all)
	}
}

// readArgument reads one name=value argument. Messages do not repeat its value, which may be a secret.
func (l *loader) readArgument(argument string, all map[string]*variable) {
	name, text, ok := strings.Cut(argument, "=")
	name = strings.TrimSpace(name)
	if !ok || name == "" {
		l.problem(nil, "Invalid -var", "The option -var takes name=value, such as -var 'region=ca-ymq-1'.")
		return
	}
	v, ok := all[name]
	if !ok {
		if !l.partial {
			l.problem(nil, "Unknown variable", fmt.Sprintf("The configuration has no variable %q, which -var sets.%s",
				name, oneOf("variables", name, l.declared["var"])))
		}
		return
	}
	v.given = &externalValue{from: "-var", text: text}
}

// readValues reads the values of one file. An undeclared name is only a warning, so that one file can serve several
// configurations.
func (l *loader) readValues(path string, all map[string]*variable) {
	attrs := l.valuesFile(path)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		attr := attrs[name]
		v, ok := all[name]
		if !ok && l.partial {
			continue // a file that could not be parsed may declare it
		}
		if !ok {
			l.warning(attr.NameRange.Ptr(), "Unknown variable", fmt.Sprintf("The configuration has no variable %q.%s",
				name, oneOf("variables", name, l.declared["var"])))
			continue
		}
		v.given = &externalValue{from: path, expr: attr.Expr, at: attr.Expr.Range()}
		if v.sensitive {
			l.hidden = append(l.hidden, attr.Expr.Range())
		}
	}
}

func (l *loader) valuesFile(path string) hcl.Attributes {
	src, ok := l.readFile(path)
	if !ok {
		return nil
	}
	var body hcl.Body
	if filepath.Ext(path) == ".json" {
		body = l.parseJSON(path, src)
	} else if parsed := l.parse(path, src); parsed != nil {
		body = parsed
	}
	if body == nil {
		return nil
	}
	attrs, diags := body.JustAttributes()
	l.diags = append(l.diags, diags...)
	return attrs
}

// parseJSON limits the depth before it calls HCL's parser, which has no limit.
func (l *loader) parseJSON(path string, src []byte) hcl.Body {
	if json.Valid(src) {
		if err := checkDepth(string(src)); err != nil {
			l.problem(nil, "Configuration nested too deeply", path+": "+err.Error()+".")
			return nil
		}
	} else if checkDepth(string(src)) != nil {
		l.problem(nil, "Invalid JSON", path+" is not JSON.")
		return nil
	}
	file, diags := hcljson.Parse(src, path)
	l.diags = append(l.diags, diags...)
	if file == nil {
		return nil
	}
	l.files[path] = file
	return file.Body
}

// givenValue evaluates the given value. Text is used verbatim if the variable is a string, number or bool, and parsed
// as an HCL expression if it is a list, map or object. For a variable without a type, text that starts with a bracket
// is an expression.
func (l *loader) givenValue(v *variable) cty.Value {
	expr, at := v.given.expr, v.given.at
	if expr == nil {
		if !takesExpression(v.want, v.given.text) {
			at = l.showText(v)
			value, _ := l.convertToVariable(v, cty.StringVal(v.given.text), at, "the value from "+v.given.from)
			return value
		}
		parsed, ok := l.parseArgument(v)
		if !ok {
			return cty.DynamicVal
		}
		expr, at = parsed, parsed.Range()
	}
	value, diags := l.meter.value(expr, nil)
	if diags.HasErrors() {
		if v.sensitive {
			diags = hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: at.Ptr(),
				Detail: fmt.Sprintf("The value of the sensitive variable %q cannot be evaluated.", v.name)}}
		}
		l.diags = append(l.diags, diags...)
		return cty.DynamicVal
	}
	value, _ = l.convertToVariable(v, value, at, "the value from "+v.given.from)
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
func (l *loader) showText(v *variable) hcl.Range {
	name := fmt.Sprintf("<value of var.%s from %s>", v.name, v.given.from)
	src := []byte(v.given.text)
	if v.sensitive {
		src = []byte("(sensitive)")
	}
	l.files[name] = &hcl.File{Bytes: src}
	at := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.Pos{Line: 1, Column: 1 + len(src), Byte: len(src)}}
	v.given.at = at
	return at
}

func (l *loader) parseArgument(v *variable) (hclsyntax.Expression, bool) {
	at := l.showText(v)
	src := []byte(v.given.text)
	if diag := guard(src, at.Filename, &l.signsLeft); diag != nil {
		l.diags = append(l.diags, diag)
		return nil, false
	}
	expr, diags := hclsyntax.ParseExpression(src, at.Filename, hcl.InitialPos)
	if diags.HasErrors() {
		if v.sensitive {
			diags = hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Invalid value for variable", Subject: at.Ptr(),
				Detail: fmt.Sprintf("The value of the sensitive variable %q is not an HCL expression.", v.name)}}
		}
		l.diags = append(l.diags, diags...)
		return nil, false
	}
	l.meter.attach(expr)
	return expr, true
}
