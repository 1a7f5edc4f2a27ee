package awstest

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Owned returns the IDs of the objects with npctl's ownership tags by kind: instances that are not terminated, volumes,
// snapshots, images, launch templates, and hosts that are not released. moto tags no volumes of fleets.
func Owned(ctx context.Context, client *ec2.Client) (map[string][]string, error) {
	found := map[string][]string{}
	add := func(kind string, id *string) { found[kind] = append(found[kind], aws.ToString(id)) }
	filters := func(more ...types.Filter) []types.Filter {
		return append(more, types.Filter{Name: aws.String("tag-key"), Values: []string{"npctl_installation"}})
	}
	self := []string{"self"}
	instances, err := client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: filters(types.Filter{
		Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped", "shutting-down"}})})
	if err != nil {
		return nil, err
	}
	for _, r := range instances.Reservations {
		for _, i := range r.Instances {
			add("instance", i.InstanceId)
		}
	}
	volumes, err := client.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: filters()})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Volumes {
		add("volume", v.VolumeId)
	}
	snapshots, err := client.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{OwnerIds: self, Filters: filters()})
	if err != nil {
		return nil, err
	}
	for _, s := range snapshots.Snapshots {
		add("snapshot", s.SnapshotId)
	}
	images, err := client.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: self, Filters: filters()})
	if err != nil {
		return nil, err
	}
	for _, i := range images.Images {
		add("image", i.ImageId)
	}
	templates, err := client.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: filters()})
	if err != nil {
		return nil, err
	}
	for _, t := range templates.LaunchTemplates {
		add("template", t.LaunchTemplateId)
	}
	hosts, err := client.DescribeHosts(ctx, &ec2.DescribeHostsInput{Filter: filters(types.Filter{Name: aws.String("state"), Values: []string{"available"}})})
	if err != nil {
		return nil, err
	}
	for _, h := range hosts.Hosts {
		add("host", h.HostId)
	}
	return found, nil
}
