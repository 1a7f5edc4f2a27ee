package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/npctl/npctl/resources"
)

// labels creates the labels of all label blocks.
func (l *loader) labels(w *parsedConfig, vertices map[string]*vertex, ctx *hcl.EvalContext) {
	for _, one := range instancesOf(vertices) {
		at := one.block.DefRange()
		all := l.complete(l.decode(one.block.Body, one.context(ctx), l.specs.label, at), nil)
		if other, twice := w.labels[one.name]; twice {
			l.sameName(one, "label", other.at)
			continue
		}
		l.block("label."+one.name, "", at, all)
		w.labels[one.name] = &parsedLabel{at: at, Label: resources.Label{
			Name: one.name, MinReady: all.integer("min_ready"), MaxReadyAge: all.duration("max_ready_age"), Source: sourceOf(at),
		}}
	}
}

// sameName reports an instance that has the name of another instance.
func (l *loader) sameName(one instance, kind string, other hcl.Range) {
	l.problem(one.block.DefRange().Ptr(), "Duplicate name", fmt.Sprintf("This block defines %s named %q, and so does the block at %s.",
		article(kind), one.name, rangeText(other)))
}
