// Package schema describes the attributes and nested blocks that a block of configuration may hold.
//
// Drivers and builders hand over the schema of their own blocks, so that a typo in one of them gets the same
// diagnostics, documentation and hashing as the language's own attributes.
package schema

import (
	"github.com/zclconf/go-cty/cty"
)

// Class says what a change of an attribute does to what was made from it.
type Class int

const (
	// Behavioural attributes (limits, priorities, timeouts) replace nothing.
	Behavioural Class = iota
	// Static attributes are baked in: a change replaces the node or rebuilds the image.
	Static
	// Dynamic attributes are looked at anew each time something is made; what exists stays.
	Dynamic
)

func (c Class) String() string {
	switch c {
	case Static:
		return "static"
	case Dynamic:
		return "dynamic"
	default:
		return "behavioural"
	}
}

// Block is the schema of a block's body. Its zero value is an empty body.
type Block struct {
	Doc        string // one sentence or two, Markdown
	Attributes []Attribute
	Blocks     []NestedBlock
	// Needed lists groups of attributes; of each group at least one must be set.
	Needed [][]string
}

// Attribute is one `name = value` line.
type Attribute struct {
	Name     string
	Doc      string // what it means, with its unit
	Type     cty.Type
	Required bool
	// Default is the value when the attribute is not written; cty.NilVal means null.
	Default   cty.Value
	Class     Class
	Sensitive bool // never printed, stored or logged
	Hashed    bool // a long text, of which plans show the SHA-256 among the planned values
	// OneOf lists the only values a string (or each element of a list of strings) may have.
	OneOf []string
	// Format names the way a string is read: "" plain, FormatDuration.
	Format string
	// Min is the least allowed value of a number; nil means any.
	Min *int64
	// Check finds further mistakes in a known, non-null value; its error names the value and the next step.
	Check func(cty.Value) error
}

// FormatDuration marks a string such as "90s", "24h" or "7d"; 0 or "0s" means never where the documentation says so.
const FormatDuration = "duration"

// NestedBlock is a block inside a body, such as `tls { … }` or `artifact "qcow2" { … }`.
type NestedBlock struct {
	Name   string
	Label  string // what the block's label means; empty when it has none
	Min    int    // how many there must be
	Max    int    // 0 means any number; a block with Max 1 and no label decodes to one object or null
	Schema Block
}

// ImageRef is the type of a reference to an image block, such as diskimage.debian or cloud_image.noble.
var ImageRef = cty.Object(map[string]cty.Type{"type": cty.String, "name": cty.String})

// Type is the object type a body of this schema decodes to. A block with a label decodes to a map from label to
// object, an unlabelled one to an object (Max 1) or a list of objects.
func (b Block) Type() cty.Type {
	types := make(map[string]cty.Type, len(b.Attributes)+len(b.Blocks))
	for _, a := range b.Attributes {
		types[a.Name] = a.Type
	}
	for _, n := range b.Blocks {
		switch {
		case n.Label != "":
			types[n.Name] = cty.Map(n.Schema.Type())
		case n.Max == 1:
			types[n.Name] = n.Schema.Type()
		default:
			types[n.Name] = cty.List(n.Schema.Type())
		}
	}
	return cty.Object(types)
}

// Null is the value of a body in which nothing is written: every attribute null or its default.
func (b Block) Null() cty.Value {
	values := make(map[string]cty.Value, len(b.Attributes)+len(b.Blocks))
	for _, a := range b.Attributes {
		if a.Default == cty.NilVal {
			values[a.Name] = cty.NullVal(a.Type)
		} else {
			values[a.Name] = a.Default
		}
	}
	for _, n := range b.Blocks {
		switch {
		case n.Label != "":
			values[n.Name] = cty.MapValEmpty(n.Schema.Type())
		case n.Max == 1:
			values[n.Name] = cty.NullVal(n.Schema.Type())
		default:
			values[n.Name] = cty.ListValEmpty(n.Schema.Type())
		}
	}
	return cty.ObjectVal(values)
}

// Lookup returns the attribute of that name.
func (b Block) Lookup(name string) (Attribute, bool) {
	for _, a := range b.Attributes {
		if a.Name == name {
			return a, true
		}
	}
	return Attribute{}, false
}
