package ibmvpc

import (
	"context"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Quota implements drivers.Cloud with the limits of the configuration. The VPC API has no call for the quotas of the account,
// and rejects requests that exceed them. The use is that of the newest list if it is recent.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	if err := context.Cause(ctx); err != nil {
		return resources.Quota{}, drivers.Unsent(err)
	}
	used, err := c.recent.Used(ctx, c.List)
	return resources.Quota{Limit: cloudkit.Limits(c.settings.MaxServers, c.settings.MaxCores, c.settings.MaxRAM), Used: used}, err
}
