package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/syntax"
	plaintext "github.com/npctl/npctl/internal/text"
)

// evaluator evaluates expressions and explains errors in references.
type evaluator struct {
	*report
	meter    *meter
	declared map[string][]string // names by root: var, local, diskimage, …
	repeated map[string]bool     // by the name of a module: whether its block has for_each
}

// evaluate returns the value of an expression, or reports an error and returns false.
func (e *evaluator) evaluate(expr hclsyntax.Expression, ctx *hcl.EvalContext) (cty.Value, bool) {
	if e.meter.fault.Load() != nil {
		return cty.DynamicVal, false // already reported
	}
	value, diags := e.meter.value(expr, ctx)
	if e.meter.fault.Load() != nil {
		e.add(diags...)
		return cty.DynamicVal, false
	}
	if diags.HasErrors() {
		e.add(redact(e.explain(expr, ctx, diags))...)
		return cty.DynamicVal, false
	}
	if fault := tooLarge(value); fault != "" {
		e.problem(expr.Range().Ptr(), "Value too large", fault)
		return cty.DynamicVal, false
	}
	return value, true
}

// explain replaces HCL's errors about unknown references by errors that suggest similar names.
func (e *evaluator) explain(expr hcl.Expression, ctx *hcl.EvalContext, diags hcl.Diagnostics) hcl.Diagnostics {
	var better hcl.Diagnostics
	known := true
	for _, traversal := range expr.Variables() {
		if _, diags := traversal.TraverseAbs(ctx); !diags.HasErrors() {
			continue
		}
		diag, found := e.explainReference(expr, traversal, ctx)
		known = known && found
		if diag != nil {
			better = append(better, diag)
		}
	}
	if len(better) > 0 || !known {
		return better
	}
	for _, diag := range diags {
		if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](diag); ok && !strings.Contains(diag.Detail, "Did you mean") {
			diag.Detail += didYouMean(call.CalledFunctionName(), functionNames(ctx))
		}
	}
	return diags
}

// isInterpolated reports whether a reference alone is an interpolation, as in "echo ${HOME}".
func isInterpolated(expr hcl.Expression, traversal hcl.Traversal) bool {
	root, ok := expr.(hclsyntax.Node)
	if !ok {
		return false
	}
	found := false
	isReference := func(part hclsyntax.Expression) bool {
		scope, ok := part.(*hclsyntax.ScopeTraversalExpr)
		return ok && scope.SrcRange == traversal.SourceRange()
	}
	_ = hclsyntax.VisitAll(root, func(node hclsyntax.Node) hcl.Diagnostics {
		switch template := node.(type) {
		case *hclsyntax.TemplateExpr:
			found = found || slices.ContainsFunc(template.Parts, isReference)
		case *hclsyntax.TemplateWrapExpr:
			found = found || isReference(template.Wrapped)
		}
		return nil
	})
	return found
}

func functionNames(ctx *hcl.EvalContext) []string {
	var names []string
	for ; ctx != nil; ctx = ctx.Parent() {
		names = slices.AppendSeq(names, maps.Keys(ctx.Functions))
	}
	return names
}

// explainReference returns the error in one reference, nil if HCL's own error is better. It returns false when no
// error may be reported, because the name may be in a file that could not be parsed.
func (e *evaluator) explainReference(expr hcl.Expression, traversal hcl.Traversal, ctx *hcl.EvalContext) (*hcl.Diagnostic, bool) {
	root := traversal.RootName()
	kind, isKind := referable[root]
	diag := &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Unknown reference", Subject: traversal.SourceRange().Ptr(),
	}
	if root == "each" && lookup(ctx, root) == cty.NilVal {
		diag.Detail = "The name each is defined only in a block with for_each."
		return diag, true
	}
	if root == "cloud_image" && lookup(ctx, root) == cty.NilVal {
		diag.Detail = "References to a cloud_image are valid only in the pools of its provider."
		return diag, true
	}
	if !isKind {
		if lookup(ctx, root) != cty.NilVal {
			return nil, true // the root exists and lacks the attribute; HCL's error is good
		}
		diag.Detail = fmt.Sprintf("There is nothing named %q here.%s", root, e.rootHint(expr, traversal))
		return diag, true
	}
	if len(traversal) == 1 {
		return nil, true
	}
	name, ok := stepName(traversal[1])
	names := e.namesOf(root, ctx)
	switch {
	case !ok || !slices.Contains(names, name) || root == "var" || root == "local":
	case root == "module":
		return e.explainOutput(traversal, name, ctx, diag), true
	default:
		return e.explainInstance(traversal, name, ctx, diag), true
	}
	if !ok || slices.Contains(names, name) {
		return nil, true
	}
	if e.partial {
		return nil, false
	}
	diag.Detail = fmt.Sprintf("There is no %s named %q.%s", kind, name, didYouMean(name, names))
	if hint := e.referenceHint(name); !strings.Contains(diag.Detail, "Did you mean") && hint != "" {
		diag.Detail += hint
	}
	return diag, true
}

// explainInstance returns the error in a reference to an instance that a block does not have, else nil.
func (e *evaluator) explainInstance(traversal hcl.Traversal, name string, ctx *hcl.EvalContext, diag *hcl.Diagnostic) *hcl.Diagnostic {
	if len(traversal) < 3 {
		return nil
	}
	key, ok := stepName(traversal[2])
	block, diags := traversal[:2].TraverseAbs(ctx)
	if !ok || diags.HasErrors() || !block.IsKnown() || !block.Type().IsObjectType() {
		return nil
	}
	keys := slices.Collect(maps.Keys(block.Type().AttributeTypes()))
	if slices.Contains(keys, key) {
		return nil
	}
	diag.Detail = fmt.Sprintf("The block %s.%s has no instance with the key %q.%s", traversal.RootName(), name, key, oneOf("keys", key, keys))
	if slices.Equal(slices.Sorted(slices.Values(keys)), []string{"name", "type"}) {
		diag.Detail = fmt.Sprintf("The block %s.%s has no for_each; refer to it without a key.", traversal.RootName(), name)
	}
	return diag
}

// explainOutput returns the error in a reference to an instance or output that a module does not have, else nil.
func (e *evaluator) explainOutput(traversal hcl.Traversal, name string, ctx *hcl.EvalContext, diag *hcl.Diagnostic) *hcl.Diagnostic {
	kinds := []string{"output"}
	if e.repeated[name] {
		kinds = []string{"instance", "output"}
	}
	for i, kind := range kinds {
		if len(traversal) < i+3 {
			return nil
		}
		step, ok := stepName(traversal[i+2])
		object, diags := traversal[:i+2].TraverseAbs(ctx)
		if !ok || diags.HasErrors() || !object.IsKnown() || !object.Type().IsObjectType() {
			return nil
		}
		names := slices.Collect(maps.Keys(object.Type().AttributeTypes()))
		if !slices.Contains(names, step) {
			diag.Detail = fmt.Sprintf("The module %q has no %s %q.%s", name, kind, step, oneOf(kind+"s", step, names))
			if len(names) == 0 {
				diag.Detail = fmt.Sprintf("The module %q has no %ss.", name, kind)
			}
			return diag
		}
	}
	return nil
}

// referable maps the roots of references to the objects that they name.
var referable = map[string]string{
	"var": "variable", "local": "local value", "diskimage": "diskimage", "zuul_image": "zuul_image",
	"cloud_image": "cloud_image in this provider", "label": "label", "provider": "provider", "module": "module",
}

// namesOf lists the names below a root.
func (e *evaluator) namesOf(root string, ctx *hcl.EvalContext) []string {
	if names, ok := e.declared[root]; ok {
		return names
	}
	var names []string
	if value := lookup(ctx, root); value != cty.NilVal && value.Type().IsObjectType() {
		names = slices.Collect(maps.Keys(value.Type().AttributeTypes()))
	}
	return names
}

// rootHint suggests a replacement for an unknown root.
func (e *evaluator) rootHint(expr hcl.Expression, traversal hcl.Traversal) string {
	root := traversal.RootName()
	roots := slices.AppendSeq([]string{"path", "each"}, maps.Keys(referable))
	if len(traversal) > 1 {
		return didYouMean(root, roots)
	}
	if isInterpolated(expr, traversal) {
		return fmt.Sprintf(" To pass ${%s} on to a shell, write $${%[1]s}.%[2]s", root, e.referenceHint(root))
	}
	return fmt.Sprintf(" Write a text with quotes: %q.%s", root, e.referenceHint(root))
}

// referenceHint suggests the reference that has a name.
func (e *evaluator) referenceHint(name string) string {
	for _, root := range []string{"diskimage", "zuul_image", "local", "var"} {
		if slices.Contains(e.declared[root], name) {
			if hclsyntax.ValidIdentifier(name) {
				return fmt.Sprintf(" Did you mean %s.%s?", root, name)
			}
			return fmt.Sprintf(" Did you mean %s[%q]?", root, name)
		}
	}
	return ""
}

func stepName(step hcl.Traverser) (string, bool) {
	switch s := step.(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		return plainString(s.Key)
	default:
		return "", false
	}
}

// lookup finds a root in a scope or its parents.
func lookup(ctx *hcl.EvalContext, root string) cty.Value {
	for ; ctx != nil; ctx = ctx.Parent() {
		if value, ok := ctx.Variables[root]; ok {
			return value
		}
	}
	return cty.NilVal
}

// tooLarge returns why a value is too large to work with, or "". It stops values that grow from each other, local by
// local, before they use all memory.
func tooLarge(value cty.Value) string {
	scale := sizeCounter{left: maxValueBytes}
	scale.add(value)
	switch {
	case scale.number:
		return "A number is too large. Check for a division by zero."
	case scale.left < 0:
		return fmt.Sprintf("The value is larger than the limit of %s.", plaintext.Bytes(maxValueBytes))
	default:
		return ""
	}
}

// sizeCounter sums up the size of a value and stops at a limit.
type sizeCounter struct {
	left   int
	number bool // a number is out of bounds
}

func (s *sizeCounter) add(value cty.Value) {
	value, _ = value.Unmark()
	s.left -= 16
	if !value.IsKnown() || value.IsNull() || s.left < 0 {
		return
	}
	switch t := value.Type(); {
	case t == cty.String:
		s.left -= len(value.AsString())
	case t == cty.Number:
		n := value.AsBigFloat()
		s.number = s.number || n.IsInf() || n.MantExp(nil) > syntax.MaxExponent || n.MantExp(nil) < -syntax.MaxExponent
	case t.IsCollectionType() || t.IsTupleType() || t.IsObjectType():
		for it := value.ElementIterator(); s.left >= 0 && it.Next(); {
			key, element := it.Element()
			if t.IsMapType() || t.IsObjectType() {
				s.left -= len(key.AsString())
			}
			s.add(element)
		}
	}
}
