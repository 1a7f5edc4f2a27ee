package config

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	plaintext "github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources/schema"
)

// values holds all attributes and blocks of a body, after inheritance and defaults. They may be marked, and are
// unknown after an error.
type values map[string]cty.Value

// complete sets the attributes and blocks that the body lacks: from the fallback (a pool for its labels), then from
// the defaults. It reports required attributes that are still missing.
func (d *decoder) complete(c *content, fallback values) values {
	all := make(values, len(c.spec.attrs)+len(c.spec.blocks))
	for name, attr := range c.spec.attrs {
		all[name] = d.completeAttribute(c, attr, fallback[name])
	}
	for name, want := range c.spec.blocks {
		if want.part {
			continue
		}
		if inherited, ok := fallback[name]; ok && len(c.blocks[name]) == 0 && inherited.Type().Equals(blockType(want)) {
			all[name] = inherited
			continue
		}
		all[name] = d.completeBlocks(c, want, c.blocks[name])
	}
	return all
}

func (d *decoder) completeAttribute(c *content, attr *schema.Attribute, inherited cty.Value) cty.Value {
	if written, ok := c.attrs[attr.Name]; ok {
		return written.value
	}
	if inherited != cty.NilVal && !inherited.IsNull() && inherited.Type().Equals(plainType(attr.Type)) {
		return inherited
	}
	if attr.Default != cty.NilVal {
		return attr.Default
	}
	if attr.Required {
		d.missingAttribute(c, fmt.Sprintf("%s block needs the attribute %q: %s", capitalized(c.spec.what), attr.Name, attr.Doc))
		return cty.UnknownVal(plainType(attr.Type))
	}
	return cty.NullVal(plainType(attr.Type))
}

// missingAttribute reports a missing attribute, unless the block has an attribute that may be it, misspelled.
func (d *decoder) missingAttribute(c *content, detail string) {
	if !c.misspelled {
		d.problem(c.at.Ptr(), "Missing attribute", detail)
	}
}

// completeBlocks returns the value of all blocks of one type, see schema.Block.Type.
func (d *decoder) completeBlocks(c *content, want *nestedSpec, written []nested) cty.Value {
	if len(written) < want.Min && !c.open[want.Name] {
		d.problem(c.at.Ptr(), "Missing block", fmt.Sprintf("%s block needs at least %d %s block.%s",
			capitalized(c.spec.what), want.Min, want.Name, sentence(want.Schema.Doc)))
		return cty.UnknownVal(blockType(want))
	}
	objects := make([]cty.Value, len(written))
	byLabel := make(map[string]cty.Value, len(written))
	element := plainType(want.Schema.Type())
	for i, n := range written {
		all := d.complete(n.content, nil)
		d.checkTogether(want.Schema.Check, n, all)
		object := cty.ObjectVal(all)
		if !object.Type().Equals(element) { // an element has an attribute of any type, so the elements have no common type
			object = cty.UnknownVal(element)
			d.problem(n.at.Ptr(), "Wrong type", "The attributes of this block do not have the required types.")
		}
		objects[i], byLabel[n.label] = object, object
	}
	switch {
	case c.open[want.Name]:
		return cty.UnknownVal(blockType(want))
	case want.Label != "" && len(byLabel) == 0:
		return cty.MapValEmpty(element)
	case want.Label != "":
		return cty.MapVal(byLabel)
	case want.Max == 1 && len(objects) == 0:
		return cty.NullVal(element)
	case want.Max == 1:
		return objects[0]
	case len(objects) == 0:
		return cty.ListValEmpty(element)
	default:
		return cty.ListVal(objects)
	}
}

// checkTogether checks the values of a nested block, see schema.Block.Check.
func (d *decoder) checkTogether(check func(map[string]cty.Value) error, n nested, all values) {
	if check == nil {
		return
	}
	plain := make(map[string]cty.Value, len(all))
	for name, value := range all {
		if plain[name], _ = value.UnmarkDeep(); !plain[name].IsWhollyKnown() {
			return
		}
	}
	if err := check(plain); err != nil {
		d.problem(n.at.Ptr(), "Invalid block", fmt.Sprintf("The block %q is not valid: %s", n.content.spec.what, withFullStop(err.Error())))
	}
}

// checkNeeded reports groups of attributes in which no attribute is set.
func (d *decoder) checkNeeded(b schema.Block, c *content, all values) {
	for _, group := range b.AtLeastOneOf {
		set := slices.ContainsFunc(group, func(name string) bool {
			value, ok := all[name]
			return ok && (!value.IsKnown() || !value.IsNull())
		})
		if !set {
			d.missingAttribute(c, fmt.Sprintf("%s block needs one of the attributes %s.", capitalized(c.spec.what), quotedList(group)))
		}
	}
}

// quotedList formats a list such as "a", "b" and "c".
func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return plaintext.And(quoted)
}

func blockType(want *nestedSpec) cty.Type {
	element := plainType(want.Schema.Type())
	switch {
	case want.Label != "":
		return cty.Map(element)
	case want.Max == 1:
		return element
	default:
		return cty.List(element)
	}
}

func sentence(doc string) string {
	if doc == "" {
		return ""
	}
	return " " + doc
}

// of selects the values that a schema names and returns the object that a driver or builder receives.
func (v values) of(b schema.Block) cty.Value {
	object := make(map[string]cty.Value, len(b.Attributes)+len(b.Blocks))
	for _, attr := range b.Attributes {
		object[attr.Name], _ = v[attr.Name].UnmarkDeep()
	}
	for _, nested := range b.Blocks {
		object[nested.Name], _ = v[nested.Name].UnmarkDeep()
	}
	return cty.ObjectVal(object)
}

// usable returns a value without marks, or false when it is null or unknown.
func (v values) usable(name string) (cty.Value, bool) {
	value, ok := v[name]
	if !ok {
		return cty.NilVal, false
	}
	value, _ = value.UnmarkDeep()
	return value, value.IsWhollyKnown() && !value.IsNull()
}

// decode copies the values to the tagged fields of a struct, see schema.Decode. Decoding of the body has checked them.
func (v values) decode(into any) {
	if err := schema.DecodeValues(v, into); err != nil {
		panic(fmt.Sprintf("decode %T: %v", into, err))
	}
}

// rangeOf returns the position of an attribute, or that of the block if the attribute is not set.
func (c *content) rangeOf(name string) *hcl.Range {
	if s, ok := c.attrs[name]; ok {
		return s.expr.Ptr()
	}
	return c.at.Ptr()
}
