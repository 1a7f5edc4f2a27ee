package config

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/resources"
)

// readLabels creates the labels of all label blocks.
func (r *blockReader) readLabels(vertices map[string]*vertex, ctx *hcl.EvalContext) map[string]*parsedLabel {
	labels := map[string]*parsedLabel{}
	for _, one := range instancesOf(vertices) {
		at := one.block.DefRange()
		_, all := r.body(one.block, one.context(ctx), r.specs.label)
		if other, twice := labels[one.name]; twice {
			r.sameName(one, "label", other.at)
			continue
		}
		r.digests.add("label."+one.name, "", at, all)
		labels[one.name] = &parsedLabel{at: at, Label: resources.Label{Name: one.name, Source: sourceOf(at)}}
		all.decode(&labels[one.name].Label)
		labels[one.name].MinReady = max(labels[one.name].MinReady, 0)
	}
	return labels
}
