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
	r.checkVersion(all.text("required_version"), c)
	r.digests.add("npctl", "", c.at, all)
	return resources.Settings{
		Dir:          string(r.dir),
		ImagesDir:    all.text("images_dir"),
		BuildLogDir:  all.text("build_log_dir"),
		BuildLogKeep: int(all.integer("build_log_retention")),
		State:        r.stateSettings(c.parts),
		MaxHoldAge:   all.duration("max_hold_age"),
		ImageWork: resources.ImageWork{Builds: all.integer("max_builds"), Fetches: all.integer("max_fetches"),
			Snapshots: all.integer("max_snapshot_builds"), Conversions: all.integer("max_conversions")},
		TenantLimits:  tenantLimits(all),
		Gearman:       gearman(all),
		MaxRequests:   int(all.integer("max_requests")),
		LeakLimit:     int(all.integer("leak_limit")),
		LeakSightings: all.duration("leak_age"),
		Source:        sourceOf(c.at),
	}
}

func (r *settingsReader) checkVersion(constraint string, c *content) {
	if constraint == "" {
		return
	}
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
	_, all := r.body(block, parts[0].ctx, s)
	r.digests.add("npctl.state", kind, block.DefRange(), all)
	return resources.StateSettings{Kind: kind, Config: all.of(r.states[kind])}
}

func tenantLimits(all values) []resources.TenantLimit {
	limits, ok := all.usable("tenant_limit")
	if !ok {
		return nil
	}
	var list []resources.TenantLimit
	for tenant, object := range limits.AsValueMap() {
		v := values(object.AsValueMap())
		list = append(list, resources.TenantLimit{
			Tenant: tenant, MaxServers: v.limit("max_servers"), MaxCores: v.limit("max_cores"), MaxRAM: v.limit("max_ram"),
			MaxVolumes: v.limit("max_volumes"), MaxVolumeGB: v.limit("max_volume_gb"),
		})
	}
	sortBy(list, func(t resources.TenantLimit) string { return t.Tenant })
	return list
}

func gearman(all values) *resources.Gearman {
	object, ok := all.usable("gearman")
	if !ok {
		return nil
	}
	v := values(object.AsValueMap())
	made := &resources.Gearman{Servers: v.texts("servers")}
	if object, ok := v.usable("tls"); ok {
		tls := values(object.AsValueMap())
		made.TLS = &resources.TLS{CA: tls.text("ca"), Cert: tls.text("cert"), Key: tls.text("key")}
	}
	return made
}
