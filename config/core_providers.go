package config

import (
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

var providerBlock = withDisruption(schema.Of[resources.Provider]("A cloud project, or a set of static machines. The labels are the driver and the name.", withChecks(map[string]schema.Check{"image_name_format": imageNameFormat, "currency": currencyName, "prices": highestPrice})))

var poolBlock = withDisruption(schema.Of[resources.Pool]("A part of a provider with limits of its own.", disruptionChecks))

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

var cloudImageBlock = withLogin(schema.Of[resources.CloudImageSpec]("An image that exists in the cloud. npctl finds it by `image_id`, `image_name` or `filters`, or by default by the block's label as the image name.",
	map[string]schema.Check{"filters": imageFilters}), schema.AppliedToNew, loginDefaults{"python_path": "auto", "connection_type": "ssh"})

var providerImageBlock = withLogin(schema.Of[resources.ProviderImage]("Settings of this provider for an uploaded image. The block's label is the name of a `diskimage` or `zuul_image`. By default, the settings of the image apply.", nil),
	schema.AppliedToNew, nil)

var nodeBlock = withLogin(schema.Of[resources.StaticNode]("A static machine. The label is its host name or address.", map[string]schema.Check{"host_keys": hostKeys}),
	schema.Replacing, imageLogin)
