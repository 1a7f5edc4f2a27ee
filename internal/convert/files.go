package convert

import (
	"fmt"
	"io/fs"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// files distributes the blocks over files and formats them.
func (o *output) files(split bool) ([]File, error) {
	type part struct {
		name   string
		blocks []*block
		head   []string
	}
	foot := &block{comment: o.foot}
	parts := []part{{"npctl.hcl", append(append(append(append([]*block{}, o.settings...), o.labels...), o.images...), o.providers...), o.head}}
	if len(o.foot) > 0 {
		parts[0].blocks = append(parts[0].blocks, foot)
	}
	if split {
		parts = []part{{"npctl.hcl", append([]*block{}, o.settings...), o.head}, {"labels.hcl", o.labels, nil}, {"images.hcl", o.images, nil}}
		for _, p := range o.providers {
			name := "providers"
			if len(p.labels) > 1 {
				name = p.labels[1]
			}
			parts = append(parts, part{"provider-" + name + ".hcl", []*block{p}, nil})
		}
		if len(o.foot) > 0 {
			parts[0].blocks = append(parts[0].blocks, foot)
		}
		for i := 0; i < len(parts); i++ { // providers that are comments share a file
			for k := len(parts) - 1; k > i; k-- {
				if parts[k].name == parts[i].name {
					parts[i].blocks = append(parts[i].blocks, parts[k].blocks...)
					parts = append(parts[:k], parts[k+1:]...)
				}
			}
		}
	}
	parts = append(parts, part{SecretsFile, o.secrets, nil})
	var files []File
	for i, p := range parts {
		if len(p.blocks)+len(p.head) == 0 && i > 0 {
			continue
		}
		mode := fs.FileMode(0o644)
		if p.name == SecretsFile {
			mode = 0o600
		}
		data, places, err := render(p.name, p.head, p.blocks)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: p.name, Data: data, Mode: mode, Places: places})
	}
	return files, nil
}

func render(name string, head []string, blocks []*block) ([]byte, []Place, error) {
	all := newBlock("")
	all.remark(head...)
	all.add(blocks...)
	var w hclText
	all.write(&w)
	data := hclwrite.Format([]byte(w.String()))
	if _, diags := hclsyntax.ParseConfig(data, name, hcl.InitialPos); diags.HasErrors() {
		return nil, nil, fmt.Errorf("the translation of the configuration is not valid HCL, which is a bug in npctl convert: %s in line %d", diags[0].Summary, diags[0].Subject.Start.Line)
	}
	return data, w.places(), nil
}
