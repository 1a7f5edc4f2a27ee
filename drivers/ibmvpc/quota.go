package ibmvpc

import (
	"context"
	"sync"
	"time"

	"github.com/npctl/npctl/resources"
)

// Quota implements drivers.Cloud with the limits of the configuration. The VPC API has no call for the quotas of the account,
// and rejects requests that exceed them. The use is that of the newest list if it is recent.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	if err := context.Cause(ctx); err != nil {
		return resources.Quota{}, unsentError{err}
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
	all, ok := c.recent.get()
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

// recentList keeps the newest list of instances for the quota. Its zero value is usable.
type recentList struct {
	mu   sync.Mutex
	at   time.Time            // guarded by mu
	list []resources.Instance // guarded by mu
}

// recent is the age up to which the quota uses a list: the reconciler lists instances right before it reads the quota.
const recent = 5 * time.Second

func (r *recentList) set(list []resources.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.list = time.Now(), list
}

func (r *recentList) get() ([]resources.Instance, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, !r.at.IsZero() && time.Since(r.at) < recent
}
