package gce

import (
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// nodepoolKeys are the keys of Nodepool's driver.
func nodepoolKeys() *schema.Nodepool {
	return &schema.Nodepool{
		Guide: "google-cloud",
		Provider: slices.Concat([]schema.NodepoolKey{
			{Key: "project", Attr: "project"},
			{Key: "region", Attr: "region"},
			{Key: "boot-timeout", Attr: "boot_timeout", Default: "60"},
			{Key: "rate", Changed: true, Note: "npctl's rate counts operations of the driver; its default suits the limits of Google"},
			{Key: "rate-limit", Note: "Nodepool ignores it"},
		}, drivers.NodepoolLaunch(), []schema.NodepoolKey{
			{Key: "zone", Attr: "zones", For: "pool"},
		}),
		CloudImage: slices.Concat([]schema.NodepoolKey{
			{Key: "image-id", Attr: "image_id"},
		}, drivers.NodepoolLogin(), []schema.NodepoolKey{
			{Key: "image-family", Attr: "filters.family"},
			{Key: "image-project", Attr: "filters.project"},
			{Key: "key", Attr: "ssh_keys", For: "label", Text: "{username}:{key}"},
		}),
		Pool: slices.Concat([]schema.NodepoolKey{
			{Key: "use-internal-ip", Attr: "use_internal_ip", Default: "false"},
			{Key: "host-key-checking", Attr: "host_key_checking", Default: "true"},
		}, drivers.NodepoolLimits()),
		Label: []schema.NodepoolKey{
			{Key: "instance-type", Attr: "machine_types"},
			{Key: "volume-type", Attr: "volume_type", Default: "pd-standard"},
			{Key: "volume-size", Attr: "volume_size", Default: "10"},
		},
	}
}
