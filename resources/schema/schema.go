// Package schema describes the attributes and nested blocks that a block of configuration may hold.
//
// Drivers and builders provide the schemas of their own blocks, so that their attributes get the same diagnostics,
// documentation and hashing as npctl's own.
package schema

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	str2duration "github.com/xhit/go-str2duration/v2"
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
	// Check validates the known values of a nested block together; its error names the values and what to do. It is not called if an
	// attribute is invalid.
	Check func(map[string]cty.Value) error
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

// Driver is the schema that a driver adds to the attributes that every provider has.
type Driver struct {
	Doc        string // one paragraph, Markdown, for the reference
	Provider   Block
	Pool       Block
	Label      Block // attributes that Pool also has default to the pool's value
	CloudImage Block
	Image      Block // settings of a provider for an uploaded image
	Node       Block
	// HasLabels, HasNodes, HasImages and HasCloudImages state which blocks the driver supports.
	HasLabels, HasNodes, HasImages, HasCloudImages bool
	// Formats lists the image formats that the driver can upload, the preferred one first.
	Formats []string
	// Agree, if not nil, states which attributes must agree between the labels of a provider.
	Agree *Agreement
	// Nodepool, if not nil, has the keys of Nodepool's driver of the same name.
	Nodepool *Nodepool
}

// Agreement is a rule for the labels of a provider: those with the same value of By have the same values of Attributes.
type Agreement struct {
	By         string
	Attributes []string
}

// BootsImages reports whether labels name the image block from which their nodes boot. The labels of other drivers may
// have an attribute image of another meaning.
func (d Driver) BootsImages() bool { return d.HasImages || d.HasCloudImages }

// maxWhole is the largest integer up to which float64 represents every integer exactly.
var maxWhole = new(big.Float).SetInt64(1 << 53)

// CheckWhole accepts whole numbers.
func CheckWhole(v cty.Value) error {
	n := v.AsBigFloat()
	if !n.IsInt() {
		return fmt.Errorf("%s is not a whole number", n.Text('g', 10))
	}
	if new(big.Float).Abs(n).Cmp(maxWhole) > 0 {
		return fmt.Errorf("%s is too large", n.Text('g', 10))
	}
	return nil
}

// CheckPort accepts the numbers of ports.
func CheckPort(v cty.Value) error {
	if err := CheckWhole(v); err != nil {
		return err
	}
	if n, _ := v.AsBigFloat().Int64(); n < 1 || n > 65535 {
		return fmt.Errorf("%d is not a port; use a number from 1 to 65535", n)
	}
	return nil
}

// CheckNotEmpty rejects an empty string, list or map.
func CheckNotEmpty(v cty.Value) error {
	if v.Type() == cty.String && v.AsString() == "" {
		return errors.New("the text is empty")
	}
	if v.CanIterateElements() && v.LengthInt() == 0 {
		return errors.New("there must be at least one")
	}
	return nil
}

// CheckPath accepts the path of a file.
func CheckPath(v cty.Value) error {
	if strings.ContainsAny(v.AsString(), "\x00\r\n") {
		return errors.New("the path contains a line break or a null byte")
	}
	return CheckNotEmpty(v)
}

// durationShape matches durations of any size.
var durationShape = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h|d|w))+$`)

// ParseDuration reads a string in the format FormatDuration: "90s", "24h", "7d12h" or "2w".
func ParseDuration(text string) (time.Duration, error) {
	d, err := str2duration.ParseDuration(text)
	switch {
	case err != nil && durationShape.MatchString(text):
		return 0, fmt.Errorf("the duration %q is too large; the largest is about 290 years", text)
	case err != nil && strings.Trim(text, "0123456789") == "" && text != "":
		return 0, fmt.Errorf("the duration %q has no unit; for seconds write %q", text, text+"s")
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write it like \"90s\", \"10m\", \"24h\", \"7d\" or \"2w\"", text)
	case d < 0:
		return 0, fmt.Errorf("the duration %q is negative", text)
	}
	return d, nil
}

// Quoted returns a string of a configuration in quotes for an error, or null.
func Quoted(v cty.Value) string {
	if v.IsNull() {
		return "null"
	}
	return strconv.Quote(v.AsString())
}
