package metastatic

import (
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources/schema"
)

// nodepoolKeys are the keys of Nodepool's driver.
func nodepoolKeys() *schema.Nodepool {
	return &schema.Nodepool{
		Guide: "metastatic",
		Provider: slices.Concat([]schema.NodepoolKey{
			{Key: "boot-timeout", Attr: "boot_timeout", Default: "120"},
			{Key: "rate", Note: "the driver makes no calls to a cloud"},
		}, drivers.NodepoolLaunch()),
		Pool: []schema.NodepoolKey{
			{Key: "max-servers", Attr: "max_servers"},
			{Key: "host-key-checking", Attr: "host_key_checking", Default: "false"},
		},
		Label: []schema.NodepoolKey{
			{Key: "backing-label", Attr: "backing_label", Form: schema.AsLabels},
			{Key: "max-parallel-jobs", Attr: "max_parallel_jobs", Default: "1"},
			{Key: "grace-time", Attr: "grace_time", Default: "60"},
			{Key: "min-retention-time", Attr: "min_retention_time", Default: "0"},
			{Key: "max-age", Attr: "max_age"},
			{Key: "host-key-checking", Attr: "host_key_checking"},
		},
	}
}
