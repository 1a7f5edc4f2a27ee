package config

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

// This file defines the schemas of settings, labels and variables. Those of images are in core_images.go, those of
// providers and their blocks in core_providers.go.

var npctlBlock = schema.Block{
	Doc: "Settings of npctl itself. All of them have defaults, so the block may be left out. There is at most one.",
	Attributes: []schema.Attribute{
		{Name: "required_version", Type: cty.String,
			Doc: "Versions of npctl that may read this configuration, such as `\">= 0.1, < 2.0\"`."},
		{Name: "images_dir", Type: cty.String, Default: cty.StringVal("images"), Check: plainFileName,
			Doc: "Directory of image files. A relative path starts at the configuration's directory."},
		{Name: "build_log_dir", Type: cty.String, Default: cty.StringVal("build-logs"), Check: plainFileName,
			Doc: "Directory of build logs, one file per build."},
		{Name: "build_log_retention", Type: cty.Number, Default: cty.NumberIntVal(7), Min: minimum(-1), Check: wholeNumber,
			Doc: "Number of old logs kept per image; `-1` keeps all."},
		{Name: "max_builds", Type: cty.Number, Default: cty.NumberIntVal(1), Min: minimum(1), Check: wholeNumber,
			Doc: "Most images that are built on this machine at a time, by builders such as `exec` and `dib`."},
		{Name: "max_fetches", Type: cty.Number, Default: cty.NumberIntVal(2), Min: minimum(1), Check: wholeNumber,
			Doc: "Most builds of `zuul_image` blocks that are downloaded at a time."},
		{Name: "max_snapshot_builds", Type: cty.Number, Default: cty.NumberIntVal(2), Min: minimum(1), Check: wholeNumber,
			Doc: "Most images that are made from machines at a time (`builder \"snapshot\"`)."},
		{Name: "max_conversions", Type: cty.Number, Default: cty.NumberIntVal(1), Min: minimum(1), Check: wholeNumber,
			Doc: "Most builds that are converted to a further format at a time."},
		{Name: "max_hold_age", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("0s"),
			Doc: "Longest time a node may be held; `\"0s\"` means for ever. A shorter time asked for with the hold wins."},
		{Name: "max_requests", Type: cty.Number, Default: cty.NumberIntVal(10000), Min: minimum(0), Check: wholeNumber,
			Doc: "Most open requests for nodes. At this number the API of `npctl watch` refuses new ones; those that Zuul writes to ZooKeeper count and are " +
				"not refused. 0 means no limit."},
		{Name: "leak_limit", Type: cty.Number, Default: cty.NumberIntVal(10), Min: minimum(0), Check: wholeNumber,
			Doc: "Most leaked things (made by this npctl and in no record) that are deleted within `leak_age`, however often npctl runs."},
		{Name: "leak_age", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("10m"),
			Doc: "Least time between the two sightings after which a leaked thing is deleted, and the time for which `leak_limit` counts."},
	},
	Blocks: []schema.NestedBlock{
		{Name: "tenant_limit", Label: "tenant", Schema: tenantLimitBlock},
		{Name: "gearman", Max: 1, Schema: gearmanBlock},
	},
}

var stateBlock = schema.Block{
	Doc: "Where records are kept. The label is the kind of store. Without the block it is `bolt`, a file beside the configuration.",
}

var tenantLimitBlock = schema.Block{
	Doc: "What one tenant may use at a time, over all providers. A request that needs more by itself fails.",
	Attributes: []schema.Attribute{
		{Name: "max_servers", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Nodes. Without it there is no limit."},
		{Name: "max_cores", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "CPU cores. Without it there is no limit."},
		{Name: "max_ram", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Memory in MiB. Without it there is no limit."},
		{Name: "max_volumes", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Volumes. Without it there is no limit."},
		{Name: "max_volume_gb", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Size of all volumes in GiB. Without it there is no limit."},
	},
}

var gearmanBlock = schema.Block{
	Doc: "Gearman job servers at which npctl meets its build hosts, which run `npctl builder`. Images with `builder \"gearman\"` are built there.",
	Attributes: []schema.Attribute{
		{Name: "servers", Type: texts, Required: true, Check: serverAddresses, Doc: "Servers as `host` or `host:port`; the port is 4730 when not written."},
	},
	Blocks: []schema.NestedBlock{{Name: "tls", Max: 1, Schema: tlsBlock}},
}

var tlsBlock = schema.Block{
	Doc: "Paths of PEM files for TLS with client certificates.",
	Attributes: []schema.Attribute{
		{Name: "ca", Type: cty.String, Required: true, Check: plainFileName, Doc: "Certificates of the authorities that are trusted."},
		{Name: "cert", Type: cty.String, Check: plainFileName, Doc: "Certificate of this client."},
		{Name: "key", Type: cty.String, Check: plainFileName, Doc: "Key of this client."},
	},
}

var labelBlock = schema.Block{
	Doc: "What a request asks for by name. Pools say how its nodes are made.",
	Attributes: []schema.Attribute{
		{Name: "min_ready", Type: cty.Number, Default: cty.NumberIntVal(0), Min: minimum(0), Check: wholeNumber,
			Doc: "Number of nodes kept ready in advance."},
		{Name: "max_ready_age", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("0s"),
			Doc: "A ready node that is older and not in use is replaced; `\"0s\"` means never."},
	},
}

var variableBlock = schema.Block{
	Doc: "A value from outside the configuration, referred to as `var.name`.",
	Attributes: []schema.Attribute{
		{Name: "type", Type: cty.DynamicPseudoType,
			Doc: "Type of the value, such as `string`, `list(string)` or `object({ size = optional(number, 2) })`. Without it, the type of a default that is a string, number or bool."},
		{Name: "default", Type: cty.DynamicPseudoType, Doc: "Value when nothing else is given. Without it the variable must be given one."},
		{Name: "description", Type: cty.String, Doc: "What the variable is for."},
		{Name: "nullable", Type: cty.Bool, Default: yes, Doc: "Whether the value may be null. If not, null means the default."},
		{Name: "sensitive", Type: cty.Bool, Default: no, Doc: "Whether the value is never shown."},
	},
}

var validationBlock = schema.Block{
	Doc: "A rule for the value of the variable. There may be several.",
	Attributes: []schema.Attribute{
		{Name: "condition", Type: cty.Bool, Required: true, Doc: "What must be true. It may refer to all variables."},
		{Name: "error_message", Type: cty.String, Required: true, Doc: "What is reported when it is not."},
	},
}
