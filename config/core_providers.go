package config

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

var providerBlock = schema.Block{
	Doc: "A cloud project, or a set of machines that exist. The labels are the driver and the name.",
	Attributes: []schema.Attribute{
		{Name: "launch_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("1h"),
			Doc: "Time limit of one attempt to launch a node."},
		{Name: "boot_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("5m"),
			Doc: "Time in which an active machine must become reachable."},
		{Name: "launch_attempts", Type: cty.Number, Default: cty.NumberIntVal(3), Min: minimum(1), Check: wholeNumber,
			Doc: "Attempts to launch a node, the first one included. What the cloud does not answer is none: the launch is put off until it does."},
		{Name: "api_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("60s"), Doc: "Time limit of one API call."},
		{Name: "rate", Type: cty.Number, Default: cty.NumberIntVal(10), Min: minimum(0), Doc: "API calls a second; `0` means no limit."},
		{Name: "max_concurrency", Type: cty.Number, Min: minimum(1), Check: wholeNumber,
			Doc: "Steps of a plan that are under way here at a time, nodes that start included. Without it only those that ask for something count, 20 at a time, and any number may wait for an answer."},
		{Name: "priority", Type: cty.Number, Default: cty.NumberIntVal(100), Min: minimum(0), Check: wholeNumber,
			Doc: "Priority of the pools that have none of their own. A lower number goes first."},
		{Name: "image_name_format", Type: cty.String, Default: cty.StringVal("{image_name}-{timestamp}"), Check: imageNameFormat,
			Doc: "Name of uploads, with the placeholders `{image_name}`, `{upload_id}` and `{timestamp}` (seconds since 1970)."},
		{Name: "upload_timeout", Type: cty.String, Format: schema.FormatDuration, Default: cty.StringVal("1h"), Doc: "Time limit of one upload."},
		{Name: "max_uploads", Type: cty.Number, Default: cty.NumberIntVal(2), Min: minimum(1), Check: wholeNumber,
			Doc: "Most images that are uploaded here at a time."},
		{Name: "post_upload_hook", Type: cty.String, Check: notEmpty,
			Doc: "Program run after each upload as `hook provider external-id file`; unless it ends with 0, the upload has failed. A path with a slash starts at the configuration's directory. It gets 30 minutes, and `NPCTL_PROVIDER`, `NPCTL_IMAGE_NAME`, `NPCTL_BUILD_ID`, `NPCTL_EXTERNAL_ID`, `NPCTL_CLOUD_IMAGE_NAME` and `NPCTL_FORMAT` in its environment."},
		{Name: "prevent_destroy", Type: cty.Bool, Default: no,
			Doc: "Whether a plan that would remove the provider with all that is in it is refused, also after the block is gone."},
	},
}

var poolBlock = schema.Block{
	Doc: "A part of a provider with limits of its own.",
	Attributes: []schema.Attribute{
		{Name: "max_servers", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Nodes. `0` turns the pool off; without it there is no limit."},
		{Name: "max_cores", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "CPU cores. Without it there is no limit."},
		{Name: "max_ram", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Memory in MiB. Without it there is no limit."},
		{Name: "max_volumes", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Volumes. Without it there is no limit."},
		{Name: "max_volume_gb", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Total size of volumes in GB. Without it there is no limit."},
		{Name: "ignore_provider_quota", Type: cty.Bool, Default: no, Doc: "Whether only the limits written here count and not the project's quota."},
		{Name: "priority", Type: cty.Number, Min: minimum(0), Check: wholeNumber, Doc: "Pools with a lower number go first, for `min_ready` and for requests. Without it, the provider's."},
		{Name: "node_attributes", Type: textMap, Default: noTextsM, Doc: "Attributes that jobs see on nodes of this pool."},
	},
}

var offerBlock = schema.Block{
	Doc: "A label that the pool offers, and how its nodes are made. The block's label is the name of a `label` block. What is not written here and can be written in the pool is taken from there.",
	Attributes: []schema.Attribute{
		{Name: "image", Type: schema.ImageRef, Required: true, Class: schema.Replacing,
			Doc: "Image that nodes boot from: `diskimage.name`, `zuul_image.name`, or `cloud_image.name` of the same provider."},
	},
}

var cloudImageBlock = schema.Block{
	Doc: "An image that is in the cloud already. It is found by one of `image_id`, `image_name` and `filters`; with none of them, by an image name equal to the block's label.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "image_id", Type: cty.String, Class: schema.AppliedToNew, Check: notEmpty, Doc: "Id of the image in the cloud."},
		{Name: "image_name", Type: cty.String, Class: schema.AppliedToNew, Check: notEmpty, Doc: "Exact name of the image in the cloud."},
		{Name: "filters", Type: textMap, Class: schema.AppliedToNew, Check: notEmpty,
			Doc: "Attributes that the image has, such as `{ name = \"ubuntu-noble-*\" }`. Of several images the newest is taken."},
	}, loginAttributes(schema.AppliedToNew, cty.NilVal, cty.StringVal("auto"), cty.StringVal("ssh"))),
}

var providerImageBlock = schema.Block{
	Doc: "Settings of this provider for an uploaded image. The block's label is the name of a `diskimage` or `zuul_image`. Without the block, the image's own settings hold.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "pause", Type: cty.Bool, Default: no, Doc: "Whether nothing is uploaded to this provider."},
		{Name: "properties", Type: textMap, Default: noTextsM, Class: schema.AppliedToNew, Doc: "Properties of uploads, over those of the image."},
		{Name: "tags", Type: texts, Default: noTexts, Class: schema.AppliedToNew, Doc: "Tags of uploads, beside those of the image."},
	}, loginAttributes(schema.AppliedToNew, cty.NilVal, cty.NilVal, cty.NilVal)),
}

var nodeBlock = schema.Block{
	Doc: "A machine that exists. The label is its host name or address.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "labels", Type: texts, Required: true, Class: schema.Replacing, Check: notEmpty, Doc: "Labels that the machine serves."},
		{Name: "address", Type: cty.String, Class: schema.Replacing, Check: notEmpty, Doc: "What is dialled, when it is not the block's label."},
		{Name: "host_keys", Type: texts, Default: noTexts, Class: schema.Replacing, Check: hostKeys,
			Doc: "SSH host keys that the machine must show, each as `type base64`. Without any, those that it shows are taken."},
		{Name: "slots", Type: cty.Number, Default: cty.NumberIntVal(1), Min: minimum(1), Check: wholeNumber, Doc: "Jobs that may use the machine at a time."},
	}, loginAttributes(schema.Replacing, cty.StringVal("zuul"), cty.StringVal("auto"), cty.StringVal("ssh"))),
}
