package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/resources/schema"
)

// languageFormat is the version of the JSON form of Language. Later versions with the same major number only add names.
const languageFormat = "1.0"

// Language describes every block and attribute of the configuration language, of the drivers, builders and stores, in
// the form that npctl providers schema -json prints. It contains the specs against which Load decodes.
type Language struct {
	FormatVersion string                   `json:"format_version"`
	NpctlVersion  string                   `json:"npctl_version,omitempty"`
	Blocks        map[string]BlockSyntax   `json:"blocks"`
	Drivers       map[string]DriverAbility `json:"drivers"`
	Functions     []string                 `json:"functions"`
}

// BlockSyntax describes a block. A block with Kinds has one body for each value of its first label.
type BlockSyntax struct {
	Doc          string                     `json:"doc,omitempty"`
	Labels       []string                   `json:"labels,omitempty"` // their meanings
	Min          int                        `json:"min,omitempty"`    // number of blocks; Max 0 means no limit
	Max          int                        `json:"max,omitempty"`
	ForEach      bool                       `json:"for_each,omitempty"` // permits the attributes for_each and name
	Free         bool                       `json:"free,omitempty"`     // attributes may have any name
	Attributes   map[string]AttributeSyntax `json:"attributes,omitempty"`
	AtLeastOneOf [][]string                 `json:"at_least_one_of,omitempty"` // each a group of attributes
	Blocks       map[string]BlockSyntax     `json:"blocks,omitempty"`
	Kinds        map[string]BlockSyntax     `json:"kinds,omitempty"`
}

// AttributeSyntax describes an attribute.
type AttributeSyntax struct {
	// Type is a type in the JSON form of cty and Terraform, such as "string" or ["list", "string"].
	Type      json.RawMessage `json:"type"`
	Format    string          `json:"format,omitempty"` // duration, or reference: a reference to an image block
	Doc       string          `json:"doc,omitempty"`
	Class     string          `json:"class"`
	Required  bool            `json:"required,omitempty"`
	Inherited string          `json:"inherited,omitempty"` // the block that gives the value when this one does not
	Default   json.RawMessage `json:"default,omitempty"`
	OneOf     []string        `json:"one_of,omitempty"`
	Minimum   *int64          `json:"minimum,omitempty"`
	Sensitive bool            `json:"sensitive,omitempty"`
	Hashed    bool            `json:"hashed,omitempty"`
	Appended  bool            `json:"appended,omitempty"`
}

// DriverAbility describes a driver.
type DriverAbility struct {
	Doc     string   `json:"doc,omitempty"`
	Formats []string `json:"formats,omitempty"` // of images, the preferred one first
}

// formatReference is the Format of attributes of the type schema.ImageRef.
const formatReference = "reference"

// DescribeLanguage returns the description of the language with these drivers, builders and states.
func DescribeLanguage(opts Options) Language {
	s := newSpecs(opts)
	l := Language{FormatVersion: languageFormat, NpctlVersion: opts.Version, Drivers: map[string]DriverAbility{}, Blocks: map[string]BlockSyntax{}}
	for name, labels := range topLevel {
		l.Blocks[name] = s.topBlock(name, labels)
	}
	for kind, d := range s.drivers {
		l.Drivers[kind] = DriverAbility{Doc: d.Doc, Formats: d.Formats}
	}
	for _, group := range functionGroups {
		l.Functions = append(l.Functions, group.Names...)
	}
	slices.Sort(l.Functions)
	return l
}

// topBlock describes a top-level block.
func (s *specs) topBlock(name string, labels []string) BlockSyntax {
	var b BlockSyntax
	switch name {
	case "provider":
		b = BlockSyntax{Doc: providerBlock.Doc, Kinds: map[string]BlockSyntax{}}
		for kind, d := range s.drivers {
			b.Kinds[kind] = s.describe(d.provider, d)
		}
	case "locals":
		b = BlockSyntax{Doc: "Values for use elsewhere, as `local.name`, in any order and any file.", Free: true}
	default:
		b = s.describe(s.top()[name], nil)
		b.Free = name == "module" // inputs
	}
	b.Labels = labels
	return b
}

// describe describes a body. d is the driver of its provider, nil outside of providers.
func (s *specs) describe(of *spec, d *driverSpecs) BlockSyntax {
	b := BlockSyntax{Doc: of.doc, ForEach: of.repeats, AtLeastOneOf: of.needed, Attributes: map[string]AttributeSyntax{}, Blocks: map[string]BlockSyntax{}}
	for name, attr := range of.attrs {
		b.Attributes[name] = describeAttribute(attr, s.inheritsFrom(of, d, name))
	}
	for name, nested := range of.blocks {
		if nested.part && d != nil && !d.has(of, name) {
			continue
		}
		inner := s.part(name, nested, d)
		inner.Min, inner.Max = nested.Min, nested.Max
		if nested.Label != "" {
			inner.Labels = []string{nested.Label}
		}
		b.Blocks[name] = inner
	}
	return b
}

// part describes a block inside a body.
func (s *specs) part(name string, nested *nestedSpec, d *driverSpecs) BlockSyntax {
	if !nested.part {
		return s.describe(nested.spec, nil)
	}
	kinds := func(doc string, specs map[string]*spec) BlockSyntax {
		b := BlockSyntax{Doc: doc, Kinds: map[string]BlockSyntax{}}
		for kind, of := range specs {
			b.Kinds[kind] = s.describe(of, d)
		}
		return b
	}
	switch name {
	case partState.Name:
		return kinds(stateBlock.Doc, s.states)
	case partBuilder.Name:
		able := maps.Clone(s.builders)
		delete(able, zuulBuilder) // part of zuul_image
		return kinds(builderBlock.Doc, able)
	default:
		return s.describe(s.within(name, nested, "", d)[0], d)
	}
}

// parts returns the specs of the blocks inside a provider and its pools.
func (d *driverSpecs) parts() map[string]*spec {
	return map[string]*spec{"pool": d.pool, "label": d.offer, "node": d.node, "cloud_image": d.cloudImage, "image": d.providerImage}
}

// has reports whether the driver supports a block inside a provider or pool.
func (d *driverSpecs) has(of *spec, name string) bool {
	switch {
	case of == d.pool && name == "label":
		return d.HasLabels
	case of == d.pool && name == "node":
		return d.HasNodes
	case of == d.provider && name == "cloud_image":
		return d.HasCloudImages
	case of == d.provider && name == "image":
		return d.HasImages
	default:
		return true
	}
}

// inheritsFrom names the block that gives an attribute its value when the block of the spec does not set it.
func (s *specs) inheritsFrom(of *spec, d *driverSpecs, name string) string {
	switch {
	case d != nil && of == d.offer && d.pool.attrs[name] != nil:
		return "pool"
	case of == s.diskimage && !slices.Contains(notInherited, name):
		return "parent"
	case slices.Contains(slices.Collect(maps.Values(s.builders)), of):
		return "parent"
	default:
		return ""
	}
}

func describeAttribute(a *schema.Attribute, inherited string) AttributeSyntax {
	made := AttributeSyntax{Format: a.Format, Doc: a.Doc, Class: a.Class.String(), Required: a.Required, Inherited: inherited,
		OneOf: a.OneOf, Minimum: a.Min, Sensitive: a.Sensitive, Hashed: a.Hashed, Appended: a.Appended}
	if a.Type.Equals(schema.ImageRef) {
		made.Format = formatReference
	}
	var err error
	if made.Type, err = ctyjson.MarshalType(a.Type); err != nil {
		panic(fmt.Sprintf("type of %s: %v", a.Name, err))
	}
	if a.Default != cty.NilVal && !a.Default.IsNull() {
		if made.Default, err = ctyjson.Marshal(a.Default, a.Type); err != nil {
			panic(fmt.Sprintf("default of %s: %v", a.Name, err))
		}
	}
	return made
}
