package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// This package expands dynamic blocks and does not use HCL's extension, because a body may be inside blocks that have
// a for_each themselves: `each` of all of them must be in scope of the dynamic block, and the extension binds its
// scope once for the whole tree.

const dynamicBlock = "dynamic"

// decodeDynamic decodes the blocks of a dynamic block. If some of them are unknown, it marks their type as open.
func (d *decoder) decodeDynamic(c *content, block *hclsyntax.Block, ctx *hcl.EvalContext) {
	made, known := d.expand.expandDynamic(block, ctx, c.spec)
	if !known && len(block.Labels) > 0 {
		if c.open == nil {
			c.open = map[string]bool{}
		}
		c.open[block.Labels[0]] = true
		d.incomplete[incompleteKind(block.Labels[0])] = true
	}
	for _, m := range made {
		d.decodeBlock(c, m.block, m.ctx)
	}
}

// incompleteKind returns the kind that is incomplete if nested blocks of the given type are unknown.
func incompleteKind(blockType string) string {
	switch blockType {
	case "label", "node":
		return "pool label"
	default:
		return blockType
	}
}

// expandDynamic returns the blocks that `dynamic "type" { for_each = …  labels = […]  content { … } }` generates. It
// returns false when their number or some of their labels are unknown.
func (x *expander) expandDynamic(block *hclsyntax.Block, ctx *hcl.EvalContext, s *spec) ([]part, bool) {
	if !x.checkLabels(block, "type of the generated blocks") {
		return nil, false
	}
	if _, known := s.blocks[block.Labels[0]]; !known {
		_, blocks := s.words()
		x.problem(block.LabelRanges[0].Ptr(), "Unsupported block", fmt.Sprintf("%s block has no block of type %q.%s",
			capitalized(s.what), block.Labels[0], didYouMean(block.Labels[0], blocks)))
		return nil, false
	}
	inner, ok := x.dynamicContent(block)
	if !ok {
		return nil, false
	}
	iterator, ok := x.dynamicIterator(block)
	if !ok {
		return nil, false
	}
	forEach, ok := block.Body.Attributes[metaForEach]
	if !ok {
		x.problem(block.DefRange().Ptr(), "Missing attribute", "A dynamic block needs for_each.")
		return nil, false
	}
	elements, ok := x.elements(forEach.Expr, ctx, anyCollection)
	if !ok {
		return nil, false
	}
	var made []part
	known := true
	for _, element := range elements {
		child := ctx.NewChild()
		child.Variables = map[string]cty.Value{iterator: element.object()}
		generated, ok := x.dynamicBlock(block, inner, child)
		if ok {
			made = append(made, part{generated, child})
		}
		known = known && ok && !element.unknown && !slices.ContainsFunc(generated.Labels, isPlaceholder)
	}
	return made, known
}

func (x *expander) dynamicContent(block *hclsyntax.Block) (*hclsyntax.Block, bool) {
	var inner *hclsyntax.Block
	for _, b := range block.Body.Blocks {
		if b.Type != "content" || inner != nil || len(b.Labels) > 0 {
			x.problem(b.DefRange().Ptr(), "Unsupported block", "A dynamic block has one content block without labels and no other block.")
			return nil, false
		}
		inner = b
	}
	if inner == nil {
		x.problem(block.DefRange().Ptr(), "Missing block", "A dynamic block needs a content block, the body of the generated blocks.")
		return nil, false
	}
	for name, attr := range block.Body.Attributes {
		if name != metaForEach && name != "iterator" && name != "labels" {
			x.problem(attr.NameRange.Ptr(), "Unsupported attribute", fmt.Sprintf("A dynamic block has no attribute named %q; put "+
				"the attributes of the generated blocks into its content block.%s", name, didYouMean(name, []string{metaForEach, "iterator", "labels"})))
			return nil, false
		}
	}
	return inner, true
}

func (x *expander) dynamicIterator(block *hclsyntax.Block) (string, bool) {
	attr, ok := block.Body.Attributes["iterator"]
	if !ok {
		return block.Labels[0], true
	}
	name := hcl.ExprAsKeyword(attr.Expr)
	if name == "" {
		x.problem(attr.Expr.Range().Ptr(), "Invalid iterator", "The iterator is a name, written without quotes.")
	}
	return name, name != ""
}

// dynamicBlock generates one block and evaluates its labels.
func (x *expander) dynamicBlock(block, inner *hclsyntax.Block, ctx *hcl.EvalContext) (*hclsyntax.Block, bool) {
	made := &hclsyntax.Block{
		Type: block.Labels[0], Body: inner.Body, TypeRange: block.LabelRanges[0],
		OpenBraceRange: inner.OpenBraceRange, CloseBraceRange: inner.CloseBraceRange,
	}
	attr, ok := block.Body.Attributes["labels"]
	if !ok {
		return made, true
	}
	value, ok := x.eval.evaluate(attr.Expr, ctx)
	if !ok {
		return nil, false
	}
	labels, err := x.labelList(value)
	if err != nil {
		x.problem(attr.Expr.Range().Ptr(), "Invalid labels", "The labels of a dynamic block are a list of strings: "+err.Error()+".")
		return nil, false
	}
	made.Labels = labels
	for range labels {
		made.LabelRanges = append(made.LabelRanges, attr.Expr.Range())
	}
	return made, true
}

// labelList converts a list, tuple or set of strings that are not sensitive. Unknown strings become placeholders.
func (x *expander) labelList(value cty.Value) ([]string, error) {
	list, err := convertTo(value, cty.List(cty.String))
	if err != nil {
		return nil, err
	}
	if list.ContainsMarked() {
		return nil, fmt.Errorf("sensitive values cannot be used here")
	}
	if list.IsNull() {
		return nil, fmt.Errorf("the value is null")
	}
	if !list.IsKnown() {
		return []string{x.placeholder()}, nil
	}
	var words []string
	for _, element := range list.AsValueSlice() {
		switch {
		case !element.IsKnown():
			words = append(words, x.placeholder())
		case element.IsNull():
			return nil, fmt.Errorf("an element is null")
		default:
			words = append(words, element.AsString())
		}
	}
	return words, nil
}
