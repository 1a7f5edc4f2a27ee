package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// expander generates the blocks of for_each and dynamic.
type expander struct {
	*report
	*expansion
	eval *evaluator
	// open: the for_each of a module is unknown, so that its blocks stand for any number of blocks.
	open bool
}

// expansion counts the work of one Load, in all modules.
type expansion struct {
	budget  int // blocks that for_each, dynamic and modules may still generate
	unnamed int // number of placeholders
	edges   int // references that graphs may still follow
}

// instance is one block after for_each; a block without for_each has one instance.
type instance struct {
	block     *hclsyntax.Block
	label     string // the label in the source
	key       string // the for_each key
	keyed     bool
	name      string
	eachValue cty.Value // the value of `each`, for keyed instances
}

// element is one element of a for_each. An unknown collection has one unknown element that stands for any number of
// them.
type element struct {
	key, value cty.Value
	unknown    bool
}

func (e element) object() cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"key": e.key, "value": e.value})
}

// collections states the types that a for_each accepts.
type collections bool

const (
	keyedCollection collections = false // map, object or set of strings, which have stable keys
	anyCollection   collections = true  // also lists
)

// elements evaluates a for_each, or reports an error and returns false.
func (x *expander) elements(expr hclsyntax.Expression, ctx *hcl.EvalContext, accept collections) ([]element, bool) {
	value, ok := x.eval.evaluate(expr, ctx)
	if !ok {
		return nil, false
	}
	at := expr.Range().Ptr()
	if value.IsMarked() {
		x.problem(at, "Sensitive for_each", "A for_each cannot be sensitive, because its keys are parts of names. If the "+
			"keys are not secret, use nonsensitive().")
		return nil, false
	}
	switch t := value.Type(); {
	case value.IsNull():
		x.problem(at, "Invalid for_each", "The value is null. For no instances, use an empty map or set.")
		return nil, false
	case !repeatable(value, accept):
		x.problem(at, "Invalid for_each", "A for_each is a map, an object or a set of strings; this is "+article(t.FriendlyName())+"."+forEachHint(t))
		return nil, false
	case !value.IsKnown():
		return []element{unknownElement(t)}, true
	}
	return x.listElements(value, at)
}

func repeatable(value cty.Value, accept collections) bool {
	switch t := value.Type(); {
	case t.IsMapType(), t.IsObjectType(), t == cty.DynamicPseudoType:
		return true
	case t.IsSetType() && (t.ElementType() == cty.String || t.ElementType() == cty.DynamicPseudoType):
		return true
	case t.IsSetType() && value.IsKnown() && value.LengthInt() == 0: // toset([]) has no element type
		return true
	default:
		return accept == anyCollection && (t.IsTupleType() || t.IsListType() || t.IsSetType())
	}
}

func unknownElement(t cty.Type) element {
	e := element{key: cty.UnknownVal(cty.String), value: cty.DynamicVal, unknown: true}
	switch {
	case t.IsMapType():
		e.value = cty.UnknownVal(t.ElementType())
	case t.IsSetType():
		e.key = cty.UnknownVal(t.ElementType())
		e.value = e.key
	case t.IsListType():
		e.key, e.value = cty.UnknownVal(cty.Number), cty.UnknownVal(t.ElementType())
	case !t.IsObjectType():
		e.key = cty.DynamicVal
	}
	return e
}

// placeholder returns a name for a block with an unknown name. It contains a space, which is not valid in a name.
func (x *expander) placeholder() string {
	x.unnamed++
	return fmt.Sprintf("%s%d", unknownName, x.unnamed)
}

const unknownName = "unknown name "

func isPlaceholder(name string) bool { return strings.HasPrefix(name, unknownName) }

func forEachHint(t cty.Type) string {
	if t.IsTupleType() || t.IsListType() || t.IsSetType() {
		return " Write toset([…]) around strings, or make a map with { for x in … : x.name => x }."
	}
	return ""
}

func (x *expander) listElements(value cty.Value, at *hcl.Range) ([]element, bool) {
	if !x.spend(value.LengthInt(), at, "for_each") {
		return nil, false
	}
	var all []element
	for it := value.ElementIterator(); it.Next(); {
		key, v := it.Element()
		if value.Type().IsSetType() {
			key = v
		}
		if !key.IsKnown() || key.IsNull() || key.IsMarked() {
			x.problem(at, "Invalid for_each", "Every key must be a known string that is neither null nor sensitive.")
			return nil, false
		}
		all = append(all, element{key: key, value: v})
	}
	slices.SortStableFunc(all, func(a, b element) int { return cmp.Compare(keyText(a.key), keyText(b.key)) })
	return all, true
}

// spend counts generated blocks. It reports an error and returns false at the limit.
func (x *expander) spend(blocks int, at *hcl.Range, what string) bool {
	if x.budget -= blocks; x.budget >= 0 {
		return true
	}
	x.problem(at, "Too many blocks", fmt.Sprintf("With this %s, the configuration has more than %d blocks generated by "+
		"for_each, dynamic and modules, the limit.", what, maxExpansion))
	return false
}

// keyText is the sort key of a map element. Lists and sets are already in order.
func keyText(key cty.Value) string {
	if key.Type() == cty.String {
		return key.AsString()
	}
	return ""
}

// instances evaluates for_each and name of a block. label is the index of the block label that is its name. If
// instances are missing or have unknown names, the kind is incomplete.
func (x *expander) instances(block *hclsyntax.Block, label int, ctx *hcl.EvalContext, kind string) ([]instance, bool) {
	all, ok := x.makeInstances(block, label, ctx)
	if !ok || slices.ContainsFunc(all, func(i instance) bool { return isPlaceholder(i.name) }) {
		x.incomplete[kind] = true
	}
	return all, ok
}

func (x *expander) makeInstances(block *hclsyntax.Block, label int, ctx *hcl.EvalContext) ([]instance, bool) {
	base := instance{block: block, label: block.Labels[label], name: block.Labels[label]}
	if x.open {
		base.name = x.placeholder()
	}
	forEach, repeated := block.Body.Attributes[metaForEach]
	if !repeated {
		ok := x.nameInstance(&base, block.LabelRanges[label], ctx)
		return []instance{base}, ok
	}
	elements, ok := x.elements(forEach.Expr, ctx, keyedCollection)
	if !ok {
		return nil, false
	}
	var all []instance
	for _, e := range elements {
		one := base
		one.keyed, one.eachValue = true, e.object()
		switch {
		case e.unknown || x.open:
			one.name = x.placeholder()
		default:
			one.key = e.key.AsString()
			one.name = base.label + "-" + one.key
		}
		ok = x.nameInstance(&one, forEach.Expr.Range(), one.context(ctx)) && ok
		all = append(all, one)
	}
	return all, ok
}

// context returns the scope of an instance's body.
func (i instance) context(parent *hcl.EvalContext) *hcl.EvalContext {
	if !i.keyed {
		return parent
	}
	child := parent.NewChild()
	child.Variables = map[string]cty.Value{"each": i.eachValue}
	return child
}

// nameInstance evaluates the name attribute and checks the resulting name.
func (x *expander) nameInstance(i *instance, at hcl.Range, ctx *hcl.EvalContext) bool {
	if attr, ok := i.block.Body.Attributes[metaName]; ok {
		value, ok := x.eval.evaluate(attr.Expr, ctx)
		if !ok {
			return false
		}
		at = attr.Expr.Range()
		text, err := convertTo(value, cty.String)
		if err != nil || text.IsNull() || text.IsMarked() {
			x.problem(at.Ptr(), "Invalid name", "A name is a string that is neither null nor sensitive.")
			return false
		}
		switch {
		case !text.IsKnown():
			i.name = x.placeholder()
		case !isPlaceholder(i.name): // a placeholder stands for any number of instances, including none
			i.name = text.AsString()
		}
	}
	if isPlaceholder(i.name) {
		return true
	}
	if fault := nameFault(i.block.Type, i.name); fault != "" {
		x.problem(at.Ptr(), "Invalid name", fmt.Sprintf("The name %q %s.", i.name, fault))
		return false
	}
	return true
}

// nameFault returns why a block's name is invalid, or "". Names of images, providers and pools are parts of paths and
// addresses. CI systems choose the names of labels, and nodes have host names or addresses.
func nameFault(blockType, name string) string {
	strict := !slices.Contains([]string{"label", "node"}, blockType)
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxNameBytes:
		return fmt.Sprintf("is longer than %d bytes", maxNameBytes)
	}
	for i, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
		case !strict && r == ':': // an IPv6 address
		case (r == '-' || r == '.') && i > 0:
		case !strict && r > ' ' && r != 0x7f && r != '"' && r != '\\' && r != ',' && i > 0:
		case i == 0:
			return "must start with an ASCII letter (a-z, A-Z), a digit or an underscore"
		case strict:
			return "has characters other than letters, digits, dots, dashes and underscores"
		default:
			return "has a blank, a comma, a quote, a backslash or a control character"
		}
	}
	return ""
}

// article puts "a" or "an" before a phrase.
func article(phrase string) string {
	if phrase != "" && strings.ContainsAny(phrase[:1], "aeiou") || strings.HasPrefix(phrase, "npctl") {
		return "an " + phrase
	}
	return "a " + phrase
}

// capitalized is article for the start of a sentence.
func capitalized(phrase string) string { return "A" + article(phrase)[1:] }
