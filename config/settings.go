package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// defaultState is the store of a configuration without a state block.
const defaultState = "bolt"

// blockReader converts blocks to resources. It is the common part of the readers of settings, labels, images and
// providers.
type blockReader struct {
	*report
	specs   *specs
	bodies  *decoder
	digests *blockDigests
}

// body decodes a body that inherits nothing from other blocks.
func (r *blockReader) body(block *hclsyntax.Block, ctx *hcl.EvalContext, s *spec) (*content, values) {
	c := r.bodies.decode(block.Body, ctx, s, block.DefRange())
	return c, r.bodies.complete(c, nil)
}

// settingsReader reads the npctl block.
type settingsReader struct {
	*blockReader
	dir     configDir
	version string // of this npctl
	states  map[string]schema.Block
}

// settings returns the settings of the npctl block, or the defaults without one.
func (r *settingsReader) settings(blocks []*hclsyntax.Block, ctx *hcl.EvalContext) resources.Settings {
	for _, twice := range blocks[min(1, len(blocks)):] {
		r.problem(twice.DefRange().Ptr(), "Duplicate block", "There is an npctl block already, at "+rangeText(blocks[0].DefRange())+".")
	}
	c := &content{spec: r.specs.npctl}
	if len(blocks) > 0 {
		c = r.bodies.decode(blocks[0].Body, ctx, r.specs.npctl, blocks[0].DefRange())
	}
	all := r.bodies.complete(c, nil)
	r.incomplete["npctl"] = r.incomplete["npctl"] || !all["gearman"].IsWhollyKnown()
	r.checkVersion(all, c)
	r.digest(resources.BlockRef{Type: "npctl"}, "", c.at, body{c, all})
	settings := resources.Settings{Dir: string(r.dir), State: r.stateSettings(c.parts), Source: r.sourceOf(c.at)}
	all.decode(&settings)
	return settings
}

func (r *settingsReader) checkVersion(all values, c *content) {
	required, ok := all.usable("required_version")
	if !ok || required.AsString() == "" {
		return
	}
	constraint := required.AsString()
	at := c.rangeOf("required_version")
	wanted, err := version.NewConstraint(constraint)
	if err != nil {
		r.problem(at, "Invalid value", fmt.Sprintf("%q is not a version constraint; write it like \">= 0.1, < 2.0\".", constraint))
		return
	}
	if r.version == "" {
		return
	}
	own, err := version.NewVersion(r.version)
	if err != nil {
		return // a development build without a version number
	}
	// A pre-release of a version counts as that version.
	if !wanted.Check(own.Core()) {
		r.problem(at, "Unsupported npctl version", fmt.Sprintf("This configuration requires npctl %s, and this is npctl %s. "+
			"Install another version of npctl, or change required_version.", constraint, r.version))
	}
}

func (r *settingsReader) stateSettings(parts []part) resources.StateSettings {
	if len(parts) == 0 {
		settings := resources.StateSettings{Kind: defaultState, Config: cty.NullVal(cty.DynamicPseudoType)}
		if s, ok := r.specs.states[defaultState]; ok {
			settings.Config = r.bodies.complete(&content{spec: s}, nil).of(r.states[defaultState])
		}
		return settings
	}
	block := parts[0].block
	kind := block.Labels[0]
	s, ok := r.specs.states[kind]
	switch {
	case isPlaceholder(kind):
		return resources.StateSettings{}
	case !ok:
		r.problem(block.LabelRanges[0].Ptr(), "Unknown kind of state", fmt.Sprintf("There is no store of kind %q.%s",
			kind, oneOf("states", kind, slices.Collect(maps.Keys(r.specs.states)))))
		return resources.StateSettings{}
	}
	c, all := r.body(block, parts[0].ctx, s)
	r.digest(resources.BlockRef{Type: "npctl", Name: "state"}, kind, block.DefRange(), body{c, all})
	return resources.StateSettings{Kind: kind, Config: all.of(r.states[kind])}
}
