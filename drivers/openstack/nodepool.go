package openstack

import (
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// inBehavior is the section of docs/coming-from-nodepool.md with differences in behavior.
const inBehavior = "differences-in-behavior"

// nodepoolLocation are the keys of Nodepool that locate the cloud.
func nodepoolLocation() []schema.NodepoolKey {
	return []schema.NodepoolKey{{Key: "cloud", Attr: "cloud"}, {Key: "region-name", Attr: "region"}}
}

// nodepoolKeys are the keys of Nodepool's driver without the location of the cloud.
func nodepoolKeys() *schema.Nodepool {
	configDrive := schema.NodepoolKey{Key: "config-drive", Attr: "config_drive", For: "label"}
	return &schema.Nodepool{
		Guide:         "openstack",
		LoadsUnserved: true,
		Provider: []schema.NodepoolKey{
			{Key: "boot-timeout", Attr: "boot_timeout", Default: "60"},
			{Key: "launch-timeout", Attr: "launch_timeout", Default: "3600"},
			{Key: "launch-retries", Attr: "launch_attempts", Default: "3"},
			{Key: "rate", Attr: "rate", Form: schema.AsInverse, Default: "1.0", Changed: true, Guide: inBehavior,
				Note: "npctl counts calls a second, Nodepool seconds between calls: the value is the inverse"},
			{Key: "image-name-format", Attr: "image_name_format", Default: "{image_name}-{timestamp}"},
			{Key: "post-upload-hook", Attr: "post_upload_hook"},
			{Key: "image-upload-timeout", Attr: "upload_timeout", Default: "3600"},
			{Key: "nodepool-id", Note: "Nodepool ignores it; npctl's ownership tags contain the lineage of the state"},
			{Key: "clean-floating-ips", Changed: true, Note: "npctl always deletes floating IPs with its own tags, and no others"},
			{Key: "port-cleanup-interval", Changed: true, Note: "npctl always deletes ports with its own tags, and no others"},
		},
		Image: slices.Concat([]schema.NodepoolKey{
			{Key: "pause", Attr: "pause", Default: "false"}, {Key: "meta", Attr: "properties"},
		}, drivers.NodepoolConnection(), []schema.NodepoolKey{configDrive}),
		CloudImage: slices.Concat(schema.SameNodepoolKeys("image-id", "image-name"), drivers.NodepoolLogin(), []schema.NodepoolKey{configDrive}),
		Pool: slices.Concat(schema.SameNodepoolKeys("max-servers", "max-cores", "max-ram", "max-volumes", "max-volume-gb"), []schema.NodepoolKey{
			{Key: "ignore-provider-quota", Attr: "ignore_provider_quota", Default: "false"},
			{Key: "availability-zones", Attr: "availability_zones"},
			{Key: "networks", Attr: "networks"},
			{Key: "security-groups", Attr: "security_groups"},
			{Key: "auto-floating-ip", Attr: "auto_floating_ip", Default: "true", Guide: inBehavior},
			{Key: "host-key-checking", Attr: "host_key_checking", Default: "true"},
		}),
		Label: []schema.NodepoolKey{
			{Key: "flavor-name", Attr: "flavor"},
			{Key: "min-ram", Attr: "min_ram"},
			{Key: "boot-from-volume", Attr: "boot_from_volume", Default: "false"},
			{Key: "volume-size", Attr: "volume_size", Default: "50"},
			{Key: "host-key-checking", Attr: "host_key_checking"},
			{Key: "networks", Attr: "networks"},
			{Key: "key-name", Attr: "key_name"},
			{Key: "instance-properties", Attr: "instance_properties"},
			{Key: "userdata", Attr: "userdata"},
			{Key: "console-log", Note: "npctl always stores the console of a failed launch"},
			drivers.NodepoolRequest("dynamic-instance-properties"),
		},
	}
}
