package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	plaintext "github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources/schema"
)

// A hash covers the replacing attributes that differ from their defaults. An attribute that a later npctl adds, or a
// default that it changes, therefore replaces nothing until a configuration sets the attribute.

const masked = "(sensitive)"

// staticOf returns the replacing attributes of a body for hashing, without null values and defaults.
// Sensitive values stay marked.
func staticOf(b schema.Block, v values) cty.Value {
	static := map[string]cty.Value{}
	for i := range b.Attributes {
		attr := &b.Attributes[i]
		value, ok := v.usable(attr.Name)
		if attr.Class != schema.Replacing || !ok || attr.Default != cty.NilVal && value.RawEquals(attr.Default) {
			continue
		}
		static[attr.Name] = v[attr.Name]
	}
	for i := range b.Blocks {
		if value, ok := v.usable(b.Blocks[i].Name); ok && hasStatic(b.Blocks[i].Schema) {
			if staticBlocks(&b.Blocks[i], value).LengthInt() > 0 {
				static[b.Blocks[i].Name] = staticBlocks(&b.Blocks[i], v[b.Blocks[i].Name])
			}
		}
	}
	return cty.ObjectVal(static)
}

// hasStatic reports whether a body has replacing attributes at any depth. The number of blocks without such
// attributes does not affect the hash.
func hasStatic(b schema.Block) bool {
	return slices.ContainsFunc(b.Attributes, func(a schema.Attribute) bool { return a.Class == schema.Replacing }) ||
		slices.ContainsFunc(b.Blocks, func(n schema.NestedBlock) bool { return hasStatic(n.Schema) })
}

// staticBlocks returns the replacing attributes of nested blocks: one object for each block.
func staticBlocks(n *schema.NestedBlock, value cty.Value) cty.Value {
	switch {
	case value.IsMarked(): // all blocks are sensitive
		plain, marks := value.UnmarkDeep()
		return staticBlocks(n, plain).WithMarks(marks)
	case n.Label != "":
		parts := map[string]cty.Value{}
		for label, object := range value.AsValueMap() {
			parts[label] = staticOf(n.Schema, object.AsValueMap())
		}
		return cty.ObjectVal(parts)
	case n.Max == 1:
		return staticOf(n.Schema, value.AsValueMap())
	default:
		var parts []cty.Value
		for _, object := range value.AsValueSlice() {
			parts = append(parts, staticOf(n.Schema, object.AsValueMap()))
		}
		return cty.TupleVal(parts)
	}
}

// showStatic adds the replacing attributes that are not null, including defaults, as text.
func showStatic(into map[string]string, prefix string, b schema.Block, v values) {
	for i := range b.Attributes {
		attr := &b.Attributes[i]
		value, ok := v[attr.Name]
		if attr.Class != schema.Replacing || !ok || !value.IsKnown() || value.IsNull() {
			continue
		}
		into[prefix+attr.Name] = showValue(value, attr.Sensitive)
	}
	for i := range b.Blocks {
		nested := &b.Blocks[i]
		value, ok := v[nested.Name]
		if !ok || !hasStatic(nested.Schema) {
			continue
		}
		secret := value.ContainsMarked()
		if plain, ok := v.usable(nested.Name); ok {
			if part := staticBlocks(nested, plain); part.LengthInt() > 0 {
				into[prefix+nested.Name] = showValue(part, secret)
			}
		}
	}
}

// showValue formats a value as short JSON text.
func showValue(value cty.Value, secret bool) string {
	if secret || value.ContainsMarked() {
		return masked
	}
	if !value.IsWhollyKnown() {
		return "(unknown)"
	}
	if value.Type().Equals(schema.ImageRef) {
		return value.GetAttr("type").AsString() + "." + value.GetAttr("name").AsString()
	}
	text, err := ctyjson.Marshal(value, value.Type())
	if err != nil {
		return "(unknown)"
	}
	const most = 200
	if len(text) <= most {
		return string(text)
	}
	// The checksum distinguishes long texts that differ only near the end.
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%s (%d bytes, sha256 %s)", plaintext.Shorten(string(text[:most]), most/2), len(text), hex.EncodeToString(sum[:6]))
}
