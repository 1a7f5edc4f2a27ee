package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// A node of an offer with an allocation strategy is an instant fleet of one instance. CreateFleet needs a launch template. The
// name of a template is a hash of its content, so it never changes: nodes share it, and the node that finds none creates it.
// Its ownership tags have that name as the ID, since it belongs to no single node. FinishDeletion deletes it after the last instance that
// this process has deleted; any other template without instances is a leftover.

// launchTemplate are the settings of an offer for CreateFleet.
type launchTemplate struct {
	name string
	data types.RequestLaunchTemplateData
}

// templateVersion is the only version of npctl's templates.
const templateVersion = "1"

// templateOf converts the input of RunInstances. The type, zone, subnet and tags are parts of the request of each node.
func templateOf(installation string, in ec2.RunInstancesInput) (launchTemplate, error) {
	n := in.NetworkInterfaces[0]
	t := launchTemplate{data: types.RequestLaunchTemplateData{
		ImageId: in.ImageId, KeyName: in.KeyName, EbsOptimized: in.EbsOptimized, UserData: in.UserData,
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: n.DeviceIndex, DeleteOnTermination: n.DeleteOnTermination,
			AssociatePublicIpAddress: n.AssociatePublicIpAddress, Groups: n.Groups, Ipv6AddressCount: n.Ipv6AddressCount}},
	}}
	for _, m := range in.BlockDeviceMappings {
		t.data.BlockDeviceMappings = append(t.data.BlockDeviceMappings, types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName,
			Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{DeleteOnTermination: m.Ebs.DeleteOnTermination, VolumeType: m.Ebs.VolumeType, VolumeSize: m.Ebs.VolumeSize,
				Iops: m.Ebs.Iops, Throughput: m.Ebs.Throughput, Encrypted: m.Ebs.Encrypted, KmsKeyId: m.Ebs.KmsKeyId}})
	}
	if o := in.MetadataOptions; o != nil {
		t.data.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpEndpoint: types.LaunchTemplateInstanceMetadataEndpointState(o.HttpEndpoint), HttpTokens: types.LaunchTemplateHttpTokensState(o.HttpTokens)}
	}
	if o := in.CpuOptions; o != nil {
		t.data.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: o.NestedVirtualization}
	}
	if p := in.IamInstanceProfile; p != nil {
		t.data.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Arn: p.Arn, Name: p.Name}
	}
	content, err := json.Marshal(t.data)
	sum := sha256.Sum256(append([]byte(installation+"\n"), content...))
	t.name = "npctl-" + hex.EncodeToString(sum[:16])
	return t, err
}

// runFleet requests an instance of one of the types of an offer; EC2 chooses.
func (c *Cloud) runFleet(ctx context.Context, spec drivers.Spec, in ec2.RunInstancesInput, o offer) (resources.Instance, error) {
	doing := "create instance " + spec.Hostname
	template, err := templateOf(spec.Marks.Installation, in)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	c.templates.use(template.name, 1)
	defer c.templates.use(template.name, -1)
	request := fleetRequest(spec, in, o, template.name)
	made, err := c.createFleet(ctx, doing, request)
	if isMissing(err) && strings.HasPrefix(codeOf(err), "InvalidLaunchTemplate") {
		if err := c.createTemplate(ctx, spec, template); err != nil {
			return resources.Instance{}, drivers.Unsent(err)
		}
		made, err = c.createFleet(ctx, doing, request)
	}
	if err != nil {
		return resources.Instance{}, err
	}
	flavor := string(made.InstanceType)
	sizes, err := c.names.instanceTypes(ctx, []string{flavor})
	if err != nil {
		return resources.Instance{}, err
	}
	size := sizes[flavor]
	size.name = flavor
	i := resources.Instance{ID: made.InstanceIds[0], Name: spec.Hostname, Marks: spec.Marks, Status: resources.StatusPending, Flavor: flavor,
		Region: c.region, Cloud: "aws", Zone: cmp.Or(aws.ToString(made.AvailabilityZone), spec.Zone), Resources: c.nodeAmounts(ctx, size, o.settings.isSpot(), false, diskOf(in.BlockDeviceMappings))}
	c.endings.starts(i)
	return i, nil
}

func fleetRequest(spec drivers.Spec, in ec2.RunInstancesInput, o offer, template string) *ec2.CreateFleetInput {
	request := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1),
			DefaultTargetCapacityType: types.DefaultTargetCapacityType(o.settings.MarketType)},
	}
	for _, s := range append(in.TagSpecifications, types.TagSpecification{ResourceType: types.ResourceTypeFleet, Tags: in.TagSpecifications[0].Tags}) {
		if s.ResourceType == types.ResourceTypeSpotInstancesRequest {
			continue
		}
		tags := tagMap(s.Tags)
		tags[tagTemplate] = template
		request.TagSpecifications = append(request.TagSpecifications, types.TagSpecification{ResourceType: s.ResourceType, Tags: tagList(tags)})
	}
	if o.settings.isSpot() {
		request.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategy(o.settings.Allocation),
			InstanceInterruptionBehavior: types.SpotInstanceInterruptionBehaviorTerminate}
	} else {
		request.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeOnDemand
		request.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategy(o.settings.Allocation)}
	}
	config := types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
		LaunchTemplateName: aws.String(template), Version: aws.String(templateVersion)}}
	parts := []string{template, o.settings.Allocation, o.settings.MarketType}
	for n, t := range o.types {
		override := types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(t.name), SubnetId: in.NetworkInterfaces[0].SubnetId}
		if override.SubnetId == nil && spec.Zone != "" {
			override.AvailabilityZone = aws.String(spec.Zone)
		}
		if o.settings.isPrioritized() {
			override.Priority = aws.Float64(float64(n))
		}
		config.Overrides = append(config.Overrides, override)
		parts = append(parts, t.name)
	}
	request.LaunchTemplateConfigs = []types.FleetLaunchTemplateConfigRequest{config}
	request.ClientToken = aws.String(clientToken(spec, strings.Join(parts, " "), in))
	return request
}

// createFleet returns the instance of an instant fleet.
func (c *Cloud) createFleet(ctx context.Context, doing string, request *ec2.CreateFleetInput) (types.CreateFleetInstance, error) {
	answer, err := c.ec2.CreateFleet(ctx, request)
	if err != nil {
		return types.CreateFleetInstance{}, wrap(doing, err)
	}
	for _, i := range answer.Instances {
		if len(i.InstanceIds) > 0 {
			return i, nil
		}
	}
	return types.CreateFleetInstance{}, fleetError(doing, answer.Errors)
}

// fleetError returns the error of a fleet without instances. Each instance type has its own one. A lack of capacity has
// precedence, because another zone may have some, then a quota.
func fleetError(doing string, all []types.CreateFleetError) error {
	var list []*cloudkit.Error
	for _, e := range all {
		one := responseError(doing, aws.ToString(e.ErrorCode), aws.ToString(e.ErrorMessage), http.StatusBadRequest)
		if t := e.LaunchTemplateAndOverrides; t != nil && t.Overrides != nil && t.Overrides.InstanceType != "" {
			one.Doing += " (" + string(t.Overrides.InstanceType) + ")"
		}
		list = append(list, one)
	}
	for _, kind := range []error{drivers.ErrCapacity, drivers.ErrQuota, nil} {
		for _, one := range list {
			if kind == nil || errors.Is(one, kind) {
				return one
			}
		}
	}
	return drivers.Unsent(fmt.Errorf("%s: %w: EC2 created a fleet without instances", doing, drivers.ErrCapacity))
}

// createTemplate creates a launch template unless it exists.
func (c *Cloud) createTemplate(ctx context.Context, spec drivers.Spec, t launchTemplate) error {
	marks := resources.OwnerTags{Installation: spec.Marks.Installation, Kind: resources.KindNode, ID: t.name,
		Provider: spec.Marks.Provider, Pool: spec.Marks.Pool, Label: spec.Marks.Label}
	tags := drivers.EncodeTags(marks)
	tags[tagName] = t.name
	_, err := c.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(t.name), LaunchTemplateData: &t.data,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: tagList(tags)}}})
	if err = wrap("create the launch template of instance "+spec.Hostname, err); codeOf(err) == "InvalidLaunchTemplateName.AlreadyExistsException" {
		return nil
	}
	return err
}

// leftTemplates lists the launch templates that no instance uses.
func (w *sweeper) leftTemplates(ctx context.Context, filters []types.Filter) (found []resources.Leftover, err error) {
	all, err := list("list launch templates", func(token *string) (*ec2.DescribeLaunchTemplatesOutput, error) {
		return w.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: filters, MaxResults: aws.Int32(maxTemplates), NextToken: token})
	}, func(p *ec2.DescribeLaunchTemplatesOutput) ([]types.LaunchTemplate, *string) {
		return p.LaunchTemplates, p.NextToken
	})
	for _, t := range all {
		l := leftoverOf(resources.LeftoverLaunchTemplate, t.LaunchTemplateId, t.Tags)
		if l.Name = aws.ToString(t.LaunchTemplateName); l.Marks.ID == l.Name {
			found = append(found, l)
		}
	}
	if err != nil || len(found) == 0 {
		return nil, err
	}
	instances, err := w.ec2.instances(ctx, []types.Filter{filter("tag-key", tagTemplate), filter("instance-state-name", "pending", "running", "stopping", "stopped")})
	used := map[string]bool{}
	for _, i := range instances {
		used[tagMap(i.Tags)[tagTemplate]] = true
	}
	return slices.DeleteFunc(found, func(l resources.Leftover) bool { return used[l.Name] }), err
}

// maxTemplates is the largest page of launch templates.
const maxTemplates = 200

func (w *sweeper) deleteTemplate(ctx context.Context, id string) error {
	_, err := w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(id)})
	return unlessMissing(wrap("delete launch template "+id, err))
}

// usedTemplates counts the users of launch templates. Its zero value is usable.
type usedTemplates struct {
	mu        sync.Mutex
	calls     map[string]int  // guarded by mu; calls of Create, by name
	instances map[string]bool // guarded by mu; templates of the instances in the last List
}

// use adds change to the calls that use a template.
func (u *usedTemplates) use(name string, change int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = map[string]int{}
	}
	if u.calls[name] += change; u.calls[name] == 0 {
		delete(u.calls, name)
	}
}

func (u *usedTemplates) listed(all []types.Instance) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.instances = map[string]bool{}
	for _, i := range all {
		if i.State == nil || i.State.Name == types.InstanceStateNameShuttingDown {
			continue
		}
		for _, t := range i.Tags {
			if aws.ToString(t.Key) == tagTemplate {
				u.instances[aws.ToString(t.Value)] = true
			}
		}
	}
}

func (u *usedTemplates) isUsed(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls[name] > 0 || u.instances[name]
}

// deleteUnusedTemplate deletes a template that no instance uses.
func (c *Cloud) deleteUnusedTemplate(ctx context.Context, name string) error {
	found, err := c.leftTemplates(ctx, append(ownedFilter(), filter("launch-template-name", name)))
	for _, l := range found {
		err = errors.Join(err, c.deleteTemplate(ctx, l.ID))
	}
	return err
}
