package openstack

import (
	"context"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/resources"
)

// Quota implements drivers.Cloud with one call per service: Nova's absolute limits, Neutron's quota of floating IPs
// and Cinder's limits. A service that is missing or reports no limits is unlimited. So are Neutron and Cinder when they fail,
// because nodes may need neither of them.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	var q resources.Quota
	if err := computeQuota(ctx, c.compute, &q); err != nil {
		return resources.Quota{}, err
	}
	q.Limit.Addresses, q.Limit.Volumes, q.Limit.VolumeGB = resources.Unlimited, resources.Unlimited, resources.Unlimited
	network := func(ctx context.Context) error { return c.networkQuota(ctx, &q) }
	if err := c.networkLimits.Do(ctx, c.log, "the quota of floating IPs is not readable; npctl assumes no limit", network); err != nil {
		return resources.Quota{}, err
	}
	volumes := func(ctx context.Context) error { return c.volumeQuota(ctx, &q) }
	if err := c.volumeLimits.Do(ctx, c.log, "the limits of volumes are not readable; npctl assumes none", volumes); err != nil {
		return resources.Quota{}, err
	}
	return q, nil
}

func computeQuota(ctx context.Context, compute *gophercloud.ServiceClient, q *resources.Quota) error {
	var answer struct {
		Limits struct {
			Absolute struct {
				MaxInstances  int64 `json:"maxTotalInstances"`
				MaxCores      int64 `json:"maxTotalCores"`
				MaxRAM        int64 `json:"maxTotalRAMSize"`
				UsedInstances int64 `json:"totalInstancesUsed"`
				UsedCores     int64 `json:"totalCoresUsed"`
				UsedRAM       int64 `json:"totalRAMUsed"`
			} `json:"absolute"`
		} `json:"limits"`
	}
	if err := get(ctx, compute, compute.ServiceURL("limits"), &answer); err != nil {
		return wrap("read compute limits", err)
	}
	a := answer.Limits.Absolute
	q.Limit = resources.ResourceAmounts{Instances: limit(a.MaxInstances), Cores: limit(a.MaxCores), RAM: limit(a.MaxRAM)}
	q.Used = resources.ResourceAmounts{Instances: a.UsedInstances, Cores: a.UsedCores, RAM: a.UsedRAM}
	return nil
}

func limit(n int64) int64 {
	if n < 0 {
		return resources.Unlimited
	}
	return n
}

// getLimits reads the limits of a service. Without the service, its limits or the permission to read them, found is false.
func (s *session) getLimits(ctx context.Context, doing, service string, path []string, into any) (found bool, err error) {
	if !s.hasService(service) {
		return false, nil
	}
	client, err := s.service(service)
	if err != nil {
		return false, err
	}
	err = wrap(doing, get(ctx, client, client.ServiceURL(path...), into))
	if isStatus(err, http.StatusForbidden) || isStatus(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *session) networkQuota(ctx context.Context, q *resources.Quota) error {
	var answer struct {
		Quota struct {
			FloatingIP struct {
				Limit int64 `json:"limit"`
				Used  int64 `json:"used"`
			} `json:"floatingip"`
		} `json:"quota"`
	}
	found, err := s.getLimits(ctx, "read network quota", serviceNetwork, []string{"quotas", s.project, "details"}, &answer)
	if found {
		q.Limit.Addresses, q.Used.Addresses = limit(answer.Quota.FloatingIP.Limit), answer.Quota.FloatingIP.Used
	}
	return err
}

func (s *session) volumeQuota(ctx context.Context, q *resources.Quota) error {
	var answer struct {
		Limits struct {
			Absolute struct {
				MaxVolumes   int64 `json:"maxTotalVolumes"`
				MaxGigabytes int64 `json:"maxTotalVolumeGigabytes"`
				UsedVolumes  int64 `json:"totalVolumesUsed"`
				UsedGB       int64 `json:"totalGigabytesUsed"`
			} `json:"absolute"`
		} `json:"limits"`
	}
	found, err := s.getLimits(ctx, "read volume limits", serviceVolume, []string{"limits"}, &answer)
	if err != nil || !found {
		return err
	}
	a := answer.Limits.Absolute
	q.Limit.Volumes, q.Limit.VolumeGB = limit(a.MaxVolumes), limit(a.MaxGigabytes)
	q.Used.Volumes, q.Used.VolumeGB = a.UsedVolumes, a.UsedGB
	return nil
}
