package aws

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// cleanupLimit is the maximum duration of the cleanup after a failed upload.
const cleanupLimit = 30 * time.Second

// UploadImage implements drivers.ImageStore: it writes the blocks of an EBS snapshot (see blocks.go), or imports one through S3
// (see import.go), and registers an AMI with it. EBS verifies the checksum of each block and that of all.
func (st *imageStore) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	doing := "upload image " + spec.Name
	if spec.MaybeCreated {
		if err := st.deleteEarlier(ctx, spec.Marks); err != nil {
			return resources.RemoteImage{}, fmt.Errorf("%s: delete the image of an earlier attempt: %w", doing, err)
		}
	}
	var settings imageSettings
	if err := cloudkit.Decode(spec.Config, &settings); err != nil {
		return resources.RemoteImage{}, err
	}
	if problem := st.methodProblem(settings.ImportMethod); problem != "" {
		return resources.RemoteImage{}, drivers.Unsent(fmt.Errorf("%s: %w: %s", doing, drivers.ErrRejected, problem))
	}
	isImport := settings.ImportMethod != methodDirect
	tags, err := imageTags(spec, st.format)
	if err != nil {
		return resources.RemoteImage{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	write := st.writeSnapshot
	if isImport {
		write = st.importObject
	}
	id, err := write(ctx, spec, settings, tags, content)
	if err == nil {
		var made resources.RemoteImage
		if made, err = st.registered(ctx, spec, settings, tags, id); err == nil {
			return made, nil
		}
	}
	if drivers.IsNothingDone(err) && id == "" && !isImport {
		return resources.RemoteImage{}, err
	}
	err = cloudkit.CleanUp(ctx, cleanupLimit, err, "the snapshot was not deleted", func(ctx context.Context) error { return st.deleteEarlier(ctx, spec.Marks) })
	return resources.RemoteImage{}, fmt.Errorf("%s: %w", doing, err)
}

// Methods of uploads: the values of import_method.
const (
	methodDirect   = "ebs-direct"
	methodSnapshot = "snapshot"
	methodImage    = "image"
)

// methodProblem explains why a method does not suit the provider, or returns "".
func (st *imageStore) methodProblem(method string) string {
	switch {
	case method != methodDirect && st.bucket.name == "":
		return fmt.Sprintf("import_method %q needs a bucket; set bucket in the provider block", method)
	case method != methodImage && slices.Contains([]string{"ova", "vhdx"}, st.format):
		return fmt.Sprintf("image_format %q needs import_method %q", st.format, methodImage)
	case method == methodDirect && st.format != formatRaw:
		return fmt.Sprintf("image_format %q needs import_method %q or %q", st.format, methodSnapshot, methodImage)
	default:
		return ""
	}
}

// registered registers the AMI of a snapshot, unless the upload has made an AMI, and waits for it.
func (st *imageStore) registered(ctx context.Context, spec drivers.ImageSpec, settings imageSettings, tags map[string]string, id string) (made resources.RemoteImage, err error) {
	if settings.ImportMethod != methodImage {
		if id, err = st.register(ctx, spec, settings, tags, id); err == nil {
			err = st.tagObjects(ctx, nil, id)
		}
		if err != nil {
			return resources.RemoteImage{}, err
		}
	}
	return st.waitImage(ctx, id)
}

// deleteEarlier deletes the AMIs, snapshots, import tasks and objects with these ownership tags.
func (st *imageStore) deleteEarlier(ctx context.Context, marks resources.OwnerTags) error {
	images, err := st.describe(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: tagFilter(marks)})
	if err != nil {
		return err
	}
	for _, i := range images {
		if !remoteImage(i).Marks.SameRecord(marks) {
			continue
		}
		if err := st.DeleteImage(ctx, aws.ToString(i.ImageId), marks); err != nil {
			return err
		}
	}
	if err := st.deleteImports(ctx, marks); err != nil {
		return err
	}
	return st.deleteSnapshots(ctx, marks)
}

// snapshots lists the account's own snapshots.
func (st *imageStore) snapshots(ctx context.Context, filters []types.Filter) ([]types.Snapshot, error) {
	return list("list snapshots", func(token *string) (*ec2.DescribeSnapshotsOutput, error) {
		return st.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, Filters: filters, MaxResults: aws.Int32(pageSize), NextToken: token})
	}, func(p *ec2.DescribeSnapshotsOutput) ([]types.Snapshot, *string) { return p.Snapshots, p.NextToken })
}

// imageTags returns the tags of the snapshot and the AMI.
func imageTags(spec drivers.ImageSpec, format string) (map[string]string, error) {
	tags := cloudkit.ImageTags(spec, format)
	tags[tagName] = spec.Name
	tags[drivers.TagObject] = "" // counts: tagObjects sets it
	defer delete(tags, drivers.TagObject)
	return tags, validateTags(tags)
}

// tagObjects gives objects the tags and drivers.TagObject, in one call. Until then the objects of an upload have no copies.
func (st *imageStore) tagObjects(ctx context.Context, tags map[string]string, ids ...string) error {
	all := map[string]string{drivers.TagObject: strings.Join(ids, " ")}
	maps.Copy(all, tags)
	_, err := st.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: tagList(all)})
	return wrap("tag "+strings.Join(ids, ", "), err)
}

const gib = 1 << 30

func description(spec drivers.ImageSpec) *string { return aws.String("npctl image " + spec.Name) }

func (st *imageStore) startSnapshot(ctx context.Context, spec drivers.ImageSpec, settings imageSettings, tags map[string]string) (string, error) {
	in := &ebs.StartSnapshotInput{VolumeSize: aws.Int64(max((spec.Size+gib-1)/gib, 1)), Description: description(spec)}
	if settings.isEncrypted() {
		in.Encrypted = aws.Bool(true)
	}
	in.KmsKeyArn = settings.kmsKey()
	for _, t := range tagList(tags) {
		in.Tags = append(in.Tags, ebstypes.Tag{Key: t.Key, Value: t.Value})
	}
	answer, err := st.ebs.StartSnapshot(ctx, in)
	if err != nil {
		return "", wrap("start a snapshot for image "+spec.Name, err)
	}
	return aws.ToString(answer.SnapshotId), nil
}

// writeSnapshot writes and completes a snapshot.
func (st *imageStore) writeSnapshot(ctx context.Context, spec drivers.ImageSpec, settings imageSettings, tags map[string]string, content io.Reader) (string, error) {
	snapshot, err := st.startSnapshot(ctx, spec, settings, tags)
	if err != nil {
		return "", err
	}
	if err := st.tagObjects(ctx, nil, snapshot); err != nil {
		return snapshot, err
	}
	written, err := st.writeBlocks(ctx, spec, snapshot, content)
	if err != nil {
		return snapshot, err
	}
	_, err = st.ebs.CompleteSnapshot(ctx, &ebs.CompleteSnapshotInput{
		SnapshotId: aws.String(snapshot), ChangedBlocksCount: aws.Int32(written.count), Checksum: aws.String(written.checksum),
		ChecksumAlgorithm: ebstypes.ChecksumAlgorithmChecksumAlgorithmSha256, ChecksumAggregationMethod: ebstypes.ChecksumAggregationMethodChecksumAggregationLinear,
	})
	if err != nil {
		return snapshot, wrap("complete snapshot "+snapshot, err)
	}
	return snapshot, st.waitSnapshot(ctx, snapshot)
}

// otherCharacters are the characters that the name of an AMI must not contain.
var otherCharacters = drivers.Pattern(`[^a-zA-Z0-9()\[\] ./'@_-]`)

// maxImageName is the length of the name of an AMI.
const maxImageName = 128

// amiName returns the name of an AMI, which is unique in its region and has 3 to 128 characters.
func amiName(name string) string {
	name = otherCharacters().ReplaceAllString(name, "-")
	for len(name) < 3 {
		name += "-"
	}
	return name[:min(len(name), maxImageName)]
}

const rootDevice = "/dev/sda1"

func (st *imageStore) register(ctx context.Context, spec drivers.ImageSpec, s imageSettings, tags map[string]string, snapshot string) (string, error) {
	device := &types.EbsBlockDevice{SnapshotId: aws.String(snapshot), DeleteOnTermination: aws.Bool(true), VolumeType: types.VolumeType(s.VolumeType)}
	for _, option := range []struct {
		value int64
		to    **int32
	}{{s.VolumeSize, &device.VolumeSize}, {s.IOPS, &device.Iops}, {s.Throughput, &device.Throughput}} {
		if option.value > 0 {
			*option.to = aws.Int32(int32(option.value)) //nolint:gosec // checked by EC2
		}
	}
	in := &ec2.RegisterImageInput{
		Name: aws.String(amiName(spec.Name)), Architecture: types.ArchitectureValues(s.Architecture), VirtualizationType: aws.String("hvm"),
		RootDeviceName: aws.String(rootDevice), BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: aws.String(rootDevice), Ebs: device}},
		EnaSupport: aws.Bool(s.ENASupport), BootMode: types.BootModeValues(s.BootMode), ImdsSupport: types.ImdsSupportValues(s.IMDSSupport),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeImage, Tags: tagList(tags)}},
	}
	answer, err := st.ec2.RegisterImage(ctx, in)
	if err != nil {
		return "", wrap("register the AMI of snapshot "+snapshot, err)
	}
	return aws.ToString(answer.ImageId), nil
}

// waitImage waits until instances can boot from an AMI, usually right after its registration.
func (st *imageStore) waitImage(ctx context.Context, id string) (made resources.RemoteImage, err error) {
	err = cloudkit.Poll(ctx, "AMI "+id, func() (bool, error) {
		i, found, err := st.image(ctx, id)
		if err != nil || !found {
			return false, err
		}
		if made = remoteImage(i); made.Status == resources.StatusReady || made.Status == resources.StatusPending {
			return made.Status == resources.StatusReady, nil
		}
		reason := ""
		if i.StateReason != nil {
			reason = ": " + clean(aws.ToString(i.StateReason.Message))
		}
		return false, fmt.Errorf("AMI %s is %s%s", id, i.State, reason)
	})
	return made, err
}
