package ibmvpc

import (
	"context"

	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Quota implements drivers.Cloud with the limits of the configuration. The VPC API has no call for the quotas of the account,
// and rejects requests that exceed them. The use is that of the newest list if it is recent.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	if err := context.Cause(ctx); err != nil {
		return resources.Quota{}, cloudkit.Unsent(err)
	}
	limit := func(configured *int64) int64 {
		if configured == nil {
			return resources.Unlimited
		}
		return *configured
	}
	const no = resources.Unlimited
	q := resources.Quota{Limit: resources.ResourceAmounts{
		Instances: limit(c.settings.MaxServers), Cores: limit(c.settings.MaxCores), RAM: limit(c.settings.MaxRAM),
		Volumes: no, VolumeGB: no, Addresses: no,
	}}
	all, ok := c.recent.Get()
	if !ok {
		var err error
		if all, err = c.List(ctx); err != nil {
			return resources.Quota{}, err
		}
	}
	for _, i := range all {
		q.Used = q.Used.Plus(i.Resources)
	}
	return q, nil
}
