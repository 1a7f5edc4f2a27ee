package azure

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/npctl/npctl/resources"
)

// The names of the quotas of a location that are no family of sizes.
const (
	quotaMachines = "virtualMachines"
	quotaCores    = "cores"
	spotCores     = "lowPriorityCores"
)

// Quota implements drivers.Cloud. The quotas are those of the subscription in the location. Azure counts new machines with a
// delay, so the use is at least that of the newest list. Without a readable quota npctl knows no limits: Azure itself still
// enforces them.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	var usages []*armcompute.Usage
	err := c.quotas.Do(ctx, c.log, "quotas are not readable; npctl assumes no limits", func(ctx context.Context) (err error) {
		usages, err = collect(ctx, c.usage.NewListPager(c.location, nil), func(p armcompute.UsageClientListResponse) ([]*armcompute.Usage, *string) { return p.Value, p.NextLink })
		return wrap("read quotas", err)
	})
	if err != nil {
		return resources.Quota{}, err
	}
	used, err := c.recent.Used(ctx, c.List)
	if err != nil {
		return resources.Quota{}, err
	}
	q := resources.Quota{Limit: resources.NoLimits(), Used: used}
	q.Limit.Other = map[string]int64{}
	if q.Used.Other == nil {
		q.Used.Other = map[string]int64{}
	}
	for _, u := range usages {
		if u.Name == nil || u.Limit == nil {
			continue
		}
		used := int64(deref(u.CurrentValue))
		switch name := deref(u.Name.Value); name {
		case quotaMachines:
			q.Limit.Instances, q.Used.Instances = *u.Limit, max(q.Used.Instances, used)
		case quotaCores:
			q.Limit.Cores, q.Used.Cores = *u.Limit, max(q.Used.Cores, used)
		default:
			q.Limit.Other[name], q.Used.Other[name] = *u.Limit, max(q.Used.Other[name], used)
		}
	}
	return q, nil
}
