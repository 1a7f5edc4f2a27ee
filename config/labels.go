package config

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/resources"
)

// readLabels creates the labels of the label blocks of one module.
func (r *blockReader) readLabels(vertices map[string]*vertex, ctx *hcl.EvalContext, labels map[string]*parsedLabel) {
	for _, one := range instancesOf(vertices) {
		at := one.block.DefRange()
		c, all := r.body(one.block, one.context(ctx), r.specs.label)
		if other, twice := labels[one.name]; twice {
			r.sameName(one, "label", other.Source)
			continue
		}
		r.digest(resources.BlockRef{Type: "label", Name: one.name}, "", at, body{c, all})
		labels[one.name] = &parsedLabel{in: r.report, at: at, Label: resources.Label{Name: one.name, Source: r.sourceOf(at)}}
		all.decode(&labels[one.name].Label)
		labels[one.name].MinReady = max(labels[one.name].MinReady, 0)
	}
}
