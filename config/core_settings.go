package config

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// This file defines the schemas of settings, labels and variables. Those of images are in core_images.go, those of
// providers and their blocks in core_providers.go.

var npctlBlock = schema.Block{
	Doc: "Settings of npctl itself. The block is optional; all settings have defaults. There is at most one.",
	Attributes: []schema.Attribute{
		{Name: "required_version", Type: cty.String,
			Doc: "Versions of npctl that accept this configuration, such as `\">= 0.1, < 2.0\"`."},
		{Name: "images_dir", Type: cty.String, Default: cty.StringVal("images"), Check: schema.CheckPath,
			Doc: "Directory of image files. A relative path is relative to the configuration's directory."},
		{Name: "build_log_dir", Type: cty.String, Default: cty.StringVal("build-logs"), Check: schema.CheckPath,
			Doc: "Directory of build logs, with one file for each build."},
		{Name: "build_log_retention", Type: cty.Number, Default: cty.NumberIntVal(7), Min: minimum(-1), Check: schema.CheckWhole,
			Doc: "Number of old logs to keep for each image; `-1` keeps all."},
		{Name: "max_builds", Type: cty.Number, Default: cty.NumberIntVal(1), Min: minimum(1), Check: schema.CheckWhole,
			Doc: "Maximum number of builds on this machine at a time, by builders such as `exec` and `dib`."},
		{Name: "max_fetches", Type: cty.Number, Default: cty.NumberIntVal(2), Min: minimum(1), Check: schema.CheckWhole,
			Doc: "Maximum number of downloads of `zuul_image` builds at a time."},
		{Name: "max_snapshot_builds", Type: cty.Number, Default: cty.NumberIntVal(2), Min: minimum(1), Check: schema.CheckWhole,
			Doc: "Maximum number of snapshot builds at a time (`builder \"snapshot\"`)."},
		{Name: "max_conversions", Type: cty.Number, Default: cty.NumberIntVal(1), Min: minimum(1), Check: schema.CheckWhole,
			Doc: "Maximum number of conversions of builds to another format at a time."},
		{Name: "max_hold_age", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("0s"),
			Doc: "Maximum age of a hold; `\"0s\"` means no limit. A hold with a shorter time of its own ends earlier."},
		{Name: "max_requests", Type: cty.Number, Default: cty.NumberIntVal(10000), Min: minimum(0), Check: schema.CheckWhole,
			Doc: "Maximum number of open requests; `0` means no limit. At this number the API of `npctl watch` rejects new requests. Requests in ZooKeeper " +
				"count, and npctl does not reject them."},
		{Name: "leak_limit", Type: cty.Number, Default: cty.NumberIntVal(10), Min: minimum(0), Check: schema.CheckWhole,
			Doc: "Maximum number of leaks (objects with the ownership tags of this npctl and without a record) that npctl deletes within `leak_age`, in all runs together."},
		{Name: "leak_age", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("10m"),
			Doc: "Minimum time between the two sightings of a leak before npctl deletes it, and the period to which `leak_limit` applies."},
	},
	Blocks: []schema.NestedBlock{
		{Name: "tenant_limit", Label: "tenant", Schema: tenantLimitBlock},
		{Name: "gearman", Max: 1, Schema: gearmanBlock},
	},
}

var stateBlock = schema.Block{
	Doc: "The store of the records. The label is the kind of store. The default is `bolt`, a file in the directory of the configuration.",
}

var tenantLimitBlock = schema.Of[resources.TenantLimit]("The upper limit of what one tenant uses at a time, over all providers. A request that exceeds the limit alone fails.", nil)

var gearmanBlock = schema.Of[resources.Gearman]("Gearman job servers that connect npctl to its build hosts, which run `npctl builder` and build the images with `builder \"gearman\"`.", map[string]schema.Check{"servers": serverAddresses})

var labelBlock = schema.Of[resources.Label]("The name by which a request asks for a node. Offers of pools define how npctl creates its nodes.", nil)

var variableBlock = schema.Block{
	Doc: "A value from outside the configuration. References to it have the form `var.name`.",
	Attributes: []schema.Attribute{
		{Name: "type", Type: cty.DynamicPseudoType,
			Doc: "Type of the value, such as `string`, `list(string)` or `object({ size = optional(number, 2) })`. The default is the type of `default` if that is a string, number or bool, and else any type."},
		{Name: "default", Type: cty.DynamicPseudoType, Doc: "Value if no other source sets one. A variable without a default needs a value from another source."},
		{Name: "description", Type: cty.String, Doc: "Purpose of the variable."},
		{Name: "nullable", Type: cty.Bool, Default: yes, Doc: "Whether the value may be null. If not, null stands for the default."},
		{Name: "sensitive", Type: cty.Bool, Default: no, Doc: "Whether npctl never prints the value."},
	},
}

var validationBlock = schema.Block{
	Doc: "A rule for the value of the variable. There may be several.",
	Attributes: []schema.Attribute{
		{Name: "condition", Type: cty.Bool, Required: true, Doc: "Condition for a valid value. It may refer to all variables."},
		{Name: "error_message", Type: cty.String, Required: true, Doc: "Error message if the condition is false."},
	},
}

var outputBlock = schema.Block{
	Doc: "A value for other programs, which `npctl output` prints.",
	Attributes: []schema.Attribute{
		{Name: "value", Type: cty.DynamicPseudoType, Required: true, Doc: "Value of any type. It may refer to everything that a block may refer to."},
		{Name: "description", Type: cty.String, Doc: "Purpose of the output."},
		{Name: "sensitive", Type: cty.Bool, Default: no, Doc: "Whether npctl masks the value. Only `npctl output -raw NAME` prints it."},
	},
}

var checkBlock = schema.Block{
	Doc: "Statements about the configuration. A statement that is false is a warning of `validate`, `plan` and `apply`, and an error of `npctl validate -strict`.",
}

var assertBlock = schema.Block{
	Doc: "A statement about the configuration. There is at least one.",
	Attributes: []schema.Attribute{
		{Name: "condition", Type: cty.Bool, Required: true, Doc: "The statement. It may refer to everything that a block may refer to, and to outputs."},
		{Name: "error_message", Type: cty.String, Required: true, Doc: "Message if the condition is false."},
	},
}
