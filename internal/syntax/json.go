package syntax

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// A JSON file becomes the same kind of body as a file in HCL's native syntax, so that nothing behind the parser knows
// two syntaxes. Unlike HCL's native syntax, JSON does not tell blocks and attributes apart; the Shape does.

// Shape describes the properties of an object that stands for a body.
type Shape struct {
	Blocks map[string]Block // by type; all other properties are attributes
	// Expressions are attributes with an expression as plain text, such as the type of a variable.
	Expressions []string
	// Top: unknown properties are blocks too. Their content is not read.
	Top bool
}

// Block describes the value of a property that stands for blocks: nested objects with the labels as names, and in them
// the bodies. Each level may be a list.
type Block struct {
	Labels int
	Body   func(labels []string) Shape
}

// comment is the name of properties that are ignored in bodies.
const comment = "//"

// maxOpen is the number of brackets up to which a text that is no JSON may reach HCL's parser, which recurses and has
// better errors.
const maxOpen = 10_000

// json parses a JSON file.
func (p *Parser) json(src []byte, path string) (*hcl.File, hcl.Diagnostics) {
	if diag := p.checkJSON(src, path); diag != nil {
		return nil, hcl.Diagnostics{diag}
	}
	root, diags := hcljson.ParseExpression(src, path)
	if diags.HasErrors() {
		return nil, diags
	}
	c := &converter{Parser: p, src: src}
	body := emptyBody(root)
	for _, object := range c.objects(root, `The file has the form {"label": {"NAME": {…}}, …}.`) {
		c.fill(body, object, p.shape)
	}
	return &hcl.File{Body: body, Bytes: src, Nav: navigation{body}}, c.diags
}

// JSONFile parses a JSON file that has attributes and no blocks, with texts that are no templates.
func (p *Parser) JSONFile(src []byte, path string) (*hcl.File, hcl.Diagnostics) {
	if diag := p.checkJSON(src, path); diag != nil {
		return nil, hcl.Diagnostics{diag}
	}
	return hcljson.Parse(src, path)
}

// checkJSON returns an error for a text that must not reach HCL's parser.
func (p *Parser) checkJSON(src []byte, path string) *hcl.Diagnostic {
	if diag := notText(src, path); diag != nil {
		return diag
	}
	if diag := p.count(src, path); diag != nil {
		return diag
	}
	if err := json.Unmarshal(src, new(json.RawMessage)); err != nil {
		if bytes.Count(src, []byte("["))+bytes.Count(src, []byte("{")) <= maxOpen {
			return nil
		}
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid JSON", Detail: path + " is not JSON: " + err.Error() + ".", Subject: place(src, path, err)}
	}
	if at, err := deepest(string(src)); err != nil {
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Configuration nested too deeply",
			Detail: fmt.Sprintf("Brackets are nested more than %d levels deep here.", MaxDataDepth), Subject: rangeAt(src, path, at)}
	}
	return nil
}

func place(src []byte, path string, err error) *hcl.Range {
	var wrong *json.SyntaxError
	if !errors.As(err, &wrong) {
		return nil
	}
	return rangeAt(src, path, max(0, int(wrong.Offset)-1))
}

// rangeAt returns the range of one byte.
func rangeAt(src []byte, path string, offset int) *hcl.Range {
	at := hcl.Pos{Line: 1 + bytes.Count(src[:offset], []byte("\n")), Byte: offset}
	at.Column = 1 + columns(src[bytes.LastIndexByte(src[:offset], '\n')+1:offset])
	end := at
	end.Byte++
	end.Column++
	return &hcl.Range{Filename: path, Start: at, End: end}
}

// deepest returns the offset of the first bracket that is nested too deeply, with an error.
func deepest(text string) (int, error) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > MaxDataDepth {
				return i, fmt.Errorf("the data is nested more than %d deep", MaxDataDepth)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return 0, nil
}

// converter converts the values of one file.
type converter struct {
	*Parser
	src   []byte
	diags hcl.Diagnostics
}

func (c *converter) problem(at hcl.Range, summary, detail string) {
	c.diags = append(c.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at})
}

// object is a JSON object that stands for a body or for the labels of blocks.
type object struct {
	at         hcl.Range // of the whole object
	open       hcl.Range
	listed     bool // an element of a list
	properties []property
}

type property struct {
	name  string
	at    hcl.Range // of the name
	value hcl.Expression
}

func (o object) end() hcl.Range {
	last := o.at
	last.Start = last.End
	last.Start.Byte--
	last.Start.Column--
	return last
}

func emptyBody(root hcl.Expression) *hclsyntax.Body {
	return &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, SrcRange: root.Range(), EndRange: hcl.Range{Filename: root.Range().Filename, Start: root.Range().End, End: root.Range().End}}
}

// objects returns an object, or the objects of a list, and reports all other values. null stands for none.
func (c *converter) objects(value hcl.Expression, form string) []object {
	if elements, diags := hcl.ExprList(value); !diags.HasErrors() {
		var all []object
		for _, element := range elements {
			if one, ok := c.object(element, form); ok {
				one.listed = true
				all = append(all, one)
			}
		}
		return all
	}
	if one, ok := c.object(value, form); ok {
		return []object{one}
	}
	return nil
}

// object returns an object with its properties in order.
func (c *converter) object(value hcl.Expression, form string) (object, bool) {
	pairs, diags := hcl.ExprMap(value)
	if diags.HasErrors() {
		if v, _ := value.Value(nil); !v.IsNull() {
			c.problem(value.StartRange(), "Wrong type", "An object or a list of objects is required here. "+form)
		}
		return object{}, false
	}
	one := object{at: value.Range(), open: value.StartRange()}
	seen := map[string]hcl.Range{}
	for _, pair := range pairs {
		name, _ := pair.Key.Value(nil)
		text := name.AsString()
		at := pair.Key.Range()
		if other, twice := seen[text]; twice && text != comment {
			c.duplicate(text, at, other)
			continue
		}
		seen[text] = at
		one.properties = append(one.properties, property{text, at, pair.Value})
	}
	return one, true
}

func (c *converter) duplicate(name string, at, other hcl.Range) {
	c.problem(at, "Duplicate name", fmt.Sprintf("The object has a property %q already, at %s:%d.", name, other.Filename, other.Start.Line))
}

// fill adds the properties of an object to a body.
func (c *converter) fill(body *hclsyntax.Body, o object, shape Shape) {
	for _, p := range o.properties {
		block, isBlock := shape.Blocks[p.name]
		switch {
		case p.name == comment:
		case isBlock:
			c.blocks(body, p.name, p.at, block, nil, p.value)
		case shape.Top:
			body.Blocks = append(body.Blocks, &hclsyntax.Block{Type: p.name, TypeRange: p.at, OpenBraceRange: p.at, CloseBraceRange: p.at, Body: emptyBody(p.value)})
		default:
			c.attribute(body, p, slices.Contains(shape.Expressions, p.name))
		}
	}
}

func (c *converter) attribute(body *hclsyntax.Body, p property, isExpression bool) {
	if other, twice := body.Attributes[p.name]; twice { // in another object of the list
		c.duplicate(p.name, p.at, other.NameRange)
		return
	}
	if !hclsyntax.ValidIdentifier(p.name) {
		c.problem(p.at, "Invalid name", fmt.Sprintf("%q cannot be the name of an attribute: a name starts with a letter and consists of letters, digits, dashes and underscores.", p.name))
		return
	}
	expr := c.value(p.value, isExpression)
	if expr == nil {
		return
	}
	body.Attributes[p.name] = &hclsyntax.Attribute{Name: p.name, Expr: expr, SrcRange: hcl.RangeBetween(p.at, p.value.Range()), NameRange: p.at, EqualsRange: p.at}
}

// blocks adds the blocks in a value. labels are those of the levels above; header is the name or the element of a list
// that is nearest to the body, so that each block has a place of its own.
func (c *converter) blocks(body *hclsyntax.Body, blockType string, header hcl.Range, want Block, labels []property, value hcl.Expression) {
	for _, o := range c.objects(value, form(blockType, want.Labels)) {
		at := header
		if o.listed {
			at = o.open
		}
		if len(labels) < want.Labels {
			for _, p := range o.properties {
				c.blocks(body, blockType, p.at, want, append(slices.Clone(labels), p), p.value)
			}
			continue
		}
		made := &hclsyntax.Block{Type: blockType, TypeRange: at, OpenBraceRange: o.open, CloseBraceRange: o.end(), Body: &hclsyntax.Body{
			Attributes: hclsyntax.Attributes{}, SrcRange: o.at, EndRange: o.end()}}
		for i, label := range labels {
			made.Labels = append(made.Labels, label.name)
			if i == len(labels)-1 {
				label.at = at
			}
			made.LabelRanges = append(made.LabelRanges, label.at)
		}
		var shape Shape
		if want.Body != nil {
			shape = want.Body(made.Labels)
		}
		c.fill(made.Body, o, shape)
		body.Blocks = append(body.Blocks, made)
	}
}

// form shows the place of the labels of a block.
func form(blockType string, labels int) string {
	return fmt.Sprintf("A block has the form %q: %s{…}%s.", blockType, strings.Repeat(`{"LABEL": `, labels), strings.Repeat("}", labels))
}

// value converts the value of an attribute.
func (c *converter) value(value hcl.Expression, isExpression bool) hclsyntax.Expression {
	if elements, diags := hcl.ExprList(value); !diags.HasErrors() {
		made := &hclsyntax.TupleConsExpr{SrcRange: value.Range(), OpenRange: value.StartRange()}
		for _, element := range elements {
			made.Exprs = append(made.Exprs, c.value(element, false))
		}
		return made
	}
	if _, diags := hcl.ExprMap(value); !diags.HasErrors() {
		made := &hclsyntax.ObjectConsExpr{SrcRange: value.Range(), OpenRange: value.StartRange()}
		o, _ := c.object(value, "")
		for _, p := range o.properties {
			key := &hclsyntax.ObjectConsKeyExpr{Wrapped: c.text(p.name, p.at, false), ForceNonLiteral: true}
			made.Items = append(made.Items, hclsyntax.ObjectConsItem{KeyExpr: key, ValueExpr: c.value(p.value, false)})
		}
		return made
	}
	plain, _ := value.Value(nil) // a text, number, bool or null
	if !plain.IsNull() && plain.Type() == cty.String {
		return c.text(plain.AsString(), value.Range(), isExpression)
	}
	if !plain.IsNull() && plain.Type() == cty.Number && hugeNumber(string(value.Range().SliceBytes(c.src))) {
		c.problem(value.Range(), "Number too large", "The number has too many digits or too large an exponent.")
		plain = cty.NullVal(cty.Number)
	}
	return &hclsyntax.LiteralValueExpr{Val: plain, SrcRange: value.Range()}
}

// navigation names the block at a position in diagnostics.
type navigation struct{ body *hclsyntax.Body }

// ContextString implements the interface of package hcl for hcl.File.Nav.
func (n navigation) ContextString(offset int) string {
	for _, block := range n.body.Blocks {
		if !block.Range().ContainsOffset(offset) {
			continue
		}
		return Header(block)
	}
	return ""
}

// Header formats the type and the labels of a block.
func Header(block *hclsyntax.Block) string {
	text := block.Type
	for _, label := range block.Labels {
		text += fmt.Sprintf(" %q", label)
	}
	return text
}
