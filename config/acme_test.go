package config

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders/zuul"
	"github.com/npctl/npctl/resources/schema"
)

// acme is a driver with one attribute of each sort.
func acme() schema.Driver {
	shared := []schema.Attribute{
		{Name: "networks", Type: cty.List(cty.String), Class: schema.Replacing, Doc: "Networks."},
		{Name: "host_key_checking", Type: cty.Bool, Default: cty.True, Doc: "Whether host keys are scanned."},
	}
	return schema.Driver{
		Doc: "Machines of the ACME cloud.",
		Provider: schema.Block{Attributes: []schema.Attribute{
			{Name: "cloud", Type: cty.String, Required: true, Class: schema.Replacing, Doc: "Entry of clouds.yaml."},
			{Name: "region", Type: cty.String, Class: schema.Replacing, Doc: "Region."},
			{Name: "password", Type: cty.String, Sensitive: true, Doc: "Password."},
		}},
		Pool: schema.Block{Attributes: append([]schema.Attribute{
			{Name: "zones", Type: cty.List(cty.String), Class: schema.AppliedToNew, Doc: "Zones."},
		}, shared...)},
		Label: schema.Block{
			Attributes: append([]schema.Attribute{
				{Name: "flavor", Type: cty.String, Class: schema.Replacing, Doc: "Flavor."},
				{Name: "min_ram", Type: cty.Number, Class: schema.Replacing, Min: new(int64(1)), Doc: "Least memory in MiB."},
				{Name: "size", Type: cty.String, Class: schema.Replacing, OneOf: []string{"small", "medium", "large"}, Default: cty.StringVal("small"), Doc: "Size."},
				{Name: "user_data", Type: cty.String, Class: schema.Replacing, Doc: "Data for cloud-init."},
				{Name: "properties", Type: cty.Map(cty.String), Doc: "Metadata of the server."},
			}, shared...),
			Blocks: []schema.NestedBlock{{Name: "volume", Schema: schema.Block{Doc: "A volume.", Attributes: []schema.Attribute{
				{Name: "size", Type: cty.Number, Required: true, Class: schema.Replacing, Doc: "Size in GB."},
				{Name: "key", Type: cty.String, Sensitive: true, Class: schema.Replacing, Doc: "Key of encryption."},
			}}}},
		},
		CloudImage: schema.Block{Attributes: []schema.Attribute{{Name: "config_drive", Type: cty.Bool, Doc: "Config drive."}}},
		Image:      schema.Block{Attributes: []schema.Attribute{{Name: "config_drive", Type: cty.Bool, Doc: "Config drive."}}},
		HasLabels:  true, HasImages: true, HasCloudImages: true,
		Formats: []string{"qcow2", "raw"},
	}
}

// testOptions returns options that load path with the acme and static drivers, a dib builder and the builder of
// zuul_images.
func testOptions(path string) Options {
	return Options{
		Path: path, Version: "0.3.0", LookupEnv: func(string) (string, bool) { return "", false },
		Drivers: map[string]schema.Driver{"acme": acme(), "static": {
			Doc: "Machines that exist.", HasNodes: true,
			Node: schema.Block{Attributes: []schema.Attribute{
				{Name: "timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("5s"), Doc: "Time limit of the check."},
			}},
		}},
		Builders: map[string]schema.Block{"dib": {Doc: "diskimage-builder.", Attributes: []schema.Attribute{
			{Name: "elements", Type: cty.List(cty.String), Required: true, Appended: true, Class: schema.Replacing, Doc: "Elements."},
			{Name: "env", Type: cty.Map(cty.String), Class: schema.Replacing, Sensitive: true, Doc: "Environment."},
			{Name: "release", Type: cty.String, Class: schema.Replacing, Doc: "Release."},
		}}, "zuul": new(zuul.Builder).Schema()},
		States: map[string]schema.Block{
			"bolt": {Attributes: []schema.Attribute{
				{Name: "path", Type: cty.String, Default: cty.StringVal("npctl.db"), Doc: "File."},
			}},
			"zookeeper": {Attributes: []schema.Attribute{{Name: "hosts", Type: cty.List(cty.String), Required: true, Doc: "Servers."}}},
		},
	}
}
