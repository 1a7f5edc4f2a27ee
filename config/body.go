package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	plaintext "github.com/npctl/npctl/internal/text"
)

// decoder decodes bodies against their specs: the one reader of all blocks.
type decoder struct {
	*report
	eval    *evaluator
	expand  *expander
	sources *sourceFiles
}

// content is one decoded body, before inheritance and defaults.
type content struct {
	spec   *spec
	at     hcl.Range // position for errors about missing attributes and blocks
	attrs  map[string]setting
	blocks map[string][]nested
	parts  []part
	open   map[string]bool // block types that may have more blocks than are known

	misspelled bool // it has an unknown attribute, which may be the misspelled name of a missing one
}

// setting is one attribute of a body. Its value has the attribute's type; it may be unknown after an error.
type setting struct {
	value cty.Value
	name  hcl.Range
	expr  hcl.Range
}

// nested is a block that decode converts to a value.
type nested struct {
	label   string
	at      hcl.Range
	content *content
}

// part is a block that has its own decoding function.
type part struct {
	block *hclsyntax.Block
	ctx   *hcl.EvalContext
}

// decode evaluates a body and checks it against its spec.
func (d *decoder) decode(body *hclsyntax.Body, ctx *hcl.EvalContext, s *spec, at hcl.Range) *content {
	c := &content{spec: s, at: at, attrs: make(map[string]setting, len(body.Attributes))}
	for name, attr := range body.Attributes {
		d.decodeAttribute(c, name, attr, ctx)
	}
	for _, block := range body.Blocks {
		if block.Type == dynamicBlock {
			d.decodeDynamic(c, block, ctx)
			continue
		}
		d.decodeBlock(c, block, ctx)
	}
	d.checkCounts(c)
	return c
}

func (d *decoder) decodeAttribute(c *content, name string, attr *hclsyntax.Attribute, ctx *hcl.EvalContext) {
	if c.spec.repeats && (name == metaForEach || name == metaName) {
		return // makeInstances evaluates these
	}
	want, ok := c.spec.attrs[name]
	if !ok {
		d.unknownAttribute(c.spec, attr)
		c.misspelled = true
		return
	}
	value, ok := d.setting(attr, want, c.spec.guarded[name], ctx)
	if ok {
		c.attrs[name] = setting{value: value, name: attr.NameRange, expr: attr.Expr.Range()}
	}
}

func (d *decoder) unknownAttribute(s *spec, attr *hclsyntax.Attribute) {
	attrs, blocks := s.words()
	hint := didYouMean(attr.Name, attrs)
	switch {
	case slices.Contains(blocks, attr.Name):
		hint = fmt.Sprintf(" It is a block: write %s { … } without the equals sign.", attr.Name)
	case attr.Name == metaForEach:
		hint = " This block cannot be repeated."
	case hint == "":
		if other := plaintext.Nearest(attr.Name, blocks); other != "" {
			hint = fmt.Sprintf(" Did you mean the block %q?", other)
		}
	}
	d.problem(attr.NameRange.Ptr(), "Unsupported attribute",
		fmt.Sprintf("%s block has no attribute named %q.%s", capitalized(s.what), attr.Name, hint))
}

func (d *decoder) decodeBlock(c *content, block *hclsyntax.Block, ctx *hcl.EvalContext) {
	want, ok := c.spec.blocks[block.Type]
	if !ok {
		d.unknownBlock(c.spec, block)
		return
	}
	if !d.checkLabels(block, want.Label) {
		return
	}
	if want.part {
		c.parts = append(c.parts, part{block, ctx})
		return
	}
	made := nested{at: block.DefRange(), content: d.decode(block.Body, ctx, want.spec, block.DefRange())}
	if want.Label != "" {
		made.label = block.Labels[0]
		if d.repeatedLabel(c.blocks[block.Type], block) {
			return
		}
	}
	if c.blocks == nil {
		c.blocks = map[string][]nested{}
	}
	c.blocks[block.Type] = append(c.blocks[block.Type], made)
}

func (d *decoder) repeatedLabel(earlier []nested, block *hclsyntax.Block) bool {
	for _, other := range earlier {
		if other.label == block.Labels[0] {
			d.problem(block.LabelRanges[0].Ptr(), "Duplicate block",
				fmt.Sprintf("There is %s %q already, at %s.", article(block.Type), other.label, rangeText(other.at)))
			return true
		}
	}
	return false
}

func (d *decoder) unknownBlock(s *spec, block *hclsyntax.Block) {
	attrs, blocks := s.words()
	hint := didYouMean(block.Type, blocks)
	switch {
	case slices.Contains(attrs, block.Type):
		hint = fmt.Sprintf(" It is an attribute: write %s = … with an equals sign.", block.Type)
	case hint == "":
		if other := plaintext.Nearest(block.Type, attrs); other != "" {
			hint = fmt.Sprintf(" Did you mean the attribute %q?", other)
		}
	}
	d.problem(block.TypeRange.Ptr(), "Unsupported block",
		fmt.Sprintf("%s block has no block of type %q.%s", capitalized(s.what), block.Type, hint))
}

// checkLabels reports an error unless the block has one label for each meaning. A single empty meaning permits no
// label.
func (r *report) checkLabels(block *hclsyntax.Block, meaning ...string) bool {
	if len(meaning) == 1 && meaning[0] == "" {
		meaning = nil
	}
	switch n := len(block.Labels); {
	case n > len(meaning):
		r.problem(block.LabelRanges[len(meaning)].Ptr(), "Too many labels",
			fmt.Sprintf("%s block has %s.", capitalized(block.Type), labelsText(meaning)))
		return false
	case n < len(meaning):
		r.problem(block.DefRange().Ptr(), "Missing label",
			fmt.Sprintf("%s block has %s, such as: %s", capitalized(block.Type), labelsText(meaning), labelsExample(block.Type, meaning)))
		return false
	}
	return true
}

func labelsText(meaning []string) string {
	switch len(meaning) {
	case 0:
		return "no label"
	case 1:
		return "one label (" + meaning[0] + ")"
	default:
		return fmt.Sprintf("%d labels (%s)", len(meaning), plaintext.And(meaning))
	}
}

func labelsExample(blockType string, meaning []string) string {
	text := blockType
	for _, label := range meaning {
		text += fmt.Sprintf(" %q", label)
	}
	return text + " { … }"
}

// checkCounts reports block types with too few or too many blocks.
func (d *decoder) checkCounts(c *content) {
	counts := map[string]int{}
	for _, p := range c.parts {
		counts[p.block.Type]++
		if want := c.spec.blocks[p.block.Type]; want.Max > 0 && !c.open[p.block.Type] && counts[p.block.Type] == want.Max+1 {
			d.tooMany(c.spec, want, p.block.DefRange())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.blocks)) {
		if want := c.spec.blocks[name]; want.Max > 0 && !c.open[name] && len(c.blocks[name]) > want.Max {
			d.tooMany(c.spec, want, c.blocks[name][want.Max].at)
		}
	}
}

func (d *decoder) tooMany(s *spec, want *nestedSpec, at hcl.Range) {
	d.problem(at.Ptr(), "Too many blocks", fmt.Sprintf("%s block has at most %d %s block.", capitalized(s.what), want.Max, want.Name))
}

// rangeText formats a position for messages.
func rangeText(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }
