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

// providers creates the providers of all provider blocks.
func (l *loader) providers(w *parsedConfig, vertices map[string]*vertex, ctx *hcl.EvalContext) {
	names := map[string]hcl.Range{}
	for _, one := range instancesOf(vertices) {
		at := one.block.DefRange()
		kind := one.block.Labels[0]
		s, ok := l.specs.drivers[kind]
		if !ok {
			l.incomplete["provider"] = true
			l.problem(one.block.LabelRanges[0].Ptr(), "Unknown driver", fmt.Sprintf("There is no driver %q.%s",
				kind, oneOf("drivers", kind, slices.Collect(maps.Keys(l.specs.drivers)))))
			continue
		}
		if other, twice := names[one.name]; twice {
			l.sameName(one, "provider", other)
			continue
		}
		names[one.name] = at
		w.providers = append(w.providers, l.provider(one, s, one.context(ctx)))
	}
}

func (l *loader) provider(one instance, s *driverSpecs, ctx *hcl.EvalContext) *parsedProvider {
	at := one.block.DefRange()
	c := l.decode(one.block.Body, ctx, s.provider, at)
	all := l.complete(c, nil)
	made := &parsedProvider{specs: s, at: at, cloudImages: map[string]*parsedCloudImage{}, Provider: resources.Provider{
		Name: one.name, Driver: s.kind, Config: all.of(s.Provider), Source: sourceOf(at),
		LaunchTimeout: all.duration("launch_timeout"), BootTimeout: all.duration("boot_timeout"),
		LaunchAttempts: all.integer("launch_attempts"), APITimeout: all.duration("api_timeout"),
		Rate: all.number("rate"), MaxConcurrency: all.integer("max_concurrency"), Priority: all.integer("priority"),
		ImageNames: all.text("image_name_format"), UploadTimeout: all.duration("upload_timeout"),
		MaxUploads:     all.integer("max_uploads"),
		PostUploadHook: all.text("post_upload_hook"), PreventDestroy: all.flag("prevent_destroy"),
	}}
	l.block("provider."+one.name, s.kind, at, all)
	l.checkHook(made.PostUploadHook, c.rangeOf("post_upload_hook"))
	parts := map[string][]part{}
	for _, p := range c.parts {
		parts[p.block.Type] = append(parts[p.block.Type], p)
	}
	scope := l.cloudImages(made, parts["cloud_image"], ctx)
	l.providerImages(made, parts["image"])
	l.pools(made, parts["pool"], scope, staticOf(s.Provider, all), all)
	return made
}

// checkHook checks a hook that is given as a path. A missing hook with an absolute path is only a warning, because
// plans are made on other machines too.
func (l *loader) checkHook(hook string, at *hcl.Range) {
	switch {
	case hook == "" || !strings.Contains(hook, "/"):
		return
	case strings.ContainsAny(hook, "\x00\n"):
		l.problem(at, "Invalid value", "The path of the hook contains a line break or a null byte.")
		return
	}
	report := l.problem
	if filepath.IsAbs(hook) {
		report = l.warning
	}
	info, err := os.Stat(l.absolute(hook))
	switch {
	case err != nil:
		report(at, "Hook not found", fmt.Sprintf("The hook cannot be found: %s.", err))
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		report(at, "Hook not executable", fmt.Sprintf("The hook %s is not an executable file.", l.absolute(hook)))
	}
}

// cloudImages creates the cloud images of a provider and the scope in which its pools refer to them.
func (l *loader) cloudImages(p *parsedProvider, parts []part, ctx *hcl.EvalContext) *hcl.EvalContext {
	refs := map[string]cty.Value{}
	blocks := map[string]hcl.Range{}
	for _, part := range parts {
		label := part.block.Labels[0]
		if other, twice := blocks[label]; twice {
			l.duplicate(part.block, "cloud_image", label, other)
			continue
		}
		blocks[label] = part.block.DefRange()
		refs[label] = cty.DynamicVal
		if !p.specs.HasCloudImages {
			l.noSuchBlock(p, part, "has no cloud images")
			continue
		}
		instances, ok := l.instances(part.block, 0, part.ctx, "cloud_image")
		if !ok {
			continue
		}
		for _, one := range instances {
			l.cloudImage(p, one, one.context(part.ctx))
		}
		refs[label] = refsTo("cloud_image", instances)
	}
	scope := ctx.NewChild()
	scope.Variables = map[string]cty.Value{"cloud_image": cty.ObjectVal(refs)}
	return scope
}

func (l *loader) noSuchBlock(p *parsedProvider, part part, why string) {
	l.problem(part.block.DefRange().Ptr(), "Unsupported block", fmt.Sprintf("The driver %q %s.", p.specs.kind, why))
}

func (l *loader) cloudImage(p *parsedProvider, one instance, ctx *hcl.EvalContext) {
	at := one.block.DefRange()
	if other, twice := p.cloudImages[one.name]; twice {
		l.sameName(one, "cloud_image", other.at)
		return
	}
	c := l.decode(one.block.Body, ctx, p.specs.cloudImage, at)
	all := l.complete(c, nil)
	made := resources.CloudImageSpec{
		Name: one.name, ImageID: all.text("image_id"), Image: all.text("image_name"), Filters: all.textMap("filters"),
		Login: login(all), Config: all.of(p.specs.CloudImage), Source: sourceOf(at),
	}
	l.block("provider."+p.Name+".cloud_image."+one.name, "", at, all)
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
		l.problem(c.rangeOf(written[1]), "Conflicting attributes", "Set at most one of image_id, image_name and filters.")
	}
	p.cloudImages[one.name] = &parsedCloudImage{CloudImageSpec: made, at: at}
}

// providerImages creates a provider's own settings of images. checkRules verifies that the images exist.
func (l *loader) providerImages(p *parsedProvider, parts []part) {
	seen := map[string]hcl.Range{}
	for _, part := range parts {
		if !p.specs.HasImages {
			l.noSuchBlock(p, part, "does not support uploads of images")
			continue
		}
		instances, ok := l.instances(part.block, 0, part.ctx, "image")
		if !ok {
			continue
		}
		for _, one := range instances {
			at := one.block.DefRange()
			if other, twice := seen[one.name]; twice {
				l.sameName(one, "image block", other)
				continue
			}
			seen[one.name] = at
			all := l.complete(l.decode(one.block.Body, one.context(part.ctx), p.specs.providerImage, at), nil)
			l.block("provider."+p.Name+".image."+one.name, "", at, all)
			p.images = append(p.images, &parsedProviderImage{at: at, ProviderImage: resources.ProviderImage{
				Image: resources.ImageRef{Name: one.name}, Pause: all.flag("pause"), Properties: all.textMap("properties"),
				Tags: all.texts("tags"), Login: login(all), Config: all.of(p.specs.Image), Values: plannedValues(p.specs.Image, all), Source: sourceOf(at),
			}})
		}
	}
}
