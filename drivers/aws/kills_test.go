//go:build integration

package aws

import (
	"context"
	"io"
	"maps"
	"net/http"
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
	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// changes describes a call that changes something. Those of S3 are a method and a path.
func changes(r *http.Request) string {
	action := awstest.ActionOf(r)
	if slices.ContainsFunc([]string{"Describe", "Get", "List", "GET ", "HEAD "}, func(verb string) bool { return strings.HasPrefix(action, verb) }) {
		return ""
	}
	return action
}

// objectsOf returns the objects with tags of npctl: instances that are not terminated, volumes, snapshots, images, launch
// templates, hosts that are not released; and the objects of the bucket with unfinished uploads. moto has hundreds of others, and
// creates no tags of the volumes of fleets.
func objectsOf(t *testing.T, bucket string) (all []string) {
	t.Helper()
	ctx, client, owned := t.Context(), sdk(t), []types.Filter{filter("tag-key", "npctl_installation")}
	add := func(kind string, id *string) { all = append(all, kind+" "+aws.ToString(id)) }
	instances, err := client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: append(owned, filter("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down"))})
	testutil.Must(t, err)
	for _, r := range instances.Reservations {
		for _, i := range r.Instances {
			add("instance", i.InstanceId)
		}
	}
	volumes, err := client.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: owned})
	testutil.Must(t, err)
	for _, v := range volumes.Volumes {
		add("volume", v.VolumeId)
	}
	self := []string{"self"}
	snapshots, err := client.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{OwnerIds: self, Filters: owned})
	testutil.Must(t, err)
	for _, s := range snapshots.Snapshots {
		add("snapshot", s.SnapshotId)
	}
	images, err := client.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: self, Filters: owned})
	testutil.Must(t, err)
	for _, i := range images.Images {
		add("image", i.ImageId)
	}
	templates, err := client.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: owned})
	testutil.Must(t, err)
	for _, one := range templates.LaunchTemplates {
		add("template", one.LaunchTemplateId)
	}
	hosts, err := client.DescribeHosts(ctx, &ec2.DescribeHostsInput{Filter: append(owned, filter("state", "available"))})
	testutil.Must(t, err)
	for _, h := range hosts.Hosts {
		add("host", h.HostId)
	}
	if bucket != "" {
		all = append(all, storedIn(t, bucket)...)
	}
	slices.Sort(all)
	return all
}

func storage(t *testing.T) *s3.Client {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(uncanceled(t), config.WithRegion("us-east-1"))
	testutil.Must(t, err)
	return s3.NewFromConfig(cfg)
}

func storedIn(t *testing.T, bucket string) (all []string) {
	t.Helper()
	objects, err := storage(t).ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	testutil.Must(t, err)
	for _, o := range objects.Contents {
		all = append(all, "object "+aws.ToString(o.Key))
	}
	uploads, err := storage(t).ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String(bucket)})
	testutil.Must(t, err)
	for _, u := range uploads.Uploads {
		all = append(all, "upload "+aws.ToString(u.UploadId))
	}
	return all
}

// importing uploads images by imports, which the suite does not know.
type importing struct{ *Cloud }

func (c *importing) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	values := New().Schema().Image.Null().AsValueMap()
	values["import_method"] = cty.StringVal(methodSnapshot)
	spec.Config = cty.ObjectVal(values)
	return c.Cloud.UploadImage(ctx, spec, content)
}

// killSetup is a project for clients that are killed, in an empty moto. With a bucket, images are imported.
func killSetup(t *testing.T, bucket string, offer map[string]cty.Value) drivertest.Setup {
	t.Helper()
	resetMoto(t)
	s := motoSetup(t, offerConfig(offer))
	settings := map[string]cty.Value{}
	if bucket != "" {
		_, err := storage(t).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)})
		testutil.Must(t, err)
		settings["bucket"] = cty.StringVal(bucket)
	}
	w := &wire{}
	open := func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
		t.Helper()
		c, err := openBy(t.Context(), wrap, maps.Clone(settings))
		testutil.Must(t, err)
		t.Cleanup(func() { c.Close() })
		if bucket != "" {
			return &importing{c}
		}
		return c
	}
	s.Cloud = open(t, w.wrap)
	s.Reopen = nil // each new client reads the lists of names, which takes moto seconds
	s.Kill = func(t *testing.T, k *testutil.Killer) drivers.Cloud {
		return open(t, func(next http.RoundTripper) http.RoundTripper { return k.Transport(w.wrap(next), changes) })
	}
	s.Objects = func(t *testing.T) []string { return objectsOf(t, bucket) }
	return s
}

func TestMotoContractOfKills(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup { return killSetup(t, "", nil) }, "Kills", "ImageKills")
}

func TestMotoContractOfKillsOfFleets(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		return killSetup(t, "", map[string]cty.Value{"allocation_strategy": cty.StringVal("prioritized")})
	}, "Kills")
}

func TestMotoContractOfKillsOfDedicatedHosts(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		return killSetup(t, "", map[string]cty.Value{"dedicated_host": cty.True, "availability_zones": words(motoZone)})
	}, "Kills")
}

func TestMotoContractOfKillsOfImports(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup { return killSetup(t, testBucket, nil) }, "ImageKills")
}
