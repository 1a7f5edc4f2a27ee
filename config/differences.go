package config

import (
	"cmp"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Differences returns the attributes in effect that differ between two configurations, which Load has read with
// Options.Compare. An attribute that a block inherits, or that has its default, counts as one of the block. The blocks of
// base are compared under the names that they have after the moves of head. Sensitive values are compared and not shown.
func Differences(base, head *Result) []resources.Difference {
	moves := head.Desired.Moves
	before := make(map[resources.BlockRef]*evaluated, len(base.evaluated))
	for i := range base.evaluated {
		before[moves.Present(base.evaluated[i].ref)] = &base.evaluated[i]
	}
	var all []resources.Difference
	for i := range head.evaluated {
		now := &head.evaluated[i]
		if was := before[now.ref]; was != nil {
			delete(before, now.ref)
			all = append(all, now.differences(was, moves)...)
		} else {
			all = append(all, resources.Difference{Address: now.ref.String(), Block: resources.BlockAdded, Source: now.report.sourceOf(now.at)})
		}
	}
	for ref, was := range before {
		all = append(all, resources.Difference{Address: ref.String(), Block: resources.BlockRemoved, Source: was.report.sourceOf(was.at)})
	}
	slices.SortFunc(all, func(a, b resources.Difference) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Attribute, b.Attribute))
	})
	return all
}

// differences returns the attributes that differ from those of the block in the base.
func (e *evaluated) differences(was *evaluated, moves resources.Moves) (all []resources.Difference) {
	if e.kind != was.kind {
		all = append(all, resources.Difference{Address: e.ref.String(), Attribute: kindLabels[e.ref.Type], Before: jsonString(was.kind), After: jsonString(e.kind),
			Class: schema.Replacing.String(), Source: e.report.sourceOf(e.at)})
	}
	for i, b := range e.bodies {
		var earlier values // of a builder of another kind: only what is new is shown
		if i < len(was.bodies) && (i == 0 || e.kind == was.kind) {
			earlier = was.bodies[i].values
		}
		for _, name := range slices.Sorted(maps.Keys(b.values)) {
			before, now := earlier[name], b.values[name]
			if sameValue(before, now, moves) {
				continue
			}
			d := resources.Difference{Address: e.ref.String(), Attribute: name, Source: e.report.sourceOf(e.at)}
			if written, ok := b.content.attrs[name]; ok {
				d.Source = e.report.sourceOf(written.name)
			} else if blocks := b.content.blocks[name]; len(blocks) > 0 {
				d.Source = e.report.sourceOf(blocks[0].at)
			}
			attr := b.content.spec.attributeOf(name)
			d.Before, d.After, d.Class = shownValue(attr, before), shownValue(attr, now), attr.Class.String()
			if i > 0 {
				d.Attribute = "builder." + name
			}
			all = append(all, d)
		}
	}
	return all
}

// kindLabels names the label that has the kind of a block, by the type of the block.
var kindLabels = map[string]string{"provider": "driver", "diskimage": "builder", "npctl": "state"}

// attributeOf returns an attribute, or a nested block as one.
func (s *spec) attributeOf(name string) *schema.Attribute {
	if attr, ok := s.attrs[name]; ok {
		return attr
	}
	attr := &schema.Attribute{Name: name}
	if nested := s.blocks[name]; nested != nil {
		attr.Class = classOf(nested.Schema)
	}
	return attr
}

// classOf returns the class of a nested block: that of its attributes with the strongest effect.
func classOf(b schema.Block) schema.Class {
	switch {
	case hasStatic(b):
		return schema.Replacing
	case slices.ContainsFunc(b.Attributes, func(a schema.Attribute) bool { return a.Class == schema.AppliedToNew }),
		slices.ContainsFunc(b.Blocks, func(n schema.NestedBlock) bool { return classOf(n.Schema) == schema.AppliedToNew }):
		return schema.AppliedToNew
	default:
		return schema.InPlace
	}
}

// sameValue reports whether two values are equal. A reference to an image that moves is equal to that with its new name.
func sameValue(before, now cty.Value, moves resources.Moves) bool {
	if before == cty.NilVal || now == cty.NilVal {
		return before == now || before == cty.NilVal && now.IsNull()
	}
	was, _ := before.UnmarkDeep()
	is, _ := now.UnmarkDeep()
	if was.RawEquals(is) {
		return true
	}
	if !is.Type().Equals(schema.ImageRef) || !was.Type().Equals(schema.ImageRef) || is.IsNull() || was.IsNull() {
		return false
	}
	ref := refOf(was)
	moved := moves.Present(resources.BlockRef{Type: string(ref.Kind), Name: ref.Name})
	return refOf(is) == resources.ImageRef{Kind: resources.ImageKind(moved.Type), Name: moved.Name}
}

// shownValue returns a value as short text, "" if it is not set.
func shownValue(attr *schema.Attribute, value cty.Value) string {
	if value == cty.NilVal {
		return ""
	}
	if plain, _ := value.Unmark(); plain.IsNull() {
		return ""
	}
	return plannedValue(attr, value)
}

func jsonString(text string) string { return showValue(cty.StringVal(text), false) }
