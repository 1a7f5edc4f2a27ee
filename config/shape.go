package config

import (
	"maps"
	"slices"

	"github.com/npctl/npctl/internal/syntax"
)

// shape returns the shape of JSON files: the blocks of the language, of drivers, builders and stores.
func (s *specs) shape() syntax.Shape {
	top, shape := s.top(), syntax.Shape{Blocks: map[string]syntax.Block{}, Top: true}
	for name, labels := range topLevel {
		shape.Blocks[name] = syntax.Block{Labels: len(labels), Body: func(labels []string) syntax.Shape {
			switch of := top[name]; {
			case name == "provider":
				if d := s.drivers[labels[0]]; d != nil {
					return s.shapeOf(d, d.provider)
				}
				return syntax.Shape{}
			case of == nil: // locals
				return syntax.Shape{}
			default:
				return s.shapeOf(nil, of)
			}
		}}
	}
	return shape
}

// shapeOf returns the shape of a body with one of these specs. d is the driver of its provider, nil outside of
// providers.
func (s *specs) shapeOf(d *driverSpecs, specs ...*spec) syntax.Shape {
	shape := syntax.Shape{Blocks: map[string]syntax.Block{}}
	for _, of := range specs {
		for name, nested := range of.blocks {
			labels := 0
			if nested.Label != "" {
				labels = 1
			}
			shape.Blocks[name] = syntax.Block{Labels: labels, Body: func(labels []string) syntax.Shape {
				kind := ""
				if len(labels) > 0 {
					kind = labels[0]
				}
				return s.shapeOf(d, s.within(name, nested, kind, d)...)
			}}
		}
		if of == s.variable {
			shape.Expressions = []string{"type"}
		}
	}
	if len(shape.Blocks) > 0 {
		shape.Blocks[dynamicBlock] = dynamicShape(shape.Blocks)
	}
	return shape
}

// dynamicShape returns the shape of dynamic blocks that generate these blocks.
func dynamicShape(blocks map[string]syntax.Block) syntax.Block {
	return syntax.Block{Labels: 1, Body: func(labels []string) syntax.Shape {
		content := syntax.Block{Body: func([]string) syntax.Shape {
			if generated := blocks[labels[0]]; generated.Body != nil {
				return generated.Body(nil)
			}
			return syntax.Shape{}
		}}
		return syntax.Shape{Blocks: map[string]syntax.Block{"content": content}, Expressions: []string{"iterator"}}
	}}
}

// within returns the specs of a block inside a body: one, or those of all kinds if the kind is unknown. kind is the
// label of the block, d the driver of its provider.
func (s *specs) within(name string, nested *nestedSpec, kind string, d *driverSpecs) []*spec {
	kinds := s.states
	switch {
	case !nested.part:
		return []*spec{nested.spec}
	case name == partAssert.Name:
		return []*spec{s.assert}
	case name == partValidation.Name:
		return []*spec{s.validation}
	case d != nil:
		return []*spec{d.parts()[name]}
	case name == partBuilder.Name:
		kinds = s.builders
	}
	if one := kinds[kind]; one != nil {
		return []*spec{one}
	}
	return slices.Collect(maps.Values(kinds))
}
