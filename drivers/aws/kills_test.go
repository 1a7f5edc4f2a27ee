//go:build integration

package aws

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
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
// templates, hosts that are not released. moto has hundreds of others.
func objectsOf(t *testing.T) (all []string) {
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
	slices.Sort(all)
	return all
}

// killSetup is a project for clients that are killed, in an empty moto.
func killSetup(t *testing.T, offer map[string]cty.Value) drivertest.Setup {
	t.Helper()
	resetMoto(t)
	s := motoSetup(t, offerConfig(offer))
	w := &wire{}
	open := func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
		t.Helper()
		c, err := openBy(t.Context(), wrap, map[string]cty.Value{})
		testutil.Must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	s.Cloud = open(t, w.wrap)
	s.Reopen = nil // each new client reads the lists of names, which takes moto seconds
	s.Kill = func(t *testing.T, k *testutil.Killer) drivers.Cloud {
		return open(t, func(next http.RoundTripper) http.RoundTripper { return k.Transport(w.wrap(next), changes) })
	}
	s.Objects = objectsOf
	return s
}

// Kills of fleets and imports are in test/aws.
func TestMotoContractOfKills(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup { return killSetup(t, nil) }, "Kills", "ImageKills")
}

func TestMotoContractOfKillsOfDedicatedHosts(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		s := killSetup(t, map[string]cty.Value{"dedicated_host": cty.True, "availability_zones": words(motoZone)})
		s.Foreign = nil // a released instance stays on its host, which cannot be released then
		return s
	}, "Kills")
}
