package location

import (
	"bytes"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/npctl/npctl/internal/syntax"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Plain reads the state block without evaluating the configuration. It reports false if the block contains
// references or errors, or if the files cannot be parsed.
func Plain(config string) (Location, bool) {
	files, err := syntax.Find(config)
	if err != nil {
		return Location{}, false
	}
	var found *hclsyntax.Block
	for _, file := range files.Config {
		blocks, ok := settingsBlocks(file)
		if !ok || len(blocks) > 1 || found != nil && len(blocks) > 0 {
			return Location{}, false
		}
		if len(blocks) > 0 {
			found = blocks[0]
		}
	}
	for _, file := range files.Overrides {
		blocks, ok := settingsBlocks(file)
		if !ok || found == nil && len(blocks) > 0 {
			return Location{}, false
		}
		for _, change := range blocks {
			found = syntax.Override(found, change)
		}
	}
	settings, ok := plainState(found)
	if !ok {
		return Location{}, false
	}
	place, err := From(settings, files.Dir)
	return place, err == nil
}

// plainLimit is the maximum size in bytes of a file that is searched for a state block.
const plainLimit = 1 << 20

// PlainIn reads the state block of a file. Its kind is empty if there is none.
func PlainIn(file string) (found resources.StateSettings, ok bool) {
	blocks, ok := settingsBlocks(file)
	if !ok || len(blocks) == 0 {
		return found, ok
	}
	return plainState(blocks[0])
}

// settingsBlocks returns the npctl blocks of a file.
func settingsBlocks(file string) (blocks []*hclsyntax.Block, ok bool) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > plainLimit {
		return nil, false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, false
	}
	if !bytes.Contains(text, []byte("npctl")) || !bytes.Contains(text, []byte("state")) {
		return nil, true
	}
	parsed, diags := syntax.NewParser(settingsShape).File(text, file)
	if diags.HasErrors() {
		return nil, false
	}
	for _, block := range parsed.Body.(*hclsyntax.Body).Blocks {
		if block.Type == "npctl" {
			blocks = append(blocks, block)
		}
	}
	return blocks, true
}

// settingsShape is the shape of the state block in JSON. Other blocks are not read.
var settingsShape = syntax.Shape{Top: true, Blocks: map[string]syntax.Block{"npctl": {Body: func([]string) syntax.Shape {
	return syntax.Shape{Blocks: map[string]syntax.Block{
		"state": {Labels: 1, Body: func(kind []string) syntax.Shape {
			shape := syntax.Shape{Blocks: map[string]syntax.Block{}}
			for _, nested := range Schemas()[kind[0]].Blocks {
				shape.Blocks[nested.Name] = syntax.Block{}
			}
			return shape
		}},
		"dynamic": {Labels: 1},
	}}
}}}}

// plainState reads the state block of an npctl block, which may be nil. The kind is empty if there is none.
func plainState(settings *hclsyntax.Block) (found resources.StateSettings, ok bool) {
	if settings == nil {
		return found, true
	}
	for _, inner := range settings.Body.Blocks {
		if inner.Type == "state" || inner.Type == "dynamic" {
			return plainSettings(inner)
		}
	}
	return found, true
}

func plainSettings(block *hclsyntax.Block) (found resources.StateSettings, ok bool) {
	if block.Type != "state" || len(block.Labels) != 1 {
		return found, false
	}
	kind := block.Labels[0]
	known, ok := Schemas()[kind]
	if !ok {
		return found, false
	}
	value, ok := plainBody(block.Body, known)
	return resources.StateSettings{Kind: kind, Config: value}, ok
}

// plainBody evaluates a body without references. It reports false if the body has errors.
func plainBody(body *hclsyntax.Body, known schema.Block) (cty.Value, bool) {
	values := known.Null().AsValueMap()
	for name, attr := range body.Attributes {
		a, ok := known.Lookup(name)
		if !ok {
			return cty.NilVal, false
		}
		if values[name], ok = plainValue(attr.Expr, a); !ok {
			return cty.NilVal, false
		}
	}
	for i := range known.Attributes {
		if a := &known.Attributes[i]; a.Required && values[a.Name].IsNull() {
			return cty.NilVal, false
		}
	}
	for _, block := range body.Blocks {
		nested, ok := plainNested(block, known)
		if !ok || !values[block.Type].IsNull() { // the second block of its type
			return cty.NilVal, false
		}
		values[block.Type] = nested
	}
	return cty.ObjectVal(values), true
}

func plainValue(expr hcl.Expression, a schema.Attribute) (cty.Value, bool) {
	value, diags := expr.Value(nil)
	if diags.HasErrors() || value.IsNull() {
		return cty.NilVal, false
	}
	value, err := convert.Convert(value, a.Type)
	if err != nil || a.Check != nil && a.Check(value) != nil {
		return cty.NilVal, false
	}
	return value, true
}

// plainNested reads a block that occurs at most once and has no label.
func plainNested(block *hclsyntax.Block, known schema.Block) (cty.Value, bool) {
	for _, n := range known.Blocks {
		if n.Name == block.Type && n.Label == "" && n.Max == 1 && len(block.Labels) == 0 {
			return plainBody(block.Body, n.Schema)
		}
	}
	return cty.NilVal, false
}
