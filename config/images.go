package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// draft is a decoded image block before inheritance.
type draft struct {
	instance
	reader  *imageReader // of its module
	kind    resources.ImageKind
	at      hcl.Range
	content *content
	builder *builderDraft // nil if the block has none
	parent  string        // name of a diskimage, or ""
	state   vertexState
	orphan  bool // the parent is unknown or is no diskimage; the error is already reported
}

type builderDraft struct {
	kind    string
	content *content
}

// imageReader reads the diskimage and zuul_image blocks of one module.
type imageReader struct {
	*blockReader
	builders map[string]schema.Block
	formats  []string // known image formats
}

// drafts decodes all diskimage and zuul_image blocks. They share one namespace, also with those of other modules.
func (r *imageReader) drafts(vertices map[string]map[string]*vertex, ctx *hcl.EvalContext, drafts map[string]*draft) {
	for _, kind := range []resources.ImageKind{resources.DiskImage, resources.ZuulImage} {
		for _, one := range instancesOf(vertices[string(kind)]) {
			d := r.draftImage(one, kind, one.context(ctx))
			if other, twice := drafts[one.name]; twice {
				r.sameName(one, "image", other.reader.sourceOf(other.at))
				continue
			}
			drafts[one.name] = d
		}
	}
}

// imagesOf creates the images of all drafts.
func imagesOf(drafts map[string]*draft) map[string]*parsedImage {
	for _, name := range slices.Sorted(maps.Keys(drafts)) {
		inherit(drafts, drafts[name])
	}
	images := map[string]*parsedImage{}
	for _, name := range slices.Sorted(maps.Keys(drafts)) {
		images[name] = drafts[name].reader.image(drafts[name])
	}
	return images
}

func (r *imageReader) draftImage(one instance, kind resources.ImageKind, ctx *hcl.EvalContext) *draft {
	d := &draft{instance: one, reader: r, kind: kind, at: one.block.DefRange()}
	s := r.specs.diskimage
	if kind == resources.ZuulImage {
		s = r.specs.zuulImage
	}
	d.content = r.bodies.decode(one.block.Body, ctx, s, d.at)
	for _, p := range d.content.parts {
		if !isPlaceholder(p.block.Labels[0]) {
			d.builder = r.draftBuilder(p)
		}
	}
	parent, ok := d.content.attrs["parent"]
	d.orphan = ok && !parent.value.IsWhollyKnown()
	if ok && !d.orphan {
		ref := refOf(parent.value)
		if d.orphan = ref.Kind != resources.DiskImage; d.orphan {
			r.problem(parent.expr.Ptr(), "Invalid parent", fmt.Sprintf("The parent of a diskimage is another diskimage, not %s.", ref))
		} else {
			d.parent = ref.Name
		}
	}
	d.orphan = d.orphan || d.content.open["builder"]
	return d
}

func (r *imageReader) draftBuilder(p part) *builderDraft {
	kind := p.block.Labels[0]
	d := &builderDraft{kind: kind}
	s, ok := r.specs.builders[kind]
	switch {
	case kind == zuulBuilder:
		r.problem(p.block.LabelRanges[0].Ptr(), "Unknown kind of builder", "Images that Zuul builds are zuul_image blocks.")
	case !ok:
		r.problem(p.block.LabelRanges[0].Ptr(), "Unknown kind of builder", fmt.Sprintf("There is no builder of kind %q.%s",
			kind, oneOf("builders", kind, slices.Collect(maps.Keys(r.specs.builders)))))
	default:
		d.content = r.bodies.decode(p.block.Body, p.ctx, s, p.block.DefRange())
	}
	return d
}

// refOf converts a known reference. Null is the zero value: an offer without an image.
func refOf(value cty.Value) resources.ImageRef {
	value, _ = value.UnmarkDeep()
	ref := resources.ImageRef{}
	if value.IsNull() {
		return ref
	}
	if kind := value.GetAttr("type"); !kind.IsNull() {
		ref.Kind = resources.ImageKind(kind.AsString())
	}
	if name := value.GetAttr("name"); !name.IsNull() {
		ref.Name = name.AsString()
	}
	return ref
}

// image creates the image of a draft after inheritance. Of an abstract one only the name is used.
func (r *imageReader) image(d *draft) *parsedImage {
	made := &parsedImage{in: r.report, at: d.at, Image: resources.Image{Name: d.name, Kind: d.kind, Source: r.sourceOf(d.at)}}
	if abstract, ok := d.content.attrs["abstract"]; ok {
		switch {
		case !abstract.value.IsKnown():
			return made
		case abstract.value.True():
			made.abstract = true
			return made
		}
	}
	all := r.bodies.complete(d.content, nil)
	r.checkFormats(d, all)
	all.decode(&made.Image)
	made.Formats, made.KeepFormats = resources.ImageFormats(made.Formats), resources.ImageFormats(made.KeepFormats)
	made.Login.ConnectionPort = portOf(made.Login)
	bodies := []body{{d.content, all}}
	if d.kind == resources.ZuulImage {
		r.fillZuulImage(made, d, all)
	} else {
		bodies = append(bodies, r.fillDiskimage(made, d))
	}
	r.digest(resources.BlockRef{Type: string(made.Kind), Name: made.Name}, made.Builder, d.at, bodies...)
	return made
}

// fillDiskimage returns the body of the builder block, the zero value after an error.
func (r *imageReader) fillDiskimage(made *parsedImage, d *draft) body {
	if d.builder == nil && d.orphan {
		return body{}
	}
	if d.builder == nil {
		r.problem(d.at.Ptr(), "Missing block", fmt.Sprintf("The diskimage %q needs a builder block, of its own or of a parent.", d.name))
		return body{}
	}
	if d.builder.content == nil {
		return body{} // an unknown kind, already reported
	}
	b := r.builders[d.builder.kind]
	all := r.bodies.complete(d.builder.content, nil)
	r.fillBuilder(made, d.builder.kind, b, all)
	return body{d.builder.content, all}
}

func (r *imageReader) fillZuulImage(made *parsedImage, d *draft, all values) {
	written := []string{}
	for _, name := range []string{"token", "token_file", "token_command"} {
		if s, ok := d.content.attrs[name]; ok && s.value.IsKnown() { // an unknown value may be null
			written = append(written, name)
		}
	}
	if len(written) > 1 {
		r.problem(d.content.rangeOf(written[1]), "Conflicting attributes", "Set at most one of token, token_file and token_command.")
	}
	r.fillBuilder(made, zuulBuilder, r.builders[zuulBuilder], all)
}

func (r *imageReader) fillBuilder(made *parsedImage, kind string, b schema.Block, all values) {
	made.Builder = kind
	made.Config = all.of(b)
	if !made.Config.IsWhollyKnown() {
		return
	}
	made.Hashed = resources.SourceOfHash(cty.ObjectVal(map[string]cty.Value{
		"builder": cty.StringVal(kind), "config": staticOf(b, all),
	}))
	made.Hashes = made.Hashed.Hashes("")
	made.Static = map[string]string{"builder": showValue(cty.StringVal(kind), false)}
	showStatic(made.Static, "", b, all)
}

// portOf returns the port of a login, by default that of its connection type, or 0 if it uses none.
func portOf(login resources.Login) int64 {
	switch {
	case login.ConnectionPort != 0:
		return login.ConnectionPort
	case login.ConnectionType == "":
		return 0
	case login.ConnectionType == "winrm", login.ConnectionType == "psrp":
		return 5986
	default:
		return 22
	}
}

// knownFormats are the image formats that npctl knows. Drivers add their own.
var knownFormats = []string{"raw", "qcow2", "vhd", "vhdx", "vmdk", "ova", "tar", "tgz", "squashfs", "docker"}

// allFormats returns the image formats that npctl or a driver knows.
func allFormats(drivers map[string]schema.Driver) []string {
	known := slices.Clone(knownFormats)
	for _, driver := range drivers {
		known = append(known, driver.Formats...)
	}
	return known
}

// stringsOf returns a list of strings, nil if it is null or unknown.
func stringsOf(all values, name string) []string {
	var list []string
	if value, ok := all.usable(name); ok {
		for _, element := range value.AsValueSlice() {
			list = append(list, element.AsString())
		}
	}
	return list
}

func (r *imageReader) checkFormats(d *draft, all values) {
	for _, name := range []string{"formats", "keep_formats"} {
		for _, format := range stringsOf(all, name) {
			if !slices.Contains(r.formats, resources.ImageFormat(format)) {
				r.unknownFormat(d.content.rangeOf(name), format)
			}
		}
	}
	for _, artifact := range d.content.blocks["artifact"] {
		if d.kind == resources.ZuulImage && !isPlaceholder(artifact.label) && !slices.Contains(r.formats, resources.ImageFormat(artifact.label)) {
			r.unknownFormat(artifact.at.Ptr(), artifact.label)
		}
	}
}

func (r *imageReader) unknownFormat(at *hcl.Range, format string) {
	r.problem(at, "Unknown format", fmt.Sprintf("There is no image format %q.%s", format, oneOf("formats", format, r.formats)))
}
