package config

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

var providerBlock = schema.Of[resources.Provider]("A cloud project, or a set of static machines. The labels are the driver and the name.", map[string]schema.Check{"image_name_format": imageNameFormat})

var poolBlock = schema.Of[resources.Pool]("A part of a provider with limits of its own.", nil)

var offerBlock = schema.Block{
	Doc: "An offer: how the pool creates nodes of a label. The block's label is the name of a `label` block. An attribute that the block does not set has the value of the pool's attribute of the same name.",
	Attributes: []schema.Attribute{
		{Name: "image", Type: schema.ImageRef, Required: true, Class: schema.Replacing,
			Doc: "Image from which nodes boot: `diskimage.name`, `zuul_image.name`, or `cloud_image.name` of the same provider."},
	},
}

// offerBlockOf returns the language's part of a label block in a provider of the driver.
func offerBlockOf(d schema.Driver) schema.Block {
	if d.BootsImages() {
		return offerBlock
	}
	return schema.Block{Doc: offerBlock.Doc}
}

var cloudImageBlock = schema.Block{
	Doc: "An image that exists in the cloud. npctl finds it by `image_id`, `image_name` or `filters`, or by default by the block's label as the image name.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "image_id", Type: cty.String, Class: schema.AppliedToNew, Check: schema.CheckNotEmpty, Doc: "ID of the image in the cloud."},
		{Name: "image_name", Type: cty.String, Class: schema.AppliedToNew, Check: schema.CheckNotEmpty, Doc: "Exact name of the image in the cloud."},
		{Name: "filters", Type: textsMap, Class: schema.AppliedToNew, Check: imageFilters,
			Doc: "Attributes of the image, such as `{ name = \"ubuntu-noble-*\", tag = [\"lts\", \"current\"] }`: a pattern, or a list of patterns of which one has to match. If several images match, npctl uses the newest."},
	}, loginAttributes(schema.AppliedToNew, cty.NilVal, cty.StringVal("auto"), cty.StringVal("ssh"))),
}

var providerImageBlock = schema.Block{
	Doc: "Settings of this provider for an uploaded image. The block's label is the name of a `diskimage` or `zuul_image`. By default, the settings of the image apply.",
	Attributes: slices.Concat([]schema.Attribute{
		{Name: "upload", Type: cty.Bool, Doc: "Whether npctl uploads the image although no label of the provider boots from it. npctl always uploads the images of labels."},
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
