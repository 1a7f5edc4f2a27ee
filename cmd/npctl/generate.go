package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// generate writes the blocks that imports lack, as far as the clouds know them. It never overwrites a file.
func (c *planCommand) generate(want resources.Desired, seen plan.Observed) error {
	if c.generateOut == "" {
		return nil
	}
	imports, objects := plan.MissingImports(want, seen)
	if len(imports) == 0 {
		c.ui.Message("No import lacks its block, so %s was not written.", c.generateOut)
		return nil
	}
	file, err := os.OpenFile(c.generateOut, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return hint(fmt.Errorf("option -generate-config-out: %s exists, and npctl does not overwrite it", c.generateOut), "name a new file")
	} else if err != nil {
		return fmt.Errorf("option -generate-config-out: %w", err)
	}
	_, err = file.Write(generated(want, imports, objects))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("option -generate-config-out: write %s: %w", c.generateOut, err)
	}
	c.ui.Message("Wrote %s to %s. Move each block to the place that the comment above it names, and complete it.", text.Count(len(imports), "block", "blocks"), c.generateOut)
	return nil
}

// generated returns the blocks for imports without one.
func generated(want resources.Desired, imports []resources.Import, objects []plan.ImportView) []byte {
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	comment := func(format string, args ...any) {
		body.AppendUnstructuredTokens(hclwrite.Tokens{{Type: hclsyntax.TokenComment, Bytes: fmt.Appendf(nil, "# "+format+"\n", args...)}})
	}
	written := map[string]bool{}
	for i := range imports {
		one, object := &imports[i], &objects[i]
		if written[one.Address()] { // several servers of one label
			continue
		}
		written[one.Address()] = true
		if one.Kind() == resources.KindUpload {
			comment("Image %s of %s. The builder is not known: it has to build the next image.", object.Image.Name, one.Provider)
			image := body.AppendNewBlock("diskimage", []string{one.Image}).Body()
			image.SetAttributeValue("formats", texts([]string{object.Image.Format}))
			image.AppendNewBlock("builder", []string{"exec"}).Body().SetAttributeValue("command", texts([]string{"false"}))
			body.AppendNewline()
			continue
		}
		if !slices.ContainsFunc(want.Labels, func(l resources.Label) bool { return l.Name == one.Label }) && !written["label."+one.Label] {
			written["label."+one.Label] = true
			body.AppendNewBlock("label", []string{one.Label})
			body.AppendNewline()
		}
		image := imageOf(object, imports)
		if image == "" {
			image = "cloud_image.imported"
			if id := object.BootedOf; len(id) >= 8 {
				image += "-" + id[:8]
			}
			if name := image[len("cloud_image."):]; !written[one.Provider+image] {
				written[one.Provider+image] = true
				unknown := ""
				if object.BootedOf == "" { // it boots from a volume
					unknown = ", which the cloud does not report"
				}
				comment("Into provider %q: the image of server %s%s.", one.Provider, object.Facts().Name, unknown)
				body.AppendNewBlock("cloud_image", []string{name}).Body().SetAttributeValue("image_id", cty.StringVal(object.BootedOf))
				body.AppendNewline()
			}
		}
		at := body
		p, _ := want.Provider(one.Provider)
		if slices.ContainsFunc(p.Pools, func(pool resources.Pool) bool { return pool.Name == one.Pool }) {
			comment("Into provider %q, pool %q: the settings of server %s.", one.Provider, one.Pool, object.Facts().Name)
		} else {
			comment("Into provider %q: a pool with the settings of server %s.", one.Provider, object.Facts().Name)
			at = body.AppendNewBlock("pool", []string{one.Pool}).Body()
		}
		label := at.AppendNewBlock("label", []string{one.Label}).Body()
		label.SetAttributeRaw("image", hclwrite.Tokens{{Type: hclsyntax.TokenIdent, Bytes: []byte(image)}})
		for _, name := range []string{"flavor", "key_name", "networks", "availability_zones"} {
			switch values := object.Settings[name]; {
			case len(values) == 0:
			case name == "flavor" || name == "key_name":
				label.SetAttributeValue(name, cty.StringVal(values[0]))
			default:
				label.SetAttributeValue(name, texts(values))
			}
		}
		body.AppendNewline()
	}
	return hclwrite.Format(file.Bytes())
}

// imageOf returns the reference to the image of a server, if another import names it.
func imageOf(server *plan.ImportView, imports []resources.Import) string {
	for _, one := range imports {
		if one.Kind() == resources.KindUpload && one.ID == server.BootedOf {
			return resources.ImageRef{Kind: resources.DiskImage, Name: one.Image}.String()
		}
	}
	return ""
}

func texts(values []string) cty.Value {
	all := make([]cty.Value, len(values))
	for i, v := range values {
		all[i] = cty.StringVal(v)
	}
	return cty.ListVal(all)
}
