package config

import (
	"maps"
	"slices"

	"github.com/npctl/npctl/resources/schema"
)

// spec is a schema.Block prepared for decoding: what of the language and of a driver may stand in one body.
type spec struct {
	what   string // what the body belongs to, for messages: "pool", `builder "dib"`
	attrs  map[string]*schema.Attribute
	order  []string // names of attributes as declared
	blocks map[string]*nestedSpec
	// repeats tells that the block may have for_each and name.
	repeats bool
	// guarded attributes may not get sensitive values unless they are declared sensitive: what is in them is kept in
	// the state, used as a name, or shown.
	guarded map[string]bool
}

// nestedSpec is a block inside a body.
type nestedSpec struct {
	schema.NestedBlock
	spec *spec // nil for a part
	part bool  // decoded by the code of its own: pools, labels, builders and the like
}

// meta are the attributes of every block that repeats.
const (
	metaForEach = "for_each"
	metaName    = "name"
)

// newSpec joins the schemas of one body. The first wins where two declare the same name. Only the first one's
// attributes are guarded.
func newSpec(what string, layers ...schema.Block) *spec {
	s := &spec{
		what: what, attrs: map[string]*schema.Attribute{}, blocks: map[string]*nestedSpec{}, guarded: map[string]bool{},
	}
	for depth, layer := range layers {
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

// withParts adds blocks that have code of their own.
func (s *spec) withParts(parts ...schema.NestedBlock) *spec {
	for _, nested := range parts {
		s.blocks[nested.Name] = &nestedSpec{NestedBlock: nested, part: true}
	}
	return s
}

// repeating allows for_each and name.
func (s *spec) repeating() *spec {
	s.repeats = true
	return s
}

// unguarded lets every attribute have sensitive values.
func (s *spec) unguarded() *spec { return s.guard(false) }

// allGuarded is for blocks whose values are kept in the state.
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

// words are the attribute and block names, for suggestions.
func (s *spec) words() (attrs, blocks []string) {
	attrs = slices.Clone(s.order)
	if s.repeats {
		attrs = append(attrs, metaForEach, metaName)
	}
	return attrs, slices.Sorted(maps.Keys(s.blocks))
}
