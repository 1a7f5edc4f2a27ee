package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/npctl/npctl/internal/syntax"
)

// Override files change blocks of the other files of a directory: syntax.Override merges a block with the same type
// and labels, and local values are replaced one by one.

// overrides merges override files.
type overrides struct {
	*report
	top    map[string][]*hclsyntax.Block
	merged []overridden
}

// overridden is a pair of places: a block or a local value, and its change.
type overridden struct{ what, at, by hcl.Range }

// merge merges the blocks of one override file.
func (o *overrides) merge(changes map[string][]*hclsyntax.Block) {
	for _, kind := range slices.Sorted(maps.Keys(changes)) {
		for _, block := range changes[kind] {
			switch {
			case kind == "locals":
				o.locals(block)
			case len(topLevel[kind]) == 0 && kind != "npctl":
				o.problem(block.DefRange().Ptr(), "Cannot override", fmt.Sprintf("Blocks of the type %q have no labels, so that an override file cannot change them. Move the block to another file.", kind))
			default:
				o.block(block)
			}
		}
	}
}

func (o *overrides) block(change *hclsyntax.Block) {
	blocks := o.top[change.Type]
	i := slices.IndexFunc(blocks, func(b *hclsyntax.Block) bool { return slices.Equal(b.Labels, change.Labels) })
	if i < 0 {
		if !o.partial {
			o.problem(change.DefRange().Ptr(), "Nothing to override", fmt.Sprintf("No other file has the block %s, which this block would change. "+
				"Move it to a file that is no override file.", syntax.Header(change)))
		}
		return
	}
	o.merged = append(o.merged, overridden{blocks[i].Range(), blocks[i].DefRange(), change.Range()})
	blocks[i] = syntax.Override(blocks[i], change)
}

// locals replaces local values.
func (o *overrides) locals(change *hclsyntax.Block) {
	for _, inner := range change.Body.Blocks {
		o.problem(inner.DefRange().Ptr(), "Unsupported block", "A locals block has attributes only.")
	}
	for _, name := range sortedKeys(change.Body.Attributes) {
		attr := change.Body.Attributes[name]
		i := slices.IndexFunc(o.top["locals"], func(b *hclsyntax.Block) bool { return b.Body.Attributes[name] != nil })
		if i < 0 {
			if !o.partial {
				o.problem(attr.NameRange.Ptr(), "Nothing to override", fmt.Sprintf("No other file has the local value %q. Move it to a file that is no override file.", name))
			}
			continue
		}
		block := o.top["locals"][i]
		o.merged = append(o.merged, overridden{block.Body.Attributes[name].SrcRange, block.Body.Attributes[name].NameRange, attr.SrcRange})
		one := *change
		one.Body = &hclsyntax.Body{Attributes: hclsyntax.Attributes{name: attr}}
		o.top["locals"][i] = syntax.Override(block, &one)
	}
}

// explain adds the other place to errors in blocks that are merged from two files.
func (o *overrides) explain() {
	for _, diag := range o.diags {
		if diag.Subject == nil {
			continue
		}
		for _, m := range o.merged {
			switch {
			case contains(m.by, *diag.Subject):
				diag.Detail += fmt.Sprintf(" This overrides %s.", rangeText(m.at))
			case contains(m.what, *diag.Subject):
				diag.Detail += fmt.Sprintf(" This is overridden at %s.", rangeText(m.by))
			}
		}
	}
}

func contains(outer, inner hcl.Range) bool {
	return outer.Filename == inner.Filename && outer.Start.Byte <= inner.Start.Byte && inner.End.Byte <= outer.End.Byte
}
