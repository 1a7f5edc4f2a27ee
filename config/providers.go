package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

// providerReader reads the provider blocks of one module with the blocks in them.
type providerReader struct {
	*blockReader
	expand *expander
	dir    configDir
	moves  resources.Moves
}

// providers creates the providers of all provider blocks. names are the providers so far.
func (r *providerReader) providers(vertices map[string]*vertex, ctx *hcl.EvalContext, names map[string]*parsedProvider) (all []*parsedProvider) {
	for _, one := range instancesOf(vertices) {
		kind := one.block.Labels[0]
		s, ok := r.specs.drivers[kind]
		if !ok {
			r.incomplete["provider"] = true
			r.problem(one.block.LabelRanges[0].Ptr(), "Unknown driver", fmt.Sprintf("There is no driver %q.%s",
				kind, oneOf("drivers", kind, slices.Collect(maps.Keys(r.specs.drivers)))))
			continue
		}
		if other, twice := names[one.name]; twice {
			r.sameName(one, "provider", other.Source)
			continue
		}
		names[one.name] = r.provider(one, s, one.context(ctx))
		all = append(all, names[one.name])
	}
	return all
}

func (r *providerReader) provider(one instance, s *driverSpecs, ctx *hcl.EvalContext) *parsedProvider {
	at := one.block.DefRange()
	c, all := r.body(one.block, ctx, s.provider)
	made := &parsedProvider{specs: s, in: r.report, at: at, cloudImages: map[string]*parsedCloudImage{}, Provider: resources.Provider{
		Name: one.name, Driver: s.kind, Config: all.of(s.Provider), Source: r.sourceOf(at),
	}}
	all.decode(&made.Provider)
	r.digest(resources.BlockRef{Type: "provider", Name: one.name}, s.kind, at, body{c, all})
	r.checkHook(made.PostUploadHook, c.rangeOf("post_upload_hook"))
	r.checkNodeHook(made.NodeLaunchedHook, c.rangeOf("node_launched_hook"))
	r.checkNodeHook(made.NodeReadyHook, c.rangeOf("node_ready_hook"))
	r.checkNodeHook(made.NodeDeletedHook, c.rangeOf("node_deleted_hook"))
	parts := map[string][]part{}
	for _, p := range c.parts {
		parts[p.block.Type] = append(parts[p.block.Type], p)
	}
	scope := r.cloudImages(made, parts["cloud_image"], ctx)
	r.providerImages(made, parts["image"])
	r.pools(made, parts["pool"], scope, staticOf(s.Provider, all), all)
	return made
}

// checkNodeHook checks a program with its arguments.
func (r *providerReader) checkNodeHook(args []string, at *hcl.Range) {
	switch {
	case len(args) == 0:
	case args[0] == "" || strings.Contains(strings.Join(args, ""), "\x00"):
		r.problem(at, "Invalid value", "The hook names no program, or contains a null byte: write a list such as [\"./hook.sh\", \"argument\"].")
	default:
		r.checkHook(args[0], at)
	}
}

// checkHook checks a hook that is given as a path. A missing hook with an absolute path is only a warning, because
// plans are made on other machines too.
func (r *providerReader) checkHook(hook string, at *hcl.Range) {
	switch {
	case hook == "" || !strings.Contains(hook, "/"):
		return
	case strings.ContainsAny(hook, "\x00\n"):
		r.problem(at, "Invalid value", "The path of the hook contains a line break or a null byte.")
		return
	}
	report := r.problem
	if filepath.IsAbs(hook) {
		report = r.warning
	}
	info, err := os.Stat(r.dir.absolute(hook))
	switch {
	case err != nil:
		report(at, "Hook not found", fmt.Sprintf("The hook cannot be found: %s.", err))
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		report(at, "Hook not executable", fmt.Sprintf("The hook %s is not an executable file.", r.dir.absolute(hook)))
	}
}

// cloudImages creates the cloud images of a provider and the scope in which its pools refer to them.
func (r *providerReader) cloudImages(p *parsedProvider, parts []part, ctx *hcl.EvalContext) *hcl.EvalContext {
	refs := map[string]cty.Value{}
	blocks := map[string]hcl.Range{}
	for _, part := range parts {
		label := part.block.Labels[0]
		if other, twice := blocks[label]; twice {
			r.duplicate(part.block, "cloud_image", label, other)
			continue
		}
		blocks[label] = part.block.DefRange()
		refs[label] = cty.DynamicVal
		if !p.specs.HasCloudImages {
			r.noSuchBlock(p, part, "has no cloud images")
			continue
		}
		instances, ok := r.expand.instances(part.block, 0, part.ctx, "cloud_image")
		if !ok {
			continue
		}
		for _, one := range instances {
			r.cloudImage(p, one, one.context(part.ctx))
		}
		refs[label] = refsTo("cloud_image", instances)
	}
	scope := ctx.NewChild()
	scope.Variables = map[string]cty.Value{"cloud_image": cty.ObjectVal(refs)}
	return scope
}

func (r *providerReader) noSuchBlock(p *parsedProvider, part part, why string) {
	r.problem(part.block.DefRange().Ptr(), "Unsupported block", fmt.Sprintf("The driver %q %s.", p.specs.kind, why))
}

func (r *providerReader) cloudImage(p *parsedProvider, one instance, ctx *hcl.EvalContext) {
	at := one.block.DefRange()
	if other, twice := p.cloudImages[one.name]; twice {
		r.sameName(one, "cloud_image", other.Source)
		return
	}
	c, all := r.body(one.block, ctx, p.specs.cloudImage)
	made := resources.CloudImageSpec{Name: one.name, Config: all.of(p.specs.CloudImage), Source: r.sourceOf(at)}
	all.decode(&made)
	made.Login.ConnectionPort = portOf(made.Login)
	r.digest(resources.BlockRef{Type: "cloud_image", Provider: p.Name, Name: one.name}, "", at, body{c, all})
	var written []string
	for _, name := range []string{"image_id", "image_name", "filters"} {
		if s, ok := c.attrs[name]; ok && s.value.IsKnown() { // an unknown value may be null
			written = append(written, name)
		}
	}
	switch len(written) {
	case 0:
		made.Image = one.name
	case 1:
	default:
		r.problem(c.rangeOf(written[1]), "Conflicting attributes", "Set at most one of image_id, image_name and filters.")
	}
	p.cloudImages[one.name] = &parsedCloudImage{CloudImageSpec: made, at: at}
}

// providerImages creates a provider's own settings of images. checkRules verifies that the images exist.
func (r *providerReader) providerImages(p *parsedProvider, parts []part) {
	seen := map[string]resources.Source{}
	for _, part := range parts {
		if !p.specs.HasImages {
			r.noSuchBlock(p, part, "does not support uploads of images")
			continue
		}
		instances, ok := r.expand.instances(part.block, 0, part.ctx, "image")
		if !ok {
			continue
		}
		for _, one := range instances {
			at := one.block.DefRange()
			if other, twice := seen[one.name]; twice {
				r.sameName(one, "image block", other)
				continue
			}
			seen[one.name] = r.sourceOf(at)
			c, all := r.body(one.block, one.context(part.ctx), p.specs.providerImage)
			r.digest(resources.BlockRef{Type: "image", Provider: p.Name, Name: one.name}, "", at, body{c, all})
			made := &parsedProviderImage{at: at, ProviderImage: resources.ProviderImage{Image: resources.ImageRef{Name: one.name},
				Config: all.of(p.specs.Image), Values: plannedValues(p.specs.Image, all), Source: r.sourceOf(at)}}
			if made.Config.IsWhollyKnown() {
				static := staticOf(p.specs.Image, all)
				made.Hashed, made.Static = resources.SourceOfHash(static), map[string]string{}
				made.Hashes = made.Hashed.Hashes("")
				for name, value := range static.AsValueMap() {
					made.Static[name] = showValue(value, false)
				}
			}
			all.decode(&made.ProviderImage)
			made.Login.ConnectionPort = portOf(made.Login)
			p.images = append(p.images, made)
		}
	}
}
