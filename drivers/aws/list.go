package aws

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// List implements drivers.Cloud. It omits terminated instances, which EC2 lists for another hour, except those that EC2
// terminated while they started: these have the reason.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	found, err := c.ec2.instances(ctx, []types.Filter{filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped")})
	if err != nil {
		return nil, err
	}
	list, err := c.convert(ctx, found)
	if err != nil {
		return nil, err
	}
	failed, err := c.failedStarts(ctx, list)
	if err != nil {
		return nil, err
	}
	c.quotas.instances.Set(list)
	c.templates.listed(found)
	return append(list, failed...), nil
}

// instances lists the instances that match all filters.
func (a *calls) instances(ctx context.Context, filters []types.Filter) (found []types.Instance, err error) {
	err = pages("list instances", func(token *string) (*string, int, error) {
		answer, err := a.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(pageSize), NextToken: token})
		if err != nil {
			return nil, 0, err
		}
		before := len(found)
		for _, r := range answer.Reservations {
			found = append(found, r.Instances...)
		}
		return answer.NextToken, max(len(answer.Reservations), len(found)-before), nil
	})
	return found, err
}

// convert converts instances of the SDK. It reads the sizes of types that it does not know.
func (c *Cloud) convert(ctx context.Context, found []types.Instance) ([]resources.Instance, error) {
	var wanted []string
	for _, i := range found {
		wanted = append(wanted, string(i.InstanceType))
	}
	sizes, err := c.names.instanceTypes(ctx, wanted)
	if err != nil {
		return nil, err
	}
	list := make([]resources.Instance, 0, len(found))
	for _, i := range found {
		one := instanceOf(i)
		one.Region, one.Cloud = c.region, "aws"
		size := sizes[one.Flavor]
		size.name = one.Flavor
		one.Resources = c.nodeAmounts(ctx, size, i.InstanceLifecycle == types.InstanceLifecycleTypeSpot, one.HostID != "", parseRootDisk(tagMap(i.Tags)[tagVolume]))
		list = append(list, one)
	}
	return list, nil
}

func instanceOf(i types.Instance) resources.Instance {
	tags := tagMap(i.Tags)
	one := resources.Instance{
		ID: aws.ToString(i.InstanceId), Name: tags[tagName], Marks: ownerOf(i), Status: statusOf(i.State),
		Flavor: string(i.InstanceType), Addresses: addressesOf(i, tags[cloudkit.TagInterface]), Created: aws.ToTime(i.LaunchTime),
	}
	if i.Placement != nil {
		one.Zone, one.HostID = aws.ToString(i.Placement.AvailabilityZone), aws.ToString(i.Placement.HostId)
	}
	if r := i.StateReason; r != nil && one.Status == resources.StatusFailed {
		one.Fault, one.FaultKind = aws.ToString(r.Message), faultKind(aws.ToString(r.Code))
	}
	return one
}

// statusOf maps EC2's states. npctl never stops an instance, so a stopped one has failed.
func statusOf(state *types.InstanceState) resources.Status {
	if state == nil {
		return resources.StatusPending
	}
	switch state.Name {
	case types.InstanceStateNameRunning:
		return resources.StatusReady
	case types.InstanceStateNameShuttingDown:
		return resources.StatusDeleting
	case types.InstanceStateNameStopping, types.InstanceStateNameStopped, types.InstanceStateNameTerminated:
		return resources.StatusFailed
	default:
		return resources.StatusPending
	}
}

func addressesOf(i types.Instance, choice string) resources.Addresses {
	a := resources.Addresses{PublicIPv4: aws.ToString(i.PublicIpAddress), PrivateIPv4: aws.ToString(i.PrivateIpAddress), PublicIPv6: aws.ToString(i.Ipv6Address)}
	for _, n := range i.NetworkInterfaces {
		if a.PublicIPv6 == "" && len(n.Ipv6Addresses) > 0 {
			a.PublicIPv6 = aws.ToString(n.Ipv6Addresses[0].Ipv6Address)
		}
	}
	a.Interface = cloudkit.ConnectTo(a, choice)
	return a
}

// endings finds the reasons why instances ended while they started, which lists omit. Its zero value is usable.
type endings struct {
	mu       sync.Mutex
	starting map[string]time.Time          // guarded by mu; since when, by instance
	failed   map[string]resources.Instance // guarded by mu; until their deletion
}

// maxStart is the time after which an instance that never appears is forgotten.
const maxStart = 10 * time.Minute

func (e *endings) starts(i resources.Instance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.starting == nil {
		e.starting, e.failed = map[string]time.Time{}, map[string]resources.Instance{}
	}
	if _, known := e.starting[i.ID]; !known {
		e.starting[i.ID] = time.Now()
	}
}

// vanished updates the starting instances with a list, and returns those that it does not contain.
func (e *endings) vanished(list []resources.Instance) (ids []string) {
	listed := map[string]bool{}
	for _, i := range list {
		listed[i.ID] = true
		if i.Status == resources.StatusPending && i.Marks.Installation != "" {
			e.starts(i)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range list {
		if i.Status != resources.StatusPending {
			delete(e.starting, i.ID)
		}
	}
	for id, since := range e.starting {
		switch {
		case listed[id]:
		case time.Since(since) > maxStart:
			delete(e.starting, id)
		default:
			ids = append(ids, id)
		}
	}
	return ids
}

func (e *endings) fail(i resources.Instance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.starting, i.ID)
	if i.Fault != "" {
		e.failed[i.ID] = i
	}
}

func (e *endings) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.starting, id)
	delete(e.failed, id)
}

func (e *endings) all() []resources.Instance {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.failed))
}

// failedStarts returns the instances that EC2 terminated while they started: one more call after such an event.
func (c *Cloud) failedStarts(ctx context.Context, list []resources.Instance) ([]resources.Instance, error) {
	if ids := c.endings.vanished(list); len(ids) > 0 {
		ids = ids[:min(len(ids), maxFilterValues)]
		found, err := c.ec2.instances(ctx, []types.Filter{filter("instance-id", ids...), filter("instance-state-name", "terminated")})
		if err != nil {
			return nil, err
		}
		ended, err := c.convert(ctx, found)
		if err != nil {
			return nil, err
		}
		for _, i := range ended {
			c.endings.fail(i)
		}
	}
	return c.endings.all(), nil
}

// maxFilterValues is EC2's limit on the values of a filter.
const maxFilterValues = 200
