package config

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

var providerBlock = schema.Block{
	Doc: "A cloud project, or a set of static machines. The labels are the driver and the name.",
	Attributes: []schema.Attribute{
		{Name: "launch_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("1h"),
			Doc: "Time limit of one attempt to launch a node."},
		{Name: "boot_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("5m"),
			Doc: "Time in which an active machine must become reachable."},
		{Name: "launch_attempts", Type: cty.Number, Default: cty.NumberIntVal(3), Min: minimum(1), Check: schema.CheckWhole,
			Doc: "Attempts to launch a node, including the first one. An attempt does not count if the cloud does not respond: npctl postpones the launch until it responds."},
		{Name: "api_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("60s"), Doc: "Time limit of one API call."},
		{Name: "rate", Type: cty.Number, Default: cty.NumberIntVal(10), Min: minimum(0), Doc: "API calls per second; `0` means no limit."},
		{Name: "max_concurrency", Type: cty.Number, Min: minimum(1), Check: schema.CheckWhole,
			Doc: "Steps of a plan in progress at a time, including nodes that boot. By default at most 20 steps send API calls at a time, and the number of steps that wait for the cloud has no limit."},
		{Name: "priority", Type: cty.Number, Default: cty.NumberIntVal(100), Min: minimum(0), Check: schema.CheckWhole,
			Doc: "Priority of pools that do not set their own. The lower number goes first."},
		{Name: "image_name_format", Type: cty.String, Default: cty.StringVal("{image_name}-{timestamp}"), Check: imageNameFormat,
			Doc: "Name of uploads, with the placeholders `{image_name}`, `{upload_id}` and `{timestamp}` (seconds since 1970)."},
		{Name: "upload_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("1h"), Doc: "Time limit of one upload."},
		{Name: "max_uploads", Type: cty.Number, Default: cty.NumberIntVal(2), Min: minimum(1), Check: schema.CheckWhole,
			Doc: "Maximum number of uploads at a time."},
		{Name: "post_upload_hook", Type: cty.String, Check: schema.CheckNotEmpty,
			Doc: "Program that npctl runs after each upload as `hook provider external-id file`. If its exit status is not 0, the upload has failed. A path with a slash is relative to the configuration's directory. The time limit is 30 minutes. Its environment has `NPCTL_PROVIDER`, `NPCTL_IMAGE_NAME`, `NPCTL_BUILD_ID`, `NPCTL_EXTERNAL_ID`, `NPCTL_CLOUD_IMAGE_NAME` and `NPCTL_FORMAT`."},
		{Name: "prevent_destroy", Type: cty.Bool, Default: no,
			Doc: "Whether npctl rejects a plan that would remove the provider with all its objects. This also applies after the block is removed."},
	},
}

var poolBlock = schema.Block{
	Doc: "A part of a provider with limits of its own.",
	Attributes: []schema.Attribute{
		{Name: "max_servers", Type: cty.Number, Min: minimum(0), Check: schema.CheckWhole, Doc: "Maximum number of nodes; `0` disables the pool. The default is no limit."},
		{Name: "max_cores", Type: cty.Number, Min: minimum(0), Check: schema.CheckWhole, Doc: "Maximum number of CPU cores. The default is no limit."},
		{Name: "max_ram", Type: cty.Number, Min: minimum(0), Check: schema.CheckWhole, Doc: "Maximum memory in MiB. The default is no limit."},
		{Name: "max_volumes", Type: cty.Number, Min: minimum(0), Check: schema.CheckWhole, Doc: "Maximum number of volumes. The default is no limit."},
		{Name: "max_volume_gb", Type: cty.Number, Min: minimum(0), Check: schema.CheckWhole, Doc: "Maximum size of all volumes in GB. The default is no limit."},
		{Name: "ignore_provider_quota", Type: cty.Bool, Default: no, Doc: "Whether npctl ignores the project's quota and uses only the limits of the pool."},
		{Name: "priority", Type: cty.Number, Min: minimum(0), Check: schema.CheckWhole, Doc: "Pools with a lower number go first, for `min_ready` and for requests. The default is the provider's priority."},
		{Name: "node_attributes", Type: textMap, Default: noTextsM, Doc: "Attributes that jobs see on nodes of this pool."},
	},
}

var offerBlock = schema.Block{
	Doc: "An offer: how the pool creates nodes of a label. The block's label is the name of a `label` block. An attribute that the block does not set has the value of the pool's attribute of the same name.",
	Attributes: []schema.Attribute{
		{Name: "image", Type: schema.ImageRef, Required: true, Class: schema.Replacing,
			Doc: "Image from which nodes boot: `diskimage.name`, `zuul_image.name`, or `cloud_image.name` of the same provider."},
	},
}

var cloudImageBlock = schema.Block{
	Doc: "An image that exists in the cloud. npctl finds it by `image_id`, `image_name` or `filters`, or by default by the block's label as the image name.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "image_id", Type: cty.String, Class: schema.AppliedToNew, Check: schema.CheckNotEmpty, Doc: "ID of the image in the cloud."},
		{Name: "image_name", Type: cty.String, Class: schema.AppliedToNew, Check: schema.CheckNotEmpty, Doc: "Exact name of the image in the cloud."},
		{Name: "filters", Type: textMap, Class: schema.AppliedToNew, Check: schema.CheckNotEmpty,
			Doc: "Attributes of the image, such as `{ name = \"ubuntu-noble-*\" }`. If several images match, npctl uses the newest."},
	}, loginAttributes(schema.AppliedToNew, cty.NilVal, cty.StringVal("auto"), cty.StringVal("ssh"))),
}

var providerImageBlock = schema.Block{
	Doc: "Settings of this provider for an uploaded image. The block's label is the name of a `diskimage` or `zuul_image`. By default, the settings of the image apply.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "pause", Type: cty.Bool, Default: no, Doc: "Whether uploads to this provider are paused."},
		{Name: "properties", Type: textMap, Default: noTextsM, Class: schema.AppliedToNew, Doc: "Properties of uploads. They override the properties of the image."},
		{Name: "tags", Type: texts, Default: noTexts, Class: schema.AppliedToNew, Doc: "Tags of uploads, in addition to the tags of the image."},
	}, loginAttributes(schema.AppliedToNew, cty.NilVal, cty.NilVal, cty.NilVal)),
}

var nodeBlock = schema.Block{
	Doc: "A static machine. The label is its host name or address.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "labels", Type: texts, Required: true, Class: schema.Replacing, Check: schema.CheckNotEmpty, Doc: "Labels that the machine serves."},
		{Name: "address", Type: cty.String, Class: schema.Replacing, Check: schema.CheckNotEmpty, Doc: "Host name or address to connect to. The default is the block's label."},
		{Name: "host_keys", Type: texts, Default: noTexts, Class: schema.Replacing, Check: hostKeys,
			Doc: "SSH host keys of the machine, each in the form `type base64`. npctl rejects a machine with other keys. By default, npctl accepts the keys that the machine presents."},
		{Name: "slots", Type: cty.Number, Default: cty.NumberIntVal(1), Min: minimum(1), Check: schema.CheckWhole, Doc: "Maximum number of jobs on the machine at a time."},
	}, loginAttributes(schema.Replacing, cty.StringVal("zuul"), cty.StringVal("auto"), cty.StringVal("ssh"))),
}
