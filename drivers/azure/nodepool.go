package azure

import (
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// nodepoolKeys are the keys of Nodepool's driver.
func nodepoolKeys() *schema.Nodepool {
	const ipv4 = "nodes always have a private IPv4 address"
	addresses := []schema.NodepoolKey{
		{Key: "ipv6", Attr: "ipv6", Default: "false"},
		{Key: "public-ipv4", Attr: "public_ipv4", Default: "true"},
		{Key: "public-ipv6", Attr: "public_ipv6", Default: "false"},
		{Key: "use-internal-ip", Attr: "use_internal_ip", Default: "false"},
		{Key: "host-key-checking", Attr: "host_key_checking", Default: "true"},
	}
	login := drivers.ForLabels(
		schema.NodepoolKey{Key: "username", Attr: "admin_username", Default: "zuul"},
		schema.NodepoolKey{Key: "key", Attr: "ssh_public_key"},
		schema.NodepoolKey{Key: "password", Attr: "admin_password"},
		schema.NodepoolKey{Key: "generate-password", Attr: "generate_password", Default: "false"},
	)
	return &schema.Nodepool{
		Guide: "azure",
		Provider: slices.Concat([]schema.NodepoolKey{
			{Key: "location", Attr: "location"},
			{Key: "resource-group", Attr: "resource_group"},
			{Key: "resource-group-location", Note: "npctl does not create the resource group"},
			{Key: "auth-path", Changed: true, Note: "credentials come from AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, an identity, or az login"},
			{Key: "boot-timeout", Attr: "boot_timeout", Default: "120"},
			{Key: "rate", Changed: true, Note: "npctl's rate also counts reads; its default suits the limits of Azure"},
			{Key: "post-upload-hook", Attr: "post_upload_hook"},
			{Key: "ipv4", Note: ipv4},
		}, drivers.NodepoolLaunch(), []schema.NodepoolKey{
			{Key: "network.network", Attr: "network", For: "pool"},
			{Key: "network", Attr: "network", For: "pool"},
			{Key: "network.resource-group", Attr: "network_resource_group", For: "pool"},
			{Key: "subnet-id", Attr: "subnet", For: "pool"},
			{Key: "network.subnet", Attr: "subnet", For: "pool", Default: "default"},
			{Key: "zuul-public-key", Attr: "ssh_public_key", For: "pool"},
		}, drivers.ForPools(addresses...)),
		CloudImage: slices.Concat([]schema.NodepoolKey{
			{Key: "image-id", Attr: "image_id"},
			{Key: "image-reference", Attr: "image_id", Text: "{publisher}:{offer}:{sku}:{version}"},
			{Key: "shared-gallery-image", Attr: "image_id", Text: "/SharedGalleries/{gallery-name}/Images/{name}/Versions/{version}"},
			{Key: "community-gallery-image", Attr: "image_id", Text: "/CommunityGalleries/{gallery-name}/Images/{name}/Versions/{version}"},
			{Key: "image-filter.name", Attr: "filters.name", Changed: true, Note: "the newest image wins, not the last by name; npctl has no filter by location"},
			{Key: "image-filter.tags", Attr: "filters"},
		}, login, drivers.NodepoolLogin()),
		Image: slices.Concat([]schema.NodepoolKey{
			{Key: "pause", Attr: "pause", Default: "false"},
			{Key: "tags", Attr: "properties"},
		}, login, drivers.NodepoolLogin()),
		Pool: slices.Concat([]schema.NodepoolKey{
			{Key: "max-servers", Attr: "max_servers"},
			{Key: "ipv4", Note: ipv4},
		}, addresses),
		Label: []schema.NodepoolKey{
			{Key: "hardware-profile.vm-size", Attr: "vm_sizes"},
			{Key: "tags", Attr: "tags"},
			drivers.NodepoolRequest("dynamic-tags"),
			{Key: "user-data", Attr: "userdata"},
			{Key: "custom-data", Attr: "custom_data"},
			{Key: "volume-size", Attr: "volume_size"},
		},
	}
}
