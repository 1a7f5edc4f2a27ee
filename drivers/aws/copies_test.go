//go:build integration

package aws

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// copier makes copies with tags, as DLM, AWS Backup and people do.
type copier struct {
	*testing.T
	*ec2.Client
	made []drivertest.Foreign
}

func (c *copier) add(id string, tags []types.Tag, isMissing func(ctx context.Context) (bool, error)) string {
	c.Helper()
	_, err := c.CreateTags(c.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags})
	testutil.Must(c.T, err)
	c.made = append(c.made, drivertest.Foreign{ID: id, Stays: func() error {
		missing, err := isMissing(c.Context())
		if err == nil && missing {
			err = errors.New(id + " was deleted")
		}
		return err
	}})
	return id
}

func (c *copier) snapshot(id string, tags []types.Tag) string {
	return c.add(id, tags, func(ctx context.Context) (bool, error) {
		found, err := c.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
		return err == nil && len(found.Snapshots) == 0, err
	})
}

func (c *copier) image(id string, tags []types.Tag) {
	c.add(id, tags, func(ctx context.Context) (bool, error) {
		found, err := c.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
		return err == nil && len(found.Images) == 0, err
	})
}

func (c *copier) volume(snapshot string, tags []types.Tag) string {
	made, err := c.CreateVolume(c.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String(motoZone), SnapshotId: aws.String(snapshot), Size: aws.Int32(100)})
	testutil.Must(c.T, err)
	id := aws.ToString(made.VolumeId)
	return c.add(id, tags, func(ctx context.Context) (bool, error) {
		found, err := c.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
		return err == nil && len(found.Volumes) == 0, err
	})
}

func (c *copier) snapshotOf(volume string) string {
	made, err := c.CreateSnapshot(c.Context(), &ec2.CreateSnapshotInput{VolumeId: aws.String(volume), Description: aws.String("backup")})
	testutil.Must(c.T, err)
	return aws.ToString(made.SnapshotId)
}

func (c *copier) instance(image string, tags []types.Tag) {
	made, err := c.RunInstances(c.Context(), &ec2.RunInstancesInput{ImageId: aws.String(image), InstanceType: "t3.small", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
	testutil.Must(c.T, err)
	id := aws.ToString(made.Instances[0].InstanceId)
	c.add(id, tags, func(ctx context.Context) (bool, error) {
		found, err := c.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		return err == nil && found.Reservations[0].Instances[0].State.Name != types.InstanceStateNameRunning, err
	})
}

func (c *copier) networkInterface(tags []types.Tag) {
	subnets, err := c.DescribeSubnets(c.Context(), &ec2.DescribeSubnetsInput{})
	testutil.Must(c.T, err)
	made, err := c.CreateNetworkInterface(c.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: subnets.Subnets[0].SubnetId})
	testutil.Must(c.T, err)
	id := aws.ToString(made.NetworkInterface.NetworkInterfaceId)
	c.add(id, tags, func(ctx context.Context) (bool, error) {
		found, err := c.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{id}})
		return err == nil && len(found.NetworkInterfaces) == 0, err
	})
}

func (c *copier) host(tags []types.Tag) {
	made, err := c.AllocateHosts(c.Context(), &ec2.AllocateHostsInput{InstanceType: aws.String("t3.small"), AvailabilityZone: aws.String(motoZone), Quantity: aws.Int32(1)})
	testutil.Must(c.T, err)
	id := made.HostIds[0]
	c.add(id, tags, func(context.Context) (bool, error) { return false, hostStays(c.T, id) })
}

func (c *copier) template(name string, tags []types.Tag) {
	made, err := c.CreateLaunchTemplate(c.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name),
		LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "t3.small"},
		TagSpecifications:  []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: tags}}}) // moto ignores later ones
	testutil.Must(c.T, err)
	id := aws.ToString(made.LaunchTemplate.LaunchTemplateId)
	c.add(id, tags, func(context.Context) (bool, error) { return false, templateStays(c.T, id) })
}

// templateTags returns the tags of the launch template of an instance, or nil.
func (c *copier) templateTags(i types.Instance) []types.Tag {
	name := tagMap(i.Tags)[tagTemplate]
	if name == "" {
		return nil
	}
	found, err := c.DescribeLaunchTemplates(c.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{name}})
	testutil.Must(c.T, err)
	return found.LaunchTemplates[0].Tags
}

func copiesOf(t *testing.T, kind resources.Kind, original string) []drivertest.Foreign {
	t.Helper()
	c := &copier{T: t, Client: sdk(t)}
	if kind == resources.KindNode {
		c.ofInstance(original)
	} else {
		c.ofImage(original)
	}
	return c.made
}

// neighbours creates objects of others with the names of a node and an upload, and with tags like those of npctl that name no
// installation.
func neighbours(t *testing.T, node drivers.Spec, upload drivers.ImageSpec) []drivertest.Foreign {
	t.Helper()
	c := &copier{T: t, Client: sdk(t)}
	named := func(name string) []types.Tag {
		return tagList(map[string]string{tagName: name, drivers.TagOfID(node.Marks.Kind): node.Marks.ID, "npctl_label": node.Marks.Label})
	}
	c.instance(motoImage, named(node.Hostname))
	c.instance(motoImage, named(node.Hostname+"-old"))
	image, err := c.CreateImage(t.Context(), &ec2.CreateImageInput{InstanceId: aws.String(c.made[0].ID), Name: aws.String(upload.Name + "-of-others")})
	testutil.Must(t, err)
	c.image(aws.ToString(image.ImageId), named(upload.Name))
	c.volume(c.snapshot(c.snapshotOf(newVolume(t, nil)), named(upload.Name)), named(node.Hostname))
	c.networkInterface(named(node.Hostname))
	c.host(named(node.Hostname))
	return c.made
}

func (c *copier) ofInstance(id string) {
	found, err := c.DescribeInstances(c.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	testutil.Must(c.T, err)
	i := found.Reservations[0].Instances[0]
	volume := aws.ToString(i.BlockDeviceMappings[0].Ebs.VolumeId)
	volumes, err := c.DescribeVolumes(c.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{volume}})
	testutil.Must(c.T, err)
	ofVolume, template := volumes.Volumes[0].Tags, c.templateTags(i)
	if template != nil {
		c.template("copy of "+id, template)
	} else {
		c.volume(c.snapshot(c.snapshotOf(volume), ofVolume), ofVolume) // moto tags no volumes of fleets
	}
	older := tagList(drivertest.WithoutObject(tagMap(i.Tags)))
	c.snapshot(c.snapshotOf(volume), older)
	made, err := c.CreateImage(c.Context(), &ec2.CreateImageInput{InstanceId: i.InstanceId, Name: aws.String("AwsBackup_" + id)})
	testutil.Must(c.T, err)
	c.image(aws.ToString(made.ImageId), older)
	if tagMap(i.Tags)[drivers.TagObject] == "" {
		return // the tags of an instance of a fleet distinguish nothing of these types
	}
	c.instance(aws.ToString(i.ImageId), i.Tags)
	c.networkInterface(i.Tags)
	c.host(i.Tags)
	c.template("like "+id, i.Tags)
}

func (c *copier) ofImage(id string) {
	found, err := c.DescribeImages(c.Context(), &ec2.DescribeImagesInput{ImageIds: []string{id}})
	testutil.Must(c.T, err)
	i := found.Images[0]
	made, err := c.CopyImage(c.Context(), &ec2.CopyImageInput{SourceImageId: aws.String(id), SourceRegion: aws.String("us-east-1"), Name: aws.String("copy of " + id)})
	testutil.Must(c.T, err)
	c.image(aws.ToString(made.ImageId), i.Tags)
	snapshots, err := c.DescribeSnapshots(c.Context(), &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, Filters: tagFilter(remoteImage(i).Marks)})
	testutil.Must(c.T, err)
	for _, s := range snapshots.Snapshots {
		copied, err := c.CopySnapshot(c.Context(), &ec2.CopySnapshotInput{SourceSnapshotId: s.SnapshotId, SourceRegion: aws.String("us-east-1")})
		testutil.Must(c.T, err)
		c.volume(c.snapshot(aws.ToString(copied.SnapshotId), s.Tags), s.Tags)
	}
	if len(snapshots.Snapshots) != 1 {
		c.Fatalf("the image has %d snapshots with its tags", len(snapshots.Snapshots))
	}
	older := tagList(drivertest.WithoutObject(tagMap(i.Tags)))
	c.instance(id, older)
	c.networkInterface(older)
	c.host(older)
}

// A repeated upload deletes what its own earlier attempts have left, and nothing of other uploads.
func TestMotoObjectOfAnotherUploadStays(t *testing.T) {
	c := importCloud(t, &wire{})
	content := []byte(strings.Repeat("x", 5000))
	spec := importSpec(content, nil)
	other := spec
	other.Marks.ID = "0000000002"
	testutil.Must(t, c.putObject(t.Context(), other, objectKey(other, c.format), bytes.NewReader(content)))
	spec.MaybeCreated = true
	_, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	if left := leftoversOf(t, c, resources.LeftoverObject); len(left) != 1 || !left[0].Marks.SameRecord(other.Marks) {
		t.Errorf("objects are %v, want that of the other upload", left)
	}
}

// importing is a Cloud with one import method for all uploads.
type importing struct {
	*Cloud
	method string
}

func (c *importing) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	spec.Format = c.format
	spec.Config = importSpec(nil, map[string]cty.Value{"import_method": cty.StringVal(c.method)}).Config
	return c.Cloud.UploadImage(ctx, spec, content)
}

// objectCopies copies the object from which an image was imported, with its tags.
func objectCopies(t *testing.T, c *Cloud, image string) (copies []drivertest.Foreign) {
	t.Helper()
	i, _, err := c.image(t.Context(), image)
	testutil.Must(t, err)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"))
	testutil.Must(t, err)
	client, marks, tagging := s3.NewFromConfig(cfg), remoteImage(i).Marks, url.Values{}
	for name, value := range drivers.EncodeTags(marks) {
		tagging.Set(name, value)
	}
	key := objectKey(drivers.ImageSpec{Marks: marks}, c.format)
	dir, name := path.Split(key)
	for _, id := range []string{key + ".copy", dir + "Copy of " + name, dir + "old/" + name, "backup/" + key} {
		_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(testBucket), Key: aws.String(id), Body: strings.NewReader("x"), Tagging: aws.String(tagging.Encode())})
		testutil.Must(t, err)
		copies = append(copies, drivertest.Foreign{ID: id, Stays: func() error {
			_, err := client.HeadObject(uncanceled(t), &s3.HeadObjectInput{Bucket: aws.String(testBucket), Key: aws.String(id)})
			return err
		}})
	}
	return copies
}

func TestMotoContractOfImports(t *testing.T) {
	for _, method := range []string{methodSnapshot, methodImage} {
		t.Run(method, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.Setup {
				c := importCloud(t, &wire{})
				s := motoSetup(t, offerConfig(nil))
				s.Cloud, s.Reopen, s.Calls = &importing{c, method}, nil, nil
				s.Copies = func(t *testing.T, kind resources.Kind, original string) []drivertest.Foreign {
					copies := copiesOf(t, kind, original)
					if kind == resources.KindUpload {
						copies = append(copies, objectCopies(t, c, original)...)
					}
					return copies
				}
				return s
			}, "Copies")
		})
	}
}

func TestMotoImportWithoutTagsIsForeign(t *testing.T) {
	for _, method := range []string{methodSnapshot, methodImage} {
		content := []byte(strings.Repeat("x", 5000))
		c := importCloud(t, &wire{})
		spec := importSpec(content, map[string]cty.Value{"import_method": cty.StringVal(method)})
		made, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content))
		testutil.Must(t, err)
		var ids []string
		images, err := c.describe(t.Context(), &ec2.DescribeImagesInput{Filters: tagFilter(spec.Marks)})
		testutil.Must(t, err)
		for _, i := range images {
			ids = append(ids, aws.ToString(i.ImageId))
		}
		snapshots, err := c.snapshots(t.Context(), tagFilter(spec.Marks))
		testutil.Must(t, err)
		for _, s := range snapshots {
			ids = append(ids, aws.ToString(s.SnapshotId))
		}
		for _, i := range images {
			_, err = sdk(t).DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: ids, Tags: i.Tags})
			testutil.Must(t, err)
		}
		if left := remains(t, c); len(left) > 0 || len(ids) != 2 {
			t.Errorf("%s: leftovers after a person has removed the tags of %v: %v", method, ids, left)
		}
		testutil.Must(t, c.deleteEarlier(t.Context(), spec.Marks))
		if _, exists, err := c.image(t.Context(), made.ID); err != nil || !exists {
			t.Errorf("%s: image %s exists: %t, %v", method, made.ID, exists, err)
		}
	}
}

// Tasks of older versions of npctl have no npctl_object.
func TestMotoReleaseClearsTasksOfOlderVersions(t *testing.T) {
	for _, method := range []string{methodSnapshot, methodImage} {
		content := []byte(strings.Repeat("x", 5000))
		c := importCloud(t, &wire{})
		spec := importSpec(content, map[string]cty.Value{"import_method": cty.StringVal(method)})
		made, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content))
		testutil.Must(t, err)
		kept := spec
		kept.Marks.ID, kept.Name = "0000000002", "kept"
		_, err = c.UploadImage(t.Context(), kept, bytes.NewReader(content))
		testutil.Must(t, err)
		if left := remains(t, c); len(left) > 0 {
			t.Errorf("%s: leftovers of complete imports: %v", method, left)
		}
		tasks := func() (all []importTask) {
			for _, list := range []func(context.Context, ...string) ([]importTask, error){c.imageTasks, c.snapshotTasks} {
				some, err := list(t.Context())
				testutil.Must(t, err)
				all = append(all, some...)
			}
			return all
		}
		for _, task := range tasks() {
			testutil.Must(t, c.removeTags(t.Context(), []string{task.id}, []string{drivers.TagObject}))
		}
		testutil.Must(t, c.Release(t.Context(), made.ID, spec.Marks))
		if !slices.ContainsFunc(tasks(), func(i importTask) bool { return i.marks.SameRecord(kept.Marks) }) {
			t.Errorf("%s: the tasks of another record lost their tags", method)
		}
		if left := remains(t, c); len(left) > 0 {
			t.Errorf("%s: leftovers of a released image: %v", method, left)
		}
		if _, exists, err := c.image(t.Context(), made.ID); err != nil || !exists {
			t.Errorf("%s: image %s exists: %t, %v", method, made.ID, exists, err)
		}
	}
}
