package aws

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// A node of an offer with dedicated_host has a host of its own, with the same ownership tags. EC2 releases a host only after its
// instance has ended, so FinishDeletion releases it; after a crash it is a leftover.

// runOnHost allocates a host and requests an instance on it. The host of an earlier call is used again.
func (c *Cloud) runOnHost(ctx context.Context, spec drivers.Spec, in ec2.RunInstancesInput, instanceType string) (resources.Instance, error) {
	host, err := c.hostOf(ctx, spec, in, instanceType)
	if err != nil {
		return resources.Instance{}, err
	}
	in.Placement = &types.Placement{AvailabilityZone: in.Placement.AvailabilityZone, HostId: aws.String(host), Tenancy: types.TenancyHost}
	made, err := c.run(ctx, spec, in, instanceType)
	if err == nil || !drivers.IsNothingDone(err) {
		return made, err
	}
	return resources.Instance{}, cloudkit.CleanUp(ctx, cleanupLimit, err, "host "+host+" was not released", func(ctx context.Context) error { return c.releaseHost(ctx, host) })
}

// anyZone returns a zone of an offer that has some.
func (c *Cloud) anyZone(ctx context.Context, s labelSettings) (string, error) {
	subnets, err := c.names.subnetsOf(ctx, s.SubnetIDs)
	if err != nil {
		return "", err
	}
	zones, err := zonesOf(s, subnets)
	if err != nil {
		return "", err
	}
	return zones[0], nil
}

// hostOf returns the host of a node.
func (c *Cloud) hostOf(ctx context.Context, spec drivers.Spec, in ec2.RunInstancesInput, instanceType string) (string, error) {
	all, err := c.hosts(ctx, &ec2.DescribeHostsInput{Filter: ownedFilter()})
	if err != nil {
		return "", drivers.Unsent(err)
	}
	zone := aws.ToString(in.Placement.AvailabilityZone)
	for _, h := range all {
		if ownerOfHost(h).SameRecord(spec.Marks) && len(h.Instances) == 0 && aws.ToString(h.AvailabilityZone) == zone &&
			h.HostProperties != nil && aws.ToString(h.HostProperties.InstanceType) == instanceType {
			return aws.ToString(h.HostId), nil
		}
	}
	answer, err := c.ec2.AllocateHosts(ctx, &ec2.AllocateHostsInput{
		InstanceType: aws.String(instanceType), AvailabilityZone: aws.String(zone), Quantity: aws.Int32(1), AutoPlacement: types.AutoPlacementOff,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeDedicatedHost, Tags: in.TagSpecifications[0].Tags}},
	})
	if err != nil {
		return "", wrap(fmt.Sprintf("allocate a host for instance %s (%s)", spec.Hostname, instanceType), err)
	}
	if len(answer.HostIds) == 0 {
		return "", fmt.Errorf("allocate a host for instance %s (%s): %w: the response has no host", spec.Hostname, instanceType, drivers.ErrUnavailable)
	}
	return answer.HostIds[0], nil
}

// hosts lists hosts that are not released.
func (w *sweeper) hosts(ctx context.Context, in *ec2.DescribeHostsInput) (found []types.Host, err error) {
	all, err := list("list dedicated hosts", func(token *string) (*ec2.DescribeHostsOutput, error) {
		in.NextToken = token
		return w.ec2.DescribeHosts(ctx, in)
	}, func(p *ec2.DescribeHostsOutput) ([]types.Host, *string) { return p.Hosts, p.NextToken })
	return slices.DeleteFunc(all, func(h types.Host) bool {
		return h.State == types.AllocationStateReleased || h.State == types.AllocationStateReleasedPermanentFailure
	}), err
}

func ownerOfHost(h types.Host) resources.OwnerTags {
	return drivers.OwnerOf(tagMap(h.Tags), drivers.OfServer, aws.ToString(h.HostId))
}

// leftHosts lists hosts.
func (w *sweeper) leftHosts(ctx context.Context, filters []types.Filter) (found []resources.Leftover, err error) {
	all, err := w.hosts(ctx, &ec2.DescribeHostsInput{Filter: filters})
	for _, h := range all {
		l := leftoverOf(resources.LeftoverHost, h.HostId, h.Tags)
		if len(h.Instances) > 0 {
			l.InUse, l.Server = true, aws.ToString(h.Instances[0].InstanceId)
		}
		found = append(found, l)
	}
	return found, err
}

func (w *sweeper) releaseHost(ctx context.Context, id string) error {
	doing := "release host " + id
	answer, err := w.ec2.ReleaseHosts(ctx, &ec2.ReleaseHostsInput{HostIds: []string{id}})
	if err != nil {
		return unlessMissing(wrap(doing, err))
	}
	for _, u := range answer.Unsuccessful {
		if u.Error != nil {
			code := aws.ToString(u.Error.Code)
			return unlessMissing(&cloudkit.Error{Doing: doing, Code: code, Message: clean(aws.ToString(u.Error.Message))})
		}
	}
	return nil
}

// deleteHost releases the host of a deleted instance, unless another instance is on it.
func (c *Cloud) deleteHost(ctx context.Context, id, instance string, marks resources.OwnerTags) error {
	found, err := c.hosts(ctx, &ec2.DescribeHostsInput{HostIds: []string{id}})
	if isMissing(err) || err == nil && len(found) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(found[0].Instances, func(i types.HostInstance) bool { return aws.ToString(i.InstanceId) != instance }) {
		return nil
	}
	if err := drivers.CheckOwner("host", id, ownerOfHost(found[0]), marks); err != nil {
		return err
	}
	return c.releaseHost(ctx, id)
}
