package aws

import (
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// nodepoolKeys are the keys of Nodepool's driver.
func nodepoolKeys() *schema.Nodepool {
	volume := schema.SameNodepoolKeys("volume-size", "volume-type", "iops", "throughput")
	addresses := []schema.NodepoolKey{
		{Key: "public-ipv4", Attr: "public_ipv4", Default: "true"},
		{Key: "public-ipv6", Attr: "public_ipv6", Default: "false"},
		{Key: "use-internal-ip", Attr: "use_internal_ip", Default: "false"},
		{Key: "host-key-checking", Attr: "host_key_checking", Default: "true"},
	}
	const overwritten = "Nodepool and npctl set the tag Name to the name of the instance"
	return &schema.Nodepool{
		Guide: "aws",
		Provider: slices.Concat([]schema.NodepoolKey{
			{Key: "region-name", Attr: "region"},
			{Key: "profile-name", Attr: "profile"},
			{Key: "boot-timeout", Attr: "boot_timeout", Default: "180"},
			{Key: "rate", Changed: true, Note: "npctl's rate also counts reads; its default suits the limits of EC2"},
			{Key: "post-upload-hook", Attr: "post_upload_hook"},
			{Key: "image-import-timeout", Attr: "upload_timeout", Default: schema.NpctlDefault},
			{Key: "object-storage.bucket-name", Attr: "bucket"},
		}, drivers.NodepoolLaunch(), []schema.NodepoolKey{
			{Key: "image-format", Attr: "image_format", Partial: true},
		}, drivers.ForPools(drivers.NodepoolLimits()...), drivers.ForPools(addresses...)),
		CloudImage: slices.Concat([]schema.NodepoolKey{
			{Key: "image-id", Attr: "image_id"},
			{Key: "image-filters", Attr: "filters", Form: schema.AsNamed},
		}, drivers.NodepoolLogin()),
		Image: slices.Concat([]schema.NodepoolKey{
			{Key: "pause", Attr: "pause", Default: "false"},
			{Key: "architecture", Attr: "architecture", Default: "x86_64"},
			{Key: "ena-support", Attr: "ena_support", Default: "true"},
			{Key: "imds-support", Attr: "imds_support"},
			{Key: "tags", Attr: "properties"},
			{Key: "volume-size", Attr: "volume_size"},
			{Key: "volume-type", Attr: "volume_type", Default: "gp3"},
		}, volume[2:], drivers.NodepoolLogin(), []schema.NodepoolKey{
			{Key: "import-method", Attr: "import_method", Partial: true, Default: "snapshot", DefaultWith: "object-storage"},
		}),
		Pool: slices.Concat([]schema.NodepoolKey{
			{Key: "availability-zone", Attr: "availability_zones"},
			{Key: "subnet-id", Attr: "subnet_ids"},
			{Key: "security-group-id", Attr: "security_group_ids"},
			{Key: "public-ip-address", Attr: "public_ipv4"},
		}, addresses, drivers.NodepoolLimits()),
		Label: slices.Concat([]schema.NodepoolKey{
			{Key: "fleet.instance-types", Attr: "instance_types"},
			{Key: "fleet.allocation-strategy", Attr: "allocation_strategy"},
			{Key: "iam-instance-profile.name", Attr: "iam_instance_profile"},
			{Key: "iam-instance-profile.arn", Attr: "iam_instance_profile"},
			{Key: "use-spot", Attr: "market_type", Words: []string{"on-demand", "spot"}, Default: "false"},
			{Key: "instance-type", Attr: "instance_types"},
			{Key: "key-name", Attr: "key_name"},
			{Key: "ebs-optimized", Attr: "ebs_optimized", Default: "false"},
			{Key: "userdata", Attr: "userdata"},
			{Key: "tags.Name", Note: overwritten},
			{Key: "tags", Attr: "tags"},
			{Key: "dynamic-tags.Name", Note: overwritten},
			drivers.NodepoolRequest("dynamic-tags"),
			{Key: "imdsv2", Attr: "imdsv2"},
			{Key: "dedicated-host", Attr: "dedicated_host", Default: "false"},
		}, volume),
	}
}
