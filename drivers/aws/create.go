package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Create implements drivers.Cloud with one RunInstances per instance type that it tries, or one CreateFleet with all types of an
// offer with an allocation strategy; cached lists resolve the names.
// Its client token makes a repetition of the same request return the same instance.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	if found, done, err := cloudkit.Earlier(spec, func() (resources.Instance, bool, error) { return c.find(ctx, spec) }); done {
		return found, err
	}
	o, err := c.offer(ctx, spec.Config)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create instance %s: %w", spec.Hostname, err))
	}
	if o.settings.DedicatedHost && spec.Zone == "" {
		spec.Zone, err = c.anyZone(ctx, o.settings)
	}
	var request ec2.RunInstancesInput
	if err == nil {
		request, err = c.request(ctx, spec, o)
	}
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create instance %s: %w", spec.Hostname, err))
	}
	if o.settings.Allocation != "" {
		return c.runFleet(ctx, spec, request, o)
	}
	launch := c.run
	if o.settings.DedicatedHost {
		launch = c.runOnHost
	}
	return drivers.CreateFirst(&c.shortages, scopeOf(spec.Zone, o.settings), o.types, func(t instanceType) string { return t.name }, func(t instanceType) (resources.Instance, error) {
		return launch(ctx, spec, request, t.name)
	})
}

// scopeOf returns the scope of shortages: EC2 has other capacity for spot instances and for dedicated hosts.
func scopeOf(zone string, s labelSettings) string {
	return fmt.Sprint(zone, " ", s.isSpot(), " ", s.DedicatedHost)
}

// find searches by ownership tags for the instance that an earlier Create with this ID may have created.
func (c *Cloud) find(ctx context.Context, spec drivers.Spec) (resources.Instance, bool, error) {
	filters := append(tagFilter(spec.Marks), filter("instance-state-name", "pending", "running", "stopping", "stopped"))
	found, err := c.ec2.instances(ctx, filters)
	found = slices.DeleteFunc(found, func(i types.Instance) bool { return !ownerOf(i).SameRecord(spec.Marks) })
	if err != nil || len(found) == 0 {
		return resources.Instance{}, false, err
	}
	instances, err := c.convert(ctx, found[:1])
	if err != nil {
		return resources.Instance{}, false, err
	}
	return instances[0], true, nil
}

// request returns the input of RunInstances without the instance type.
func (c *Cloud) request(ctx context.Context, spec drivers.Spec, o offer) (ec2.RunInstancesInput, error) {
	image, err := c.names.bootImage(ctx, spec.ImageID)
	if err != nil {
		return ec2.RunInstancesInput{}, err
	}
	network, err := c.networkInterface(ctx, spec.Zone, o.settings)
	if err != nil {
		return ec2.RunInstancesInput{}, err
	}
	tags := cloudkit.ServerTags(spec, o.settings.Tags, o.settings.UseInternalIP, maxTagValue)
	tags[tagName] = spec.Hostname
	volumes := rootVolume(image, o.settings.poolSettings)
	if disk := diskOf(volumes); disk.kind != "" {
		tags[tagVolume] = disk.String()
	}
	tags[drivers.TagObject] = "" // counts: run sets it
	if err := validateTags(tags); err != nil {
		return ec2.RunInstancesInput{}, err
	}
	delete(tags, drivers.TagObject)
	s := o.settings
	in := ec2.RunInstancesInput{
		ImageId:             aws.String(spec.ImageID),
		MinCount:            aws.Int32(1),
		MaxCount:            aws.Int32(1),
		NetworkInterfaces:   []types.InstanceNetworkInterfaceSpecification{network},
		BlockDeviceMappings: volumes,
		TagSpecifications:   tagSpecifications(tags, s.isSpot()),
	}
	if image.snapshot != "" {
		in.TagSpecifications = withObject(in.TagSpecifications, types.ResourceTypeVolume, image.snapshot)
	}
	if s.KeyName != "" {
		in.KeyName = aws.String(s.KeyName)
	}
	if spec.Zone != "" {
		in.Placement = &types.Placement{AvailabilityZone: aws.String(spec.Zone)}
	}
	if s.EBSOptimized {
		in.EbsOptimized = aws.Bool(true)
	}
	if s.UserData != "" {
		in.UserData = aws.String(s.encodedUserData())
	}
	if s.isSpot() {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot,
			SpotOptions: &types.SpotMarketOptions{SpotInstanceType: types.SpotInstanceTypeOneTime, InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate}}
	}
	if s.IMDSv2 != "" {
		in.MetadataOptions = &types.InstanceMetadataOptionsRequest{HttpEndpoint: types.InstanceMetadataEndpointStateEnabled, HttpTokens: types.HttpTokensState(s.IMDSv2)}
	}
	if s.NestedVirt {
		in.CpuOptions = &types.CpuOptionsRequest{NestedVirtualization: types.NestedVirtualizationSpecificationEnabled}
	}
	if strings.HasPrefix(s.InstanceProfile, "arn:") {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Arn: aws.String(s.InstanceProfile)}
	} else if s.InstanceProfile != "" {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: aws.String(s.InstanceProfile)}
	}
	return in, nil
}

// networkInterface describes the only interface of an instance. EC2 accepts the choice of a public address only there.
// Without a subnet it uses the default one of the zone.
func (c *Cloud) networkInterface(ctx context.Context, zone string, s labelSettings) (types.InstanceNetworkInterfaceSpecification, error) {
	n := types.InstanceNetworkInterfaceSpecification{DeviceIndex: aws.Int32(0), AssociatePublicIpAddress: aws.Bool(s.PublicIPv4), DeleteOnTermination: aws.Bool(true),
		Groups: s.SecurityGroupIDs}
	if s.PublicIPv6 {
		n.Ipv6AddressCount = aws.Int32(1)
	}
	id, err := c.names.subnetIn(ctx, zone, s.SubnetIDs)
	if id != "" {
		n.SubnetId = aws.String(id)
	}
	return n, err
}

// rootVolume describes the root volume, which EC2 deletes with the instance whatever the AMI says.
func rootVolume(image bootImage, s poolSettings) []types.BlockDeviceMapping {
	if image.rootDevice == "" { // instance store
		return nil
	}
	device := &types.EbsBlockDevice{DeleteOnTermination: aws.Bool(true), VolumeType: types.VolumeType(s.VolumeType)}
	if size := max(s.VolumeSize, image.volumeSize); size > 0 {
		device.VolumeSize = aws.Int32(int32(size)) //nolint:gosec // GiB
	}
	if s.IOPS > 0 {
		device.Iops = aws.Int32(int32(s.IOPS)) //nolint:gosec // checked by EC2
	}
	if s.Throughput > 0 {
		device.Throughput = aws.Int32(int32(s.Throughput)) //nolint:gosec // checked by EC2
	}
	if s.Encrypted || s.KMSKeyID != "" {
		device.Encrypted = aws.Bool(true)
	}
	if s.KMSKeyID != "" {
		device.KmsKeyId = aws.String(s.KMSKeyID)
	}
	return []types.BlockDeviceMapping{{DeviceName: aws.String(image.rootDevice), Ebs: device}}
}

// diskOf returns the root volume of a request. Its kind is empty if only the AMI knows it.
func diskOf(volumes []types.BlockDeviceMapping) rootDisk {
	if len(volumes) == 0 {
		return rootDisk{}
	}
	v := volumes[0].Ebs
	return rootDisk{string(v.VolumeType), int64(aws.ToInt32(v.VolumeSize)), int64(aws.ToInt32(v.Iops))}
}

// tagSpecifications tags all objects that the call creates.
func tagSpecifications(tags map[string]string, spot bool) []types.TagSpecification {
	kinds := []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface}
	if spot {
		kinds = append(kinds, types.ResourceTypeSpotInstancesRequest)
	}
	var all []types.TagSpecification
	for _, kind := range kinds {
		all = append(all, types.TagSpecification{ResourceType: kind, Tags: tagList(tags)})
	}
	return all
}

// clientToken identifies a request: the same token with other parameters would be an error.
func clientToken(spec drivers.Spec, instanceType string, in ec2.RunInstancesInput) string {
	parts := []string{spec.Marks.Installation, string(spec.Marks.Kind), spec.Marks.ID, spec.ImageID, spec.Zone, instanceType,
		aws.ToString(in.NetworkInterfaces[0].SubnetId)}
	if in.Placement != nil && in.Placement.HostId != nil {
		parts = append(parts, *in.Placement.HostId)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])
}

// run requests an instance of one type.
func (c *Cloud) run(ctx context.Context, spec drivers.Spec, in ec2.RunInstancesInput, instanceType string) (resources.Instance, error) {
	in.InstanceType = types.InstanceType(instanceType)
	token := clientToken(spec, instanceType, in)
	in.ClientToken = aws.String(token)
	if in.InstanceMarketOptions == nil { // EC2 documents the token of an instance, but not the token of a spot instance
		in.TagSpecifications = withObject(in.TagSpecifications, types.ResourceTypeInstance, token)
	}
	answer, err := c.ec2.RunInstances(ctx, &in)
	if err != nil {
		return resources.Instance{}, wrap(fmt.Sprintf("create instance %s (%s)", spec.Hostname, instanceType), err)
	}
	if len(answer.Instances) == 0 {
		return resources.Instance{}, fmt.Errorf("create instance %s (%s): %w: the response has no instance", spec.Hostname, instanceType, drivers.ErrUnavailable)
	}
	made, err := c.convert(ctx, answer.Instances[:1])
	if err != nil {
		return resources.Instance{}, err
	}
	made[0].Name, made[0].Marks = spec.Hostname, spec.Marks
	c.endings.starts(made[0])
	return made[0], nil
}

// Advance implements drivers.Cloud: EC2 needs no further steps.
func (c *Cloud) Advance(_ context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	return seen, nil
}
