package aws

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

var (
	_ drivers.BatchDeleter = (*Cloud)(nil)
	_ drivers.Finisher     = (*Cloud)(nil)
)

// Delete implements drivers.Cloud.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	return c.DeleteBatch(ctx, map[string]resources.OwnerTags{id: expected})[id]
}

// DeleteBatch implements drivers.BatchDeleter: one DescribeInstances reads the ownership tags, one TerminateInstances
// deletes. EC2 deletes the root volume and the network interface, FinishDeletion the dedicated host and the launch template
// without instances.
func (c *Cloud) DeleteBatch(ctx context.Context, expected map[string]resources.OwnerTags) (failed map[string]error) {
	failed = map[string]error{}
	found, err := c.ec2.instances(ctx, []types.Filter{filter("instance-id", slices.Sorted(maps.Keys(expected))...)})
	if err != nil {
		for id := range expected {
			failed[id] = err
		}
		return failed
	}
	byID := map[string]types.Instance{}
	for _, i := range found {
		byID[aws.ToString(i.InstanceId)] = i
	}
	var ours []string
	for id, tags := range expected {
		i, exists := byID[id]
		if !exists || i.State != nil && i.State.Name == types.InstanceStateNameTerminated {
			c.endings.forget(id)
			c.ended.add(i)
			continue
		}
		if err := drivers.CheckOwner("instance", id, ownerOf(i), tags); err != nil {
			failed[id] = err
			continue
		}
		ours = append(ours, id)
	}
	together := c.terminate(ctx, ours...)
	alone := together != nil && len(ours) > 1 && !errors.Is(together, drivers.ErrThrottled) && !errors.Is(together, drivers.ErrUnavailable)
	for _, id := range ours {
		err := together
		if alone { // EC2 deletes all or none: a protected instance must not keep the others
			err = c.terminate(ctx, id)
		}
		if err != nil {
			failed[id] = err
			continue
		}
		c.endings.forget(id)
		c.ended.add(byID[id])
	}
	return failed
}

// endedInstances remembers by ID what the instances leave that this process has deleted. Its zero value is usable.
type endedInstances struct {
	cloudkit.Table[string, endedInstance]
}

type endedInstance struct {
	marks          resources.OwnerTags
	host, template string // ID of the dedicated host and name of the launch template, or ""
}

func (e *endedInstances) add(i types.Instance) {
	one := endedInstance{marks: ownerOf(i), template: tagMap(i.Tags)[tagTemplate]}
	if i.Placement != nil {
		one.host = aws.ToString(i.Placement.HostId)
	}
	if one.marks.Installation == "" || one.host == "" && one.template == "" {
		return
	}
	e.Set(aws.ToString(i.InstanceId), one)
}

// FinishDeletion implements drivers.Finisher: it releases the dedicated host and deletes a launch template that nothing uses.
func (c *Cloud) FinishDeletion(ctx context.Context, id string) error {
	ended, _ := c.ended.Get(id)
	if ended.host != "" {
		if err := c.deleteHost(ctx, ended.host, id, ended.marks); err != nil && !errors.Is(err, drivers.ErrNotOurs) {
			return err
		}
	}
	if ended.template != "" && !c.templates.isUsed(ended.template) {
		if err := c.deleteUnusedTemplate(ctx, ended.template); err != nil {
			return err
		}
	}
	c.ended.Delete(id)
	return nil
}

// terminate deletes instances with one call. A missing instance is no error, if it is the only one.
func (c *Cloud) terminate(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err = wrap("delete instances", err); isMissing(err) && len(ids) == 1 {
		return nil
	}
	return err
}
