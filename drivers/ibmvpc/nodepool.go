package ibmvpc

import (
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// nodepoolKeys are the keys of Nodepool's driver.
func nodepoolKeys() *schema.Nodepool {
	places := []schema.NodepoolKey{
		{Key: "zone", Attr: "zones"},
		{Key: "subnet", Attr: "subnets"},
		{Key: "public-ipv4", Attr: "public_ipv4", Default: "false"},
		{Key: "use-internal-ip", Attr: "use_internal_ip", Default: "false"},
		{Key: "host-key-checking", Attr: "host_key_checking", Default: "true"},
	}
	return &schema.Nodepool{
		Guide: "ibm-vpc",
		Provider: slices.Concat([]schema.NodepoolKey{
			{Key: "region", Attr: "region"},
			{Key: "vpc", Attr: "vpc"},
			{Key: "credentials-file", Changed: true, Note: "set IBM_CREDENTIALS_FILE to this path in the environment of npctl"},
			{Key: "boot-timeout", Attr: "boot_timeout", Default: "120"},
			{Key: "rate", Changed: true, Note: "npctl's rate also counts reads"},
			{Key: "post-upload-hook", Attr: "post_upload_hook"},
			{Key: "image-format", Attr: "image_format", Default: "qcow2"},
		}, drivers.NodepoolLaunch(), []schema.NodepoolKey{
			{Key: "quota.instances", Attr: "max_servers"},
			{Key: "quota.cores", Attr: "max_cores"},
			{Key: "quota.ram", Attr: "max_ram"},
			{Key: "object-storage.endpoint", Attr: "object_storage.endpoint"},
			{Key: "object-storage.bucket-name", Attr: "object_storage.bucket"},
			{Key: "object-storage.instance-name", Note: "the endpoint and the bucket are sufficient"},
		}, drivers.ForPools(places...)),
		CloudImage: slices.Concat([]schema.NodepoolKey{
			{Key: "image-id", Attr: "image_id"},
			{Key: "image-name", Attr: "image_name"},
			{Key: "image-href", Attr: "filters.href"},
			{Key: "image-filter", Attr: "filters", Form: schema.AsNested},
			{Key: "keys", Attr: "keys", For: "label"},
		}, drivers.NodepoolLogin()),
		Image: slices.Concat([]schema.NodepoolKey{
			{Key: "pause", Attr: "pause", Default: "false"},
			{Key: "operating-system", Attr: "operating_system"},
			{Key: "key", Note: "Nodepool ignores it"},
		}, drivers.NodepoolLogin()),
		Pool: slices.Concat(places, drivers.NodepoolLimits()[:3]),
		Label: []schema.NodepoolKey{
			{Key: "profile", Attr: "profiles"},
			{Key: "user-data", Attr: "user_data"},
		},
	}
}
