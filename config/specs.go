package config

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// specs are the prepared schemas of all blocks, including those of drivers, builders and stores.
type specs struct {
	variable, validation, npctl, label, diskimage, zuulImage, importing, moved, removed, output, check, assert, module *spec
	builders, states                                                                                                   map[string]*spec
	drivers                                                                                                            map[string]*driverSpecs
	insideOf                                                                                                           map[string]string // the parent of each block type that is not top-level
}

// driverSpecs are the prepared schemas of one driver's blocks.
type driverSpecs struct {
	schema.Driver
	kind                                                   string
	provider, pool, offer, cloudImage, providerImage, node *spec
	// poolOnly are the pool attributes that labels do not have.
	poolOnly schema.Block
	// label is the driver's label schema for hashing: attributes without a default have that of the pool.
	label schema.Block
	// wholeNode is the schema of a node block: the language's and the driver's.
	wholeNode schema.Block
}

// The structural blocks inside a provider, a pool and other blocks.
var (
	partBuilder    = schema.NestedBlock{Name: "builder", Label: "kind", Max: 1}
	partState      = schema.NestedBlock{Name: "state", Label: "kind", Max: 1}
	partAssert     = schema.NestedBlock{Name: "assert"}
	partValidation = schema.NestedBlock{Name: "validation"}
	providerParts  = []schema.NestedBlock{{Name: "pool", Label: "name"}, {Name: "cloud_image", Label: "name"}, {Name: "image", Label: "image"}}
	poolParts      = []schema.NestedBlock{{Name: "label", Label: "name"}, {Name: "node", Label: "host name"}}
)

func newSpecs(opts Options) *specs {
	s := &specs{
		variable:   newSpec("variable", variableBlock).withParts(partValidation),
		validation: newSpec("validation", validationBlock),
		npctl:      newSpec("npctl", npctlBlock).withParts(partState),
		label:      newSpec("label", labelBlock).repeating(),
		diskimage:  newSpec("diskimage", diskimageBlock).withParts(partBuilder).repeating(),
		zuulImage:  newSpec("zuul_image", zuulImageBlock, opts.Builders[zuulBuilder]).repeating(),
		output:     newSpec("output", outputBlock).unguarded(),
		check:      newSpec("check", checkBlock).withParts(partAssert),
		assert:     newSpec("assert", assertBlock),
		importing:  newSpec("import", importBlock).repeating(),
		moved:      newSpec("moved", movedBlock),
		removed:    newSpec("removed", removedBlock),
		module:     newSpec("module", moduleBlock),
		builders:   map[string]*spec{}, states: map[string]*spec{}, drivers: map[string]*driverSpecs{},
		insideOf: map[string]string{
			"builder": "a diskimage block", "state": "the npctl block", "gearman": "the npctl block",
			"tenant_limit": "the npctl block", "pool": "a provider block", "cloud_image": "a provider block",
			"image": "a provider block", "node": "a pool block", "artifact": "a zuul_image block", "validate": "an image block", "rollout": "an image block", "stage": "a rollout block",
			"validation": "a variable block", "disruption": "a label, pool or provider block", "assert": "a check block", "lifecycle": "a removed block",
		},
	}
	for kind, block := range opts.Builders {
		s.builders[kind] = newSpec(`builder "`+kind+`"`, block).unguarded()
	}
	for kind, block := range opts.States {
		s.states[kind] = newSpec(`state "`+kind+`"`, block).unguarded()
	}
	for kind, driver := range opts.Drivers {
		s.drivers[kind] = newDriverSpecs(kind, driver)
	}
	return s
}

// top returns the specs of the top-level blocks except provider, which has one for each driver, and locals, which has
// none.
func (s *specs) top() map[string]*spec {
	return map[string]*spec{"npctl": s.npctl, "variable": s.variable, "label": s.label, "diskimage": s.diskimage, "zuul_image": s.zuulImage, "import": s.importing, "moved": s.moved, "removed": s.removed, "output": s.output, "check": s.check, "module": s.module}
}

func newDriverSpecs(kind string, d schema.Driver) *driverSpecs {
	return &driverSpecs{
		Driver: d, kind: kind,
		// What reaches a provider is kept in the state, so that it can be emptied after its block is gone.
		provider:      newSpec("provider", providerBlock, d.Provider).withParts(providerParts...).repeating().allGuarded(),
		pool:          newSpec("pool", poolBlock, d.Pool).withParts(poolParts...).repeating(),
		offer:         newSpec("label", offerBlockOf(d), d.Label).repeating(),
		cloudImage:    newSpec("cloud_image", cloudImageBlock, d.CloudImage).repeating(),
		providerImage: newSpec("image", providerImageBlock, d.Image).repeating(),
		node:          newSpec("node", nodeBlock, d.Node).repeating(),
		poolOnly:      without(d.Pool, d.Label),
		label:         withDefaults(d.Label, d.Pool),
		wholeNode:     nodeSchema(d),
	}
}

// withDefaults sets missing defaults to those of another schema.
func withDefaults(b, other schema.Block) schema.Block {
	b.Attributes = slices.Clone(b.Attributes)
	for i := range b.Attributes {
		attr := &b.Attributes[i]
		if shared, ok := other.Lookup(attr.Name); ok && attr.Default == cty.NilVal && shared.Type.Equals(attr.Type) {
			attr.Default = shared.Default
		}
	}
	return b
}

// without removes the attributes and blocks that another schema has too.
func without(b, other schema.Block) schema.Block {
	var rest schema.Block
	for _, attr := range b.Attributes {
		if _, shared := other.Lookup(attr.Name); !shared {
			rest.Attributes = append(rest.Attributes, attr)
		}
	}
	names := map[string]bool{}
	for _, nested := range other.Blocks {
		names[nested.Name] = true
	}
	for _, nested := range b.Blocks {
		if !names[nested.Name] {
			rest.Blocks = append(rest.Blocks, nested)
		}
	}
	return rest
}
