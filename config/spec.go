package config

import (
	"cmp"
	"maps"
	"slices"

	"github.com/npctl/npctl/resources/schema"
)

// spec is a schema.Block prepared for decoding: all attributes and blocks of one body, of the language and of a
// driver.
type spec struct {
	what   string // the owner of the body, for messages: "pool", `builder "dib"`
	doc    string
	attrs  map[string]*schema.Attribute
	order  []string // names of attributes as declared
	blocks map[string]*nestedSpec
	needed [][]string // as schema.Block.AtLeastOneOf
	// repeats permits for_each and name in the block.
	repeats bool
	// guarded attributes reject sensitive values unless they are declared sensitive, because their values are stored
	// in the state, used as names, or shown.
	guarded map[string]bool
}

// nestedSpec is a block inside a body.
type nestedSpec struct {
	schema.NestedBlock
	spec *spec // nil for a part
	part bool  // has its own decoding function: pools, labels, builders and the like
}

// Attributes that every repeating block has.
const (
	metaForEach = "for_each"
	metaName    = "name"
)

// newSpec joins the schemas of one body. If two declare the same name, the first takes precedence. Only the
// attributes of the first are guarded.
func newSpec(what string, layers ...schema.Block) *spec {
	s := &spec{
		what: what, attrs: map[string]*schema.Attribute{}, blocks: map[string]*nestedSpec{}, guarded: map[string]bool{},
	}
	for depth, layer := range layers {
		s.needed = append(s.needed, layer.AtLeastOneOf...)
		s.doc = cmp.Or(s.doc, layer.Doc)
		for i := range layer.Attributes {
			attr := &layer.Attributes[i]
			if _, twice := s.attrs[attr.Name]; twice {
				continue
			}
			s.attrs[attr.Name] = attr
			s.order = append(s.order, attr.Name)
			s.guarded[attr.Name] = depth == 0
		}
		for _, nested := range layer.Blocks {
			if _, twice := s.blocks[nested.Name]; twice {
				continue
			}
			inner := newSpec(nested.Name, nested.Schema)
			if depth > 0 {
				inner.unguarded()
			}
			s.blocks[nested.Name] = &nestedSpec{NestedBlock: nested, spec: inner}
		}
	}
	return s
}

// withParts adds blocks that have their own decoding functions.
func (s *spec) withParts(parts ...schema.NestedBlock) *spec {
	for _, nested := range parts {
		s.blocks[nested.Name] = &nestedSpec{NestedBlock: nested, part: true}
	}
	return s
}

// repeating permits for_each and name.
func (s *spec) repeating() *spec {
	s.repeats = true
	return s
}

// unguarded permits sensitive values in all attributes.
func (s *spec) unguarded() *spec { return s.guard(false) }

// allGuarded guards all attributes, for blocks with values that npctl stores in the state.
func (s *spec) allGuarded() *spec { return s.guard(true) }

func (s *spec) guard(on bool) *spec {
	for name := range s.attrs {
		s.guarded[name] = on
	}
	for _, nested := range s.blocks {
		if nested.spec != nil {
			nested.spec.guard(on)
		}
	}
	return s
}

// words returns the attribute and block names, for suggestions.
func (s *spec) words() (attrs, blocks []string) {
	attrs = slices.Clone(s.order)
	if s.repeats {
		attrs = append(attrs, metaForEach, metaName)
	}
	return attrs, slices.Sorted(maps.Keys(s.blocks))
}
