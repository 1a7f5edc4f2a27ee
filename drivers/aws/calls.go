package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// call is one operation of EC2.
type call[In, Out any] func(context.Context, *In, ...func(*ec2.Options)) (*Out, error)

// calls are the operations of EC2 that the driver uses. A field with the SDK's client in a type that is converted to an
// interface, such as Cloud, would make the linker keep all 750 operations: 35 MB.
type calls struct {
	AllocateHosts                 call[ec2.AllocateHostsInput, ec2.AllocateHostsOutput]
	CancelImportTask              call[ec2.CancelImportTaskInput, ec2.CancelImportTaskOutput]
	CreateFleet                   call[ec2.CreateFleetInput, ec2.CreateFleetOutput]
	CreateLaunchTemplate          call[ec2.CreateLaunchTemplateInput, ec2.CreateLaunchTemplateOutput]
	CreateTags                    call[ec2.CreateTagsInput, ec2.CreateTagsOutput]
	DeleteLaunchTemplate          call[ec2.DeleteLaunchTemplateInput, ec2.DeleteLaunchTemplateOutput]
	DeleteNetworkInterface        call[ec2.DeleteNetworkInterfaceInput, ec2.DeleteNetworkInterfaceOutput]
	DeleteSnapshot                call[ec2.DeleteSnapshotInput, ec2.DeleteSnapshotOutput]
	DeleteTags                    call[ec2.DeleteTagsInput, ec2.DeleteTagsOutput]
	DeleteVolume                  call[ec2.DeleteVolumeInput, ec2.DeleteVolumeOutput]
	DeregisterImage               call[ec2.DeregisterImageInput, ec2.DeregisterImageOutput]
	DescribeAvailabilityZones     call[ec2.DescribeAvailabilityZonesInput, ec2.DescribeAvailabilityZonesOutput]
	DescribeHosts                 call[ec2.DescribeHostsInput, ec2.DescribeHostsOutput]
	DescribeImages                call[ec2.DescribeImagesInput, ec2.DescribeImagesOutput]
	DescribeImportImageTasks      call[ec2.DescribeImportImageTasksInput, ec2.DescribeImportImageTasksOutput]
	DescribeImportSnapshotTasks   call[ec2.DescribeImportSnapshotTasksInput, ec2.DescribeImportSnapshotTasksOutput]
	DescribeInstanceTypeOfferings call[ec2.DescribeInstanceTypeOfferingsInput, ec2.DescribeInstanceTypeOfferingsOutput]
	DescribeInstanceTypes         call[ec2.DescribeInstanceTypesInput, ec2.DescribeInstanceTypesOutput]
	DescribeInstances             call[ec2.DescribeInstancesInput, ec2.DescribeInstancesOutput]
	DescribeKeyPairs              call[ec2.DescribeKeyPairsInput, ec2.DescribeKeyPairsOutput]
	DescribeLaunchTemplates       call[ec2.DescribeLaunchTemplatesInput, ec2.DescribeLaunchTemplatesOutput]
	DescribeNetworkInterfaces     call[ec2.DescribeNetworkInterfacesInput, ec2.DescribeNetworkInterfacesOutput]
	DescribeSecurityGroups        call[ec2.DescribeSecurityGroupsInput, ec2.DescribeSecurityGroupsOutput]
	DescribeSnapshots             call[ec2.DescribeSnapshotsInput, ec2.DescribeSnapshotsOutput]
	DescribeSubnets               call[ec2.DescribeSubnetsInput, ec2.DescribeSubnetsOutput]
	DescribeVolumes               call[ec2.DescribeVolumesInput, ec2.DescribeVolumesOutput]
	GetConsoleOutput              call[ec2.GetConsoleOutputInput, ec2.GetConsoleOutputOutput]
	ImportImage                   call[ec2.ImportImageInput, ec2.ImportImageOutput]
	ImportSnapshot                call[ec2.ImportSnapshotInput, ec2.ImportSnapshotOutput]
	RegisterImage                 call[ec2.RegisterImageInput, ec2.RegisterImageOutput]
	ReleaseHosts                  call[ec2.ReleaseHostsInput, ec2.ReleaseHostsOutput]
	RunInstances                  call[ec2.RunInstancesInput, ec2.RunInstancesOutput]
	TerminateInstances            call[ec2.TerminateInstancesInput, ec2.TerminateInstancesOutput]
}

func newCalls(client *ec2.Client) *calls {
	return &calls{
		AllocateHosts:                 client.AllocateHosts,
		CancelImportTask:              client.CancelImportTask,
		CreateFleet:                   client.CreateFleet,
		CreateLaunchTemplate:          client.CreateLaunchTemplate,
		CreateTags:                    client.CreateTags,
		DeleteLaunchTemplate:          client.DeleteLaunchTemplate,
		DeleteNetworkInterface:        client.DeleteNetworkInterface,
		DeleteSnapshot:                client.DeleteSnapshot,
		DeleteTags:                    client.DeleteTags,
		DeleteVolume:                  client.DeleteVolume,
		DeregisterImage:               client.DeregisterImage,
		DescribeAvailabilityZones:     client.DescribeAvailabilityZones,
		DescribeHosts:                 client.DescribeHosts,
		DescribeImages:                client.DescribeImages,
		DescribeImportImageTasks:      client.DescribeImportImageTasks,
		DescribeImportSnapshotTasks:   client.DescribeImportSnapshotTasks,
		DescribeInstanceTypeOfferings: client.DescribeInstanceTypeOfferings,
		DescribeInstanceTypes:         client.DescribeInstanceTypes,
		DescribeInstances:             client.DescribeInstances,
		DescribeKeyPairs:              client.DescribeKeyPairs,
		DescribeLaunchTemplates:       client.DescribeLaunchTemplates,
		DescribeNetworkInterfaces:     client.DescribeNetworkInterfaces,
		DescribeSecurityGroups:        client.DescribeSecurityGroups,
		DescribeSnapshots:             client.DescribeSnapshots,
		DescribeSubnets:               client.DescribeSubnets,
		DescribeVolumes:               client.DescribeVolumes,
		GetConsoleOutput:              client.GetConsoleOutput,
		ImportImage:                   client.ImportImage,
		ImportSnapshot:                client.ImportSnapshot,
		RegisterImage:                 client.RegisterImage,
		ReleaseHosts:                  client.ReleaseHosts,
		RunInstances:                  client.RunInstances,
		TerminateInstances:            client.TerminateInstances,
	}
}
