package aws

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// sweeper implements drivers.Sweeper, the part of Cloud that finds and deletes leftovers.
type sweeper struct {
	*imageStore
	log *slog.Logger
}

// Leftovers implements drivers.Sweeper: objects of all kinds with ownership tags, one list for each kind.
func (w *sweeper) Leftovers(ctx context.Context) ([]resources.Leftover, error) {
	var found []resources.Leftover
	for _, kind := range w.leftoverKinds() {
		some, err := kind.list(ctx, ownedFilter())
		if kind.optional && isPermission(codeOf(err)) {
			w.log.Debug("leftovers are not listed", "type", kind.name, "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return slices.DeleteFunc(found, func(l resources.Leftover) bool { return l.Marks.Installation == "" }), nil
}

// leftoverKind is a kind of objects that npctl creates.
type leftoverKind struct {
	name     string
	filter   string // of IDs; "" if EC2 has none
	optional bool   // only some configurations need the permission to list them
	list     func(context.Context, []types.Filter) ([]resources.Leftover, error)
	remove   func(context.Context, string) error
}

func (w *sweeper) leftoverKinds() []leftoverKind {
	return []leftoverKind{
		{resources.LeftoverVolume, "volume-id", false, w.volumes, w.deleteVolume},
		{resources.LeftoverPort, "network-interface-id", false, w.interfaces, w.deleteInterface},
		{resources.LeftoverSnapshot, "snapshot-id", false, w.leftSnapshots, w.removeSnapshot},
		{resources.LeftoverObject, "", false, func(ctx context.Context, _ []types.Filter) ([]resources.Leftover, error) { return w.objects(ctx) }, w.removeObject},
		{resources.LeftoverLaunchTemplate, "", true, w.leftTemplates, w.deleteTemplate},
		{resources.LeftoverHost, "", true, w.leftHosts, w.releaseHost},
	}
}

// volumes lists the volumes that match all filters.
func (a *calls) volumes(ctx context.Context, filters []types.Filter) ([]types.Volume, error) {
	return list("list volumes", func(token *string) (*ec2.DescribeVolumesOutput, error) {
		return a.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: filters, MaxResults: aws.Int32(pageSize), NextToken: token})
	}, func(p *ec2.DescribeVolumesOutput) ([]types.Volume, *string) { return p.Volumes, p.NextToken })
}

func (w *sweeper) volumes(ctx context.Context, filters []types.Filter) (found []resources.Leftover, err error) {
	all, err := w.ec2.volumes(ctx, filters)
	for _, v := range all {
		l := leftoverOf(resources.LeftoverVolume, v.VolumeId, v.Tags, aws.ToString(v.SnapshotId))
		if len(v.Attachments) > 0 {
			l.InUse, l.Server = true, aws.ToString(v.Attachments[0].InstanceId)
		}
		found = append(found, l)
	}
	return found, err
}

func (w *sweeper) interfaces(ctx context.Context, filters []types.Filter) (found []resources.Leftover, err error) {
	all, err := list("list network interfaces", func(token *string) (*ec2.DescribeNetworkInterfacesOutput, error) {
		return w.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: filters, MaxResults: aws.Int32(pageSize), NextToken: token})
	}, func(p *ec2.DescribeNetworkInterfacesOutput) ([]types.NetworkInterface, *string) {
		return p.NetworkInterfaces, p.NextToken
	})
	for _, n := range all {
		l := leftoverOf(resources.LeftoverPort, n.NetworkInterfaceId, n.TagSet)
		if n.Attachment != nil {
			l.InUse, l.Server = true, aws.ToString(n.Attachment.InstanceId)
		}
		found = append(found, l)
	}
	return found, err
}

// leftSnapshots lists snapshots and imports. The snapshot of an AMI with the same ownership tags is in use: DeleteImage deletes both.
func (w *sweeper) leftSnapshots(ctx context.Context, filters []types.Filter) ([]resources.Leftover, error) {
	found, err := w.imports(ctx)
	if err != nil {
		return nil, err
	}
	snapshots, err := w.snapshots(ctx, filters)
	if err != nil || len(snapshots) == 0 {
		return found, err
	}
	images, err := w.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	used := map[resources.OwnerTags]bool{}
	for _, i := range images {
		used[recordOf(i.Marks)] = true
	}
	for _, s := range snapshots {
		l := leftoverOf(resources.LeftoverSnapshot, s.SnapshotId, s.Tags)
		l.InUse = used[recordOf(l.Marks)]
		found = append(found, l)
	}
	return found, nil
}

// recordOf returns the ownership tags that name the record.
func recordOf(m resources.OwnerTags) resources.OwnerTags {
	return resources.OwnerTags{Installation: m.Installation, Kind: m.Kind, ID: m.ID}
}

// leftoverOf converts an object; origins are the names of drivers.OwnerOf besides the ID.
func leftoverOf(kind string, id *string, list []types.Tag, origins ...string) resources.Leftover {
	tags, of := tagMap(list), drivers.OfServer
	if kind == resources.LeftoverSnapshot {
		of = drivers.OfImage
	}
	return resources.Leftover{Type: kind, ID: aws.ToString(id), Name: cmp.Or(tags[tagName], aws.ToString(id)), Marks: drivers.OwnerOf(tags, of, append(origins, aws.ToString(id))...)}
}

// DeleteLeftover implements drivers.Sweeper. It reads the object again before it deletes it: npctl must not delete an
// object that has lost its ownership tags since the listing, or that is in use now.
func (w *sweeper) DeleteLeftover(ctx context.Context, l resources.Leftover) error {
	kinds := w.leftoverKinds()
	k := slices.IndexFunc(kinds, func(k leftoverKind) bool { return k.name == l.Type })
	if k < 0 {
		return fmt.Errorf("%w: delete leftover %s: %q is not a kind that this driver creates", drivers.ErrRejected, l.ID, l.Type)
	}
	kind, filters := kinds[k], ownedFilter()
	if kind.filter != "" {
		filters = []types.Filter{filter(kind.filter, l.ID)}
	}
	found, err := kind.list(ctx, filters)
	found = slices.DeleteFunc(found, func(o resources.Leftover) bool { return o.ID != l.ID })
	if err != nil || len(found) == 0 {
		return err
	}
	now := found[0]
	if err := cloudkit.CheckLeftover(l, now); err != nil {
		return err
	}
	return kind.remove(ctx, l.ID)
}

func (w *sweeper) deleteVolume(ctx context.Context, id string) error {
	_, err := w.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String(id)})
	return unlessMissing(wrap("delete volume "+id, err))
}

func (w *sweeper) deleteInterface(ctx context.Context, id string) error {
	_, err := w.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String(id)})
	return unlessMissing(wrap("delete network interface "+id, err))
}

func unlessMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}
