package aws

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// imageStore implements drivers.ImageStore, and the image part of drivers.Resolver. An image is an AMI with one EBS
// snapshot.
type imageStore struct {
	ec2    *calls
	ebs    *ebs.Client
	bucket bucket
	format string
}

// formatRaw is the only format that EBS stores as it is.
const formatRaw = "raw"

// ImageFormat implements drivers.ImageStore.
func (st *imageStore) ImageFormat() string { return st.format }

// ListImages implements drivers.ImageStore.
func (st *imageStore) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	found, err := st.describe(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: ownedFilter()})
	if err != nil {
		return nil, err
	}
	var list []resources.RemoteImage
	for _, i := range found {
		if r := remoteImage(i); r.Marks != (resources.OwnerTags{}) && i.State != types.ImageStateDeregistered {
			list = append(list, r)
		}
	}
	return list, nil
}

// describe lists AMIs.
func (st *imageStore) describe(ctx context.Context, in *ec2.DescribeImagesInput) ([]types.Image, error) {
	in.MaxResults = aws.Int32(pageSize)
	return list("list images", func(token *string) (*ec2.DescribeImagesOutput, error) {
		in.NextToken = token
		return st.ec2.DescribeImages(ctx, in)
	}, func(p *ec2.DescribeImagesOutput) ([]types.Image, *string) { return p.Images, p.NextToken })
}

// image reads one AMI; false means that it does not exist.
func (st *imageStore) image(ctx context.Context, id string) (types.Image, bool, error) {
	answer, err := st.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	if err = wrap("read image "+id, err); isMissing(err) || strings.HasPrefix(codeOf(err), "InvalidAMIID") {
		return types.Image{}, false, nil
	}
	if err != nil || len(answer.Images) == 0 || answer.Images[0].State == types.ImageStateDeregistered {
		return types.Image{}, false, err
	}
	return answer.Images[0], true, nil
}

func remoteImage(i types.Image) resources.RemoteImage {
	tags := tagMap(i.Tags)
	r := resources.RemoteImage{
		ID: aws.ToString(i.ImageId), Name: aws.ToString(i.Name), Marks: drivers.OwnerOf(tags, drivers.OfImage, aws.ToString(i.ImageId)), Status: imageStatus(i.State),
		Format: tags[cloudkit.TagFormat], SHA256: tags[cloudkit.TagSHA256], Properties: userTags(tags),
		Architecture: string(i.Architecture),
	}
	if name := tags[tagName]; name != "" && r.Marks.Installation != "" {
		r.Name = name
	}
	r.Size, _ = strconv.ParseInt(tags[cloudkit.TagSize], 10, 64)
	r.Created, _ = time.Parse(time.RFC3339, aws.ToString(i.CreationDate))
	return r
}

func imageStatus(state types.ImageState) resources.Status {
	switch state {
	case types.ImageStateAvailable:
		return resources.StatusReady
	case types.ImageStatePending, types.ImageStateTransient:
		return resources.StatusPending
	case types.ImageStateDeregistered:
		return resources.StatusDeleting
	default: // failed, error, invalid, disabled
		return resources.StatusFailed
	}
}

// DeleteImage implements drivers.ImageStore. It deletes the snapshots after the AMI, because EC2 keeps them with an AMI
// that uses them. It deletes only snapshots with the tags of the image.
func (st *imageStore) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	i, found, err := st.image(ctx, id)
	if err != nil || !found {
		return err
	}
	if err := drivers.CheckOwner("image", id, remoteImage(i).Marks, expected); err != nil {
		return err
	}
	if err := st.deregister(ctx, id); err != nil {
		return err
	}
	if expected.Installation == "" {
		return nil // of an adopted image without tags nothing else is npctl's
	}
	return st.deleteSnapshots(ctx, expected)
}

func (st *imageStore) deregister(ctx context.Context, id string) error {
	_, err := st.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: aws.String(id)})
	if err = wrap("delete image "+id, err); isMissing(err) || strings.HasPrefix(codeOf(err), "InvalidAMIID") {
		return nil
	}
	return err
}

// deleteSnapshots deletes the snapshots with these ownership tags. After a failure Leftovers lists them.
func (st *imageStore) deleteSnapshots(ctx context.Context, marks resources.OwnerTags) error {
	snapshots, err := st.snapshots(ctx, tagFilter(marks))
	if err != nil {
		return err
	}
	for _, s := range snapshots {
		if !leftoverOf(resources.LeftoverSnapshot, s.SnapshotId, s.Tags).Marks.SameRecord(marks) {
			continue
		}
		if err := st.deleteSnapshot(ctx, aws.ToString(s.SnapshotId)); err != nil {
			return err
		}
	}
	return nil
}

func (st *imageStore) deleteSnapshot(ctx context.Context, id string) error {
	_, err := st.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: aws.String(id)})
	if err = wrap("delete snapshot "+id, err); isMissing(err) {
		return nil
	}
	return err
}

// snapshot reads one snapshot; false means that it does not exist.
func (st *imageStore) snapshot(ctx context.Context, id string) (types.Snapshot, bool, error) {
	answer, err := st.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
	if err = wrap("read snapshot "+id, err); isMissing(err) {
		return types.Snapshot{}, false, nil
	}
	if err != nil || len(answer.Snapshots) == 0 {
		return types.Snapshot{}, false, err
	}
	return answer.Snapshots[0], true, nil
}

// waitSnapshot waits until a snapshot is complete.
func (st *imageStore) waitSnapshot(ctx context.Context, id string) error {
	return cloudkit.Poll(ctx, "snapshot "+id, func() (bool, error) {
		s, found, err := st.snapshot(ctx, id)
		switch {
		case cloudkit.IsFinal(ctx, err):
			return false, err
		case err != nil: // transient; all blocks are stored
			return false, nil //nolint:nilerr // see IsFinal
		case !found:
			return false, fmt.Errorf("snapshot %s was deleted during the upload", id)
		case s.State == types.SnapshotStateError:
			return false, fmt.Errorf("snapshot %s: %s", id, clean(aws.ToString(s.StateMessage)))
		default:
			return s.State == types.SnapshotStateCompleted, nil
		}
	})
}
