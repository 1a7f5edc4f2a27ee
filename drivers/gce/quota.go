package gce

import (
	"context"
	"strings"

	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/resources"
)

// The quotas of a region limit instances, addresses, and the CPUs of families of machine types. The names in
// ResourceAmounts.Other are their metrics.
const (
	metricInstances = "INSTANCES"
	metricAddresses = "IN_USE_ADDRESSES"
	metricSpotCPUs  = "PREEMPTIBLE_CPUS"
	metricCPUs      = "CPUS"
)

// cpuMetric returns the metric of the CPUs of a machine type. The older families and E2 share one.
func cpuMetric(machineType string, spot bool) string {
	family, _, _ := strings.Cut(machineType, "-")
	switch {
	case spot:
		return metricSpotCPUs
	case family == "e2", family == "n1", family == "f1", family == "g1", family == "custom":
		return metricCPUs
	default:
		return strings.ToUpper(family) + "_" + metricCPUs
	}
}

// amountsOf returns the resources of one instance.
func amountsOf(size machineType, i *compute.Instance) resources.ResourceAmounts {
	amounts := resources.ResourceAmounts{Instances: 1, Cores: size.cores, RAM: size.ram}
	for _, n := range i.NetworkInterfaces {
		amounts.Addresses += int64(len(n.AccessConfigs))
	}
	if size.cores > 0 {
		spot := i.Scheduling != nil && i.Scheduling.ProvisioningModel == provisioningSpot
		amounts.Other = map[string]int64{cpuMetric(size.name, spot): size.cores}
	}
	return amounts
}

// Quota implements drivers.Cloud with one call. Google's quotas have no memory and no total of cores: npctl counts the use
// of these in the newest list.
func (c *Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	region, err := c.api.region(ctx, c.region)
	if err != nil {
		return resources.Quota{}, err
	}
	used, err := c.recent.Used(ctx, c.List)
	if err != nil {
		return resources.Quota{}, err
	}
	q := resources.Quota{Limit: resources.NoLimits(), Used: resources.ResourceAmounts{Cores: used.Cores, RAM: used.RAM, Other: map[string]int64{}}}
	q.Limit.Other = map[string]int64{}
	for _, one := range region.Quotas {
		limit, usage := int64(one.Limit), int64(one.Usage)
		switch {
		case one.Metric == metricInstances:
			q.Limit.Instances, q.Used.Instances = limit, usage
		case one.Metric == metricAddresses:
			q.Limit.Addresses, q.Used.Addresses = limit, usage
		case one.Metric == metricSpotCPUs && limit == 0: // spot instances use the quotas of the others
		case strings.HasSuffix(one.Metric, metricCPUs):
			q.Limit.Other[one.Metric], q.Used.Other[one.Metric] = limit, usage
		}
	}
	return q, nil
}
