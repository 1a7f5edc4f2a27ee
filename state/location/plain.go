package location

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Plain reads the state block without evaluating the configuration. It reports false if the block contains
// references or errors, or if the files cannot be parsed.
func Plain(config string) (Location, bool) {
	info, err := os.Stat(config)
	if err != nil {
		return Location{}, false
	}
	files, dir := []string{config}, filepath.Dir(config)
	if info.IsDir() {
		dir = config
		if files, err = filepath.Glob(filepath.Join(config, "*.hcl")); err != nil {
			return Location{}, false
		}
	}
	var found resources.StateSettings
	for _, file := range files {
		settings, ok := PlainIn(file)
		if !ok {
			return Location{}, false
		}
		if settings.Kind != "" {
			found = settings
		}
	}
	place, err := From(found, dir)
	return place, err == nil
}

// plainLimit is the maximum size in bytes of a file that is searched for a state block.
const plainLimit = 1 << 20

// PlainIn reads the state block of a file. Its kind is empty if there is none.
func PlainIn(file string) (found resources.StateSettings, ok bool) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > plainLimit {
		return found, false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return found, false
	}
	if !bytes.Contains(text, []byte("npctl")) || !bytes.Contains(text, []byte("state")) {
		return found, true
	}
	if bytes.Count(text, []byte("{")) > 10_000 { // package config limits the nesting
		return found, false
	}
	parsed, diags := hclsyntax.ParseConfig(text, file, hcl.InitialPos)
	if diags.HasErrors() {
		return found, false
	}
	for _, block := range parsed.Body.(*hclsyntax.Body).Blocks {
		if block.Type != "npctl" {
			continue
		}
		for _, inner := range block.Body.Blocks {
			if inner.Type == "state" || inner.Type == "dynamic" {
				return plainSettings(inner)
			}
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
