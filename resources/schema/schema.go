// Package schema describes the attributes and nested blocks that a block of configuration may hold.
//
// Drivers and builders provide the schemas of their own blocks, so that their attributes get the same diagnostics,
// documentation and hashing as npctl's own.
package schema

import (
	"github.com/zclconf/go-cty/cty"
)

// Class states the effect that a change of an attribute has on existing objects.
type Class int

const (
	// InPlace attributes (limits, priorities, timeouts) take effect at once and replace nothing.
	InPlace Class = iota
	// Replacing attributes are built in: a change replaces the node or rebuilds the image.
	Replacing
	// AppliedToNew attributes affect only objects that are created later.
	AppliedToNew
)

func (c Class) String() string {
	switch c {
	case Replacing:
		return "replacing"
	case AppliedToNew:
		return "applied to new"
	default:
		return "in place"
	}
}

// Block is the schema of a block's body. Its zero value is an empty body.
type Block struct {
	Doc        string // one or two sentences, Markdown
	Attributes []Attribute
	Blocks     []NestedBlock
	// AtLeastOneOf lists groups of attributes; at least one attribute of each group must be set.
	AtLeastOneOf [][]string
}

// Attribute is the schema of one `name = value` line.
type Attribute struct {
	Name     string
	Doc      string // meaning and unit, Markdown
	Type     cty.Type
	Required bool
	// Default is the value of an attribute that is not set; cty.NilVal means null.
	Default   cty.Value
	Class     Class
	Sensitive bool // never printed, stored or logged
	Hashed    bool // a long text; plans show the SHA-256 instead of it
	Appended  bool // a list that an image appends to that of its parent
	// OneOf lists the allowed values of a string, or of each element of a list of strings.
	OneOf []string
	// Format is the syntax of a string: "" for plain text, or FormatDuration.
	Format string
	// Min is the smallest allowed value of a number; nil means no minimum.
	Min *int64
	// Check validates a known, non-null value; its error names the value and what to do.
	Check Check
}

// FormatDuration is the format of a duration such as "90s", "24h" or "7d"; 0 or "0s" means never if the documentation
// says so.
const FormatDuration = "duration"

// NestedBlock is the schema of a block inside a body, such as `tls { … }` or `artifact "qcow2" { … }`.
type NestedBlock struct {
	Name   string
	Label  string // meaning of the block's label; empty if it has none
	Min    int    // minimum number of blocks
	Max    int    // maximum number; 0 means no limit. A block with Max 1 and no label decodes to one object or null.
	Schema Block
}

// ImageRef is the type of a reference to an image block, such as diskimage.debian or cloud_image.noble.
var ImageRef = cty.Object(map[string]cty.Type{"type": cty.String, "name": cty.String})

// Type returns the object type to which a body of this schema decodes. A block with a label decodes to a map from
// label to object, a block without one to an object (Max 1) or a list of objects.
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

// Null returns the value of an empty body: every attribute null or its default.
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

// Lookup returns the attribute with the name.
func (b Block) Lookup(name string) (Attribute, bool) {
	for _, a := range b.Attributes {
		if a.Name == name {
			return a, true
		}
	}
	return Attribute{}, false
}
