package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// importBlock is the schema of an import block. The plan checks that the address exists, because -generate-config-out
// writes the block of a missing one.
var importBlock = schema.Block{
	Doc: "A server or an image that exists in a cloud and that npctl adopts; see [Import](refactoring.md#import). The block may be repeated with `for_each`, and may stay after the import.",
	Attributes: []schema.Attribute{
		{Name: "to", Type: cty.String, Required: true, Check: importAddress,
			Doc: "What the object becomes: `provider.NAME.pool.NAME.label.NAME` makes a server a node, `provider.NAME.image.NAME` makes an image a build with an upload. With quotes it may be a template, such as `\"provider.one.pool.main.label.${each.key}\"`."},
		{Name: "id", Type: cty.String, Required: true, Check: schema.CheckNotEmpty, Doc: "ID of the object in the cloud."},
		{Name: "state", Type: cty.String, Default: cty.StringVal(string(resources.StateHold)), OneOf: []string{string(resources.StateHold), string(resources.StateReady)},
			Doc: "State of the node of a server: on hold, and deleted after `npctl node release`, or ready for requests, after it has presented its SSH host keys."},
	},
}

func importAddress(v cty.Value) error {
	_, err := resources.ParseImport(v.AsString(), "")
	return err
}

// maxImports limits the import blocks, each of which costs a call per listing.
const maxImports = 1000

// readImports returns the imports of all import blocks.
func (r *blockReader) readImports(blocks []*hclsyntax.Block, ctx *hcl.EvalContext, expand *expander) []resources.Import {
	var imports []resources.Import
	first := map[string]hcl.Range{}
	for _, block := range blocks {
		for _, scope := range expand.scopes(block, ctx) {
			one, at, ok := r.readImport(block, scope)
			if !ok {
				continue
			}
			key := one.Provider + "\x00" + string(one.Kind()) + "\x00" + one.ID
			if other, twice := first[key]; twice {
				r.problem(at.Ptr(), "Duplicate import", fmt.Sprintf("The object %q is imported already, at %s.", one.ID, rangeText(other)))
				continue
			}
			first[key] = at
			imports = append(imports, one)
		}
	}
	if len(imports) > maxImports {
		r.problem(blocks[0].DefRange().Ptr(), "Too many imports", fmt.Sprintf("The configuration imports %d objects; the limit is %d. Remove the blocks of objects that are imported already.", len(imports), maxImports))
	}
	sortBy(imports, func(i resources.Import) string { return i.Address() + " " + i.ID })
	return imports
}

// scopes returns the scope of each instance of a block without a name.
func (x *expander) scopes(block *hclsyntax.Block, ctx *hcl.EvalContext) []*hcl.EvalContext {
	forEach, repeated := block.Body.Attributes[metaForEach]
	if !repeated {
		return []*hcl.EvalContext{ctx}
	}
	elements, _ := x.elements(forEach.Expr, ctx, keyedCollection)
	var scopes []*hcl.EvalContext
	for _, e := range elements {
		if !e.unknown {
			scopes = append(scopes, instance{keyed: true, eachValue: e.object()}.context(ctx))
		}
	}
	return scopes
}

func (r *blockReader) readImport(block *hclsyntax.Block, ctx *hcl.EvalContext) (resources.Import, hcl.Range, bool) {
	at := block.DefRange()
	if attr, ok := block.Body.Attributes[metaName]; ok { // the instances have no names
		r.problem(attr.NameRange.Ptr(), "Unsupported attribute", "An import has no name.")
	}
	c, all := r.body(withAddress(block, "to"), ctx, r.specs.importing)
	to, ok := all.usable("to")
	id, known := all.usable("id")
	if !ok || !known {
		return resources.Import{}, at, false
	}
	one, err := resources.ParseImport(to.AsString(), id.AsString())
	if err != nil {
		return one, at, false // reported by the check of the attribute
	}
	one.Source = r.sourceOf(at)
	if state, ok := all.usable("state"); ok && one.Kind() == resources.KindNode {
		one.State = resources.State(state.AsString())
	} else if _, set := c.attrs["state"]; set {
		r.problem(c.rangeOf("state"), "Unsupported attribute", "An image has no state; only a server is imported as a node with one.")
	}
	r.digest(resources.BlockRef{Type: "import", Name: one.Address() + "[" + one.ID + "]"}, "", at, body{c, all})
	return one, at, true
}

// withAddress returns the block with the address in an attribute, a reference to a block that may not exist, as text.
func withAddress(block *hclsyntax.Block, name string) *hclsyntax.Block {
	attr, ok := block.Body.Attributes[name]
	if !ok {
		return block
	}
	text, ok := addressText(attr.Expr)
	if !ok {
		return block
	}
	changed, body, quoted := *block, *block.Body, *attr
	quoted.Expr = &hclsyntax.LiteralValueExpr{Val: cty.StringVal(text), SrcRange: attr.Expr.Range()}
	body.Attributes = maps.Clone(body.Attributes)
	body.Attributes[name] = &quoted
	changed.Body = &body
	return &changed
}

// addressText returns the address that a reference such as provider.one.image.debian spells.
func addressText(expr hclsyntax.Expression) (string, bool) {
	traversal, diags := hcl.AbsTraversalForExpr(expr)
	if diags.HasErrors() || !slices.Contains([]string{"provider", "diskimage", "zuul_image", "label", "node"}, traversal.RootName()) {
		return "", false
	}
	parts := []string{traversal.RootName()}
	for _, step := range traversal[1:] {
		switch s := step.(type) {
		case hcl.TraverseAttr:
			parts = append(parts, s.Name)
		case hcl.TraverseIndex:
			if s.Key.Type() != cty.String {
				return "", false
			}
			parts = append(parts, s.Key.AsString())
		default:
			return "", false
		}
	}
	return strings.Join(parts, "."), true
}
