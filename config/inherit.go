package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// notInherited are attributes that apply to one block only.
var notInherited = []string{"abstract", "parent", "prevent_destroy"}

// inherit completes the parents of a draft, first to last, and then the draft.
func inherit(drafts map[string]*draft, d *draft) {
	var chain []*draft
	for at := d; at != nil && at.state != done; at = drafts[at.parent] {
		if at.state == entered {
			at.reader.reportParents(chain, at)
			break
		}
		at.state = entered
		chain = append(chain, at)
	}
	for _, child := range slices.Backward(chain) {
		child.state = done
		child.orphan = child.orphan || child.parent != "" && (drafts[child.parent] == nil || drafts[child.parent].orphan)
		if parent := drafts[child.parent]; parent != nil && parent.state == done && parent != child {
			child.inheritFrom(parent)
		}
	}
}

func (r *imageReader) reportParents(chain []*draft, at *draft) {
	var names []string
	for _, d := range chain[slices.Index(chain, at):] {
		d.orphan = true
		names = append(names, d.name)
	}
	r.problem(at.content.rangeOf("parent"), "Parent cycle", "These images are parents of each other: "+
		strings.Join(append(names, at.name), " -> ")+".")
}

func (d *draft) inheritFrom(parent *draft) {
	d.content.inheritFrom(parent.content)
	switch {
	case d.builder == nil:
		d.builder = parent.builder
	case parent.builder != nil && parent.builder.kind == d.builder.kind && d.builder.content != nil && parent.builder.content != nil:
		d.builder.content.inheritFrom(parent.builder.content)
	}
}

func (c *content) inheritFrom(parent *content) {
	for name, inherited := range parent.attrs {
		if slices.Contains(notInherited, name) {
			continue
		}
		own, ok := c.attrs[name]
		if !ok {
			c.attrs[name] = inherited
			continue
		}
		own.value = merged(inherited.value, own.value, c.spec.attrs[name] != nil && c.spec.attrs[name].Appended)
		c.attrs[name] = own
	}
	for name := range parent.open {
		if c.open == nil {
			c.open = map[string]bool{}
		}
		c.open[name] = c.open[name] || len(c.blocks[name]) == 0
	}
	for name, inherited := range parent.blocks {
		if len(c.blocks[name]) == 0 {
			if c.blocks == nil {
				c.blocks = map[string][]nested{}
			}
			c.blocks[name] = inherited
		}
	}
}

// merged overlays a parent's value with that of the child.
func merged(parent, child cty.Value, appendLists bool) cty.Value {
	t := child.Type()
	if !t.IsMapType() && (!t.IsListType() || !appendLists) {
		return child
	}
	below, belowMarks := parent.Unmark()
	above, aboveMarks := child.Unmark()
	if !below.IsKnown() || !above.IsKnown() || !below.Type().Equals(t) {
		return child
	}
	if t.IsListType() {
		all := slices.Concat(below.AsValueSlice(), above.AsValueSlice())
		if len(all) == 0 {
			return child
		}
		return cty.ListVal(all).WithMarks(belowMarks, aboveMarks)
	}
	all := below.AsValueMap()
	if len(all) == 0 {
		return child
	}
	maps.Copy(all, above.AsValueMap())
	return cty.MapVal(all).WithMarks(belowMarks, aboveMarks)
}
