//go:build integration

package aws

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// These tests run against the moto servers that test/clouds/run.sh starts: AWS_ENDPOINT_URL has no authorization,
// NPCTL_TEST_AWS_AUTH has.

const (
	motoImage = "ami-12c6146b" // moto has it from the start
	motoZone  = "us-east-1a"
	secretKey = "wJalrXUtnFEMI-example"
)

func offerConfig(attributes map[string]cty.Value) cty.Value {
	block := New().Schema().Label
	values := block.Null().AsValueMap()
	values["instance_types"] = words("t3.small")
	for name, value := range attributes {
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func words(all ...string) cty.Value {
	var list []cty.Value
	for _, word := range all {
		list = append(list, cty.StringVal(word))
	}
	return cty.ListVal(list)
}

// sdk returns a client of another user of the account.
func sdk(t *testing.T) *ec2.Client {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(uncanceled(t), config.WithRegion("us-east-1"))
	testutil.Must(t, err)
	return ec2.NewFromConfig(cfg)
}

func openFor(ctx context.Context, w *wire) (*Cloud, error) {
	return openWith(ctx, w, map[string]cty.Value{})
}

func openWith(ctx context.Context, w *wire, settings map[string]cty.Value) (*Cloud, error) {
	return openBy(ctx, w.wrap, settings)
}

func openBy(ctx context.Context, wrap func(http.RoundTripper) http.RoundTripper, settings map[string]cty.Value) (*Cloud, error) {
	settings["region"] = cty.StringVal("us-east-1")
	c, err := New().Open(ctx, drivers.Env{Provider: "drivertest", WrapTransport: wrap}, cty.ObjectVal(settings))
	if err != nil {
		return nil, err
	}
	return c.(*Cloud), nil
}

func openRegion(t *testing.T, w *wire) (*Cloud, error) {
	t.Helper()
	c, err := openFor(t.Context(), w)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func mustOpen(t *testing.T, w *wire) *Cloud {
	t.Helper()
	if os.Getenv("AWS_ENDPOINT_URL") == "" {
		t.Fatal("AWS_ENDPOINT_URL is empty; run test/clouds/run.sh")
	}
	c, err := openRegion(t, w)
	testutil.Must(t, err)
	return c
}

// resetMoto deletes everything in moto, which becomes slow with many terminated instances.
func resetMoto(t *testing.T) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, os.Getenv("AWS_ENDPOINT_URL")+"/moto-api/reset", nil)
	testutil.Must(t, err)
	answer, err := http.DefaultClient.Do(request)
	testutil.Must(t, err)
	testutil.Must(t, answer.Body.Close())
}

func motoSetup(t *testing.T, offer cty.Value) drivertest.Setup {
	t.Helper()
	w := &wire{}
	c := mustOpen(t, w)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	creates, full := "RunInstances", quotaFull
	if !offer.GetAttr("allocation_strategy").IsNull() {
		creates, full = "CreateFleet", fleetFull
	}
	return drivertest.Setup{
		Cloud:   c,
		Reopen:  func(t *testing.T) drivers.Cloud { return mustOpen(t, &wire{}) },
		Config:  offer,
		ImageID: motoImage,
		Lacks:   []string{"access", "snapshots"},
		Rejected: map[string]func(*drivers.Spec){
			"unknown image": func(s *drivers.Spec) { s.ImageID = "ami-0000000000000dead" },
			"unknown type": func(s *drivers.Spec) {
				s.Config = offerConfig(map[string]cty.Value{"instance_types": words("t3.smal")})
			},
			"unknown subnet": func(s *drivers.Spec) {
				s.Config = offerConfig(map[string]cty.Value{"subnet_ids": words("subnet-0000dead")})
			},
			"long key": func(s *drivers.Spec) { s.Properties = map[string]string{strings.Repeat("x", 256): "a"} },
		},
		BadOffers: badOffers(t),
		OpenWrong: openWrong,
		Secrets:   []string{secretKey},
		FillQuota: func(*testing.T) { w.answer(creates, full) },
		Exhaust: func(_ *testing.T, kind error) (cty.Value, func() int) {
			with := capacityGone()
			if errors.Is(kind, drivers.ErrQuota) {
				with = quotaFull()
			}
			return offerConfig(map[string]cty.Value{"instance_types": words("t3.small", "t3.medium")}), w.refuse("t3.small", with)
		},
		Foreign:      foreignInstance,
		ForeignImage: func(t *testing.T) drivertest.Foreign { return foreignImage(t, c) },
		Attach:       attach,
		Copies:       copiesOf,
		Leftovers: map[string]drivertest.Leftover{
			resources.LeftoverVolume:         {Leave: leaveVolume, Use: useVolume},
			resources.LeftoverPort:           {Leave: leaveInterface, Use: useInterface},
			resources.LeftoverSnapshot:       {Leave: leaveSnapshot, Unused: "only an AMI of npctl uses it, whose deletion deletes both"},
			resources.LeftoverHost:           {Leave: leaveHost, Stays: hostStays, Unused: "moto places no instance on a host; TestMotoContractOfDedicatedHosts has one of its own"},
			resources.LeftoverLaunchTemplate: {Leave: leaveTemplate, Stays: templateStays, Unused: "one that an instance uses is not listed"},
		},
		LoseNextAnswer: func(*testing.T) { w.loseNext(creates) },
		Spoil: map[string]func(*testing.T, resources.Instance){
			"stopped": func(t *testing.T, i resources.Instance) {
				_, err := sdk(t).StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{i.ID}})
				testutil.Must(t, err)
			},
			"terminated": func(t *testing.T, i resources.Instance) {
				_, err := sdk(t).TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{i.ID}})
				testutil.Must(t, err)
			},
		},
		Omits: map[string]string{
			"Kill": "TestMotoContractOfKills", "Neighbours": "TestMotoContractOfKills",
			resources.LeftoverFloatingIP: "the driver creates none",
			resources.LeftoverObject:     "this Cloud has no bucket; TestMotoContractOfImports copies objects",
			"Withdraw":                   "moto checks no credentials; TestExpiredCredentialsAreRenewedOnce",
		},
		Calls:  w.count,
		Alone:  true,
		Settle: 20 * time.Second,
	}
}

func capacityGone() *response {
	return apiFault(500, "InsufficientInstanceCapacity", "We currently do not have sufficient t3.small capacity in the Availability Zone you requested (us-east-1a).")
}

func quotaFull() *response {
	return apiFault(400, "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket that the specified instance type belongs to.")
}

func badOffers(t *testing.T) map[string]drivertest.BadOffer {
	t.Helper()
	_, err := sdk(t).ImportKeyPair(t.Context(), &ec2.ImportKeyPairInput{KeyName: aws.String("lab"), PublicKeyMaterial: []byte(publicKey)})
	if err != nil && codeOf(err) != "InvalidKeyPair.Duplicate" {
		t.Fatal(err)
	}
	bad := map[string]drivertest.BadOffer{}
	for attribute, b := range map[string]struct {
		value cty.Value
		near  string
	}{
		"instance_types":     {words("t3.smal"), "t3.small"},
		"availability_zones": {words("us-east-1x"), "us-east-1a"},
		"key_name":           {cty.StringVal("lap"), "lab"},
		"subnet_ids":         {words("subnet-0000dead"), ""},
		"security_group_ids": {words("sg-0000dead"), ""},
	} {
		bad[attribute] = drivertest.BadOffer{Config: offerConfig(map[string]cty.Value{attribute: b.value}), Attribute: attribute, Near: b.near}
	}
	return bad
}

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIiHhN2W0Xv5KsGcPDRNzJBnZmrkHpMpU2nSZHWIMhYU test"

func openWrong(t *testing.T) error {
	t.Setenv("AWS_ENDPOINT_URL", os.Getenv("NPCTL_TEST_AWS_AUTH"))
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	_, err := openRegion(t, &wire{})
	return err
}

// uncanceled returns a context for cleanup after the test's own context has ended.
func uncanceled(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

func foreignInstance(t *testing.T) string {
	t.Helper()
	made, err := sdk(t).RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: aws.String(motoImage), InstanceType: "t3.small", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tagList(map[string]string{tagName: "foreign", "owner": "another"})}}})
	testutil.Must(t, err)
	id := aws.ToString(made.Instances[0].InstanceId)
	t.Cleanup(func() {
		_, _ = sdk(t).TerminateInstances(uncanceled(t), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	})
	return id
}

func foreignImage(t *testing.T, c *Cloud) drivertest.Foreign {
	t.Helper()
	source := foreignInstance(t)
	made, err := sdk(t).CreateImage(t.Context(), &ec2.CreateImageInput{InstanceId: aws.String(source), Name: aws.String("foreign-" + source)})
	testutil.Must(t, err)
	id := aws.ToString(made.ImageId)
	t.Cleanup(func() {
		_, _ = sdk(t).DeregisterImage(uncanceled(t), &ec2.DeregisterImageInput{ImageId: aws.String(id)})
	})
	return drivertest.Foreign{ID: id, Stays: func() error {
		i, found, err := c.image(t.Context(), id)
		if err == nil && (!found || drivers.DecodeTags(tagMap(i.Tags)) != (resources.OwnerTags{})) {
			err = fmt.Errorf("image %s: found %t, tags %v", id, found, tagMap(i.Tags))
		}
		return err
	}}
}

func newVolume(t *testing.T, tags map[string]string) string {
	t.Helper()
	in := &ec2.CreateVolumeInput{AvailabilityZone: aws.String(motoZone), Size: aws.Int32(1)}
	if len(tags) > 0 {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: tagList(tags)}}
	}
	made, err := sdk(t).CreateVolume(t.Context(), in)
	testutil.Must(t, err)
	return aws.ToString(made.VolumeId)
}

func leaveVolume(t *testing.T, m resources.OwnerTags) resources.Leftover {
	t.Helper()
	id := newVolume(t, drivers.EncodeTags(m))
	if m.Installation == "" {
		t.Cleanup(func() { _, _ = sdk(t).DeleteVolume(uncanceled(t), &ec2.DeleteVolumeInput{VolumeId: aws.String(id)}) })
	}
	return resources.Leftover{Type: resources.LeftoverVolume, ID: id, Marks: m}
}

func useVolume(t *testing.T, l resources.Leftover) (end func()) {
	t.Helper()
	id := l.ID
	instance := foreignInstance(t)
	_, err := sdk(t).AttachVolume(t.Context(), &ec2.AttachVolumeInput{InstanceId: aws.String(instance), VolumeId: aws.String(id), Device: aws.String("/dev/sdf")})
	testutil.Must(t, err)
	return func() {
		_, err := sdk(t).DetachVolume(uncanceled(t), &ec2.DetachVolumeInput{InstanceId: aws.String(instance), VolumeId: aws.String(id), Device: aws.String("/dev/sdf")})
		if codeOf(err) != "InvalidAttachment.NotFound" { // moto's answer to the second attempt: the first one was lost after its effect
			testutil.Must(t, err)
		}
	}
}

func leaveInterface(t *testing.T, m resources.OwnerTags) resources.Leftover {
	t.Helper()
	subnets, err := sdk(t).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	testutil.Must(t, err)
	made, err := sdk(t).CreateNetworkInterface(t.Context(), &ec2.CreateNetworkInterfaceInput{SubnetId: subnets.Subnets[0].SubnetId,
		TagSpecifications: specifications(types.ResourceTypeNetworkInterface, m)})
	testutil.Must(t, err)
	return resources.Leftover{Type: resources.LeftoverPort, ID: aws.ToString(made.NetworkInterface.NetworkInterfaceId), Marks: m}
}

func specifications(kind types.ResourceType, m resources.OwnerTags) []types.TagSpecification {
	if m.Installation == "" {
		return nil
	}
	return []types.TagSpecification{{ResourceType: kind, Tags: tagList(drivers.EncodeTags(m))}}
}

func useInterface(t *testing.T, l resources.Leftover) (end func()) {
	t.Helper()
	made, err := sdk(t).AttachNetworkInterface(t.Context(), &ec2.AttachNetworkInterfaceInput{DeviceIndex: aws.Int32(1), InstanceId: aws.String(foreignInstance(t)), NetworkInterfaceId: aws.String(l.ID)})
	testutil.Must(t, err)
	return func() {
		_, err := sdk(t).DetachNetworkInterface(uncanceled(t), &ec2.DetachNetworkInterfaceInput{AttachmentId: made.AttachmentId})
		testutil.Must(t, err)
	}
}

func leaveSnapshot(t *testing.T, m resources.OwnerTags) resources.Leftover {
	t.Helper()
	made, err := sdk(t).CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: aws.String(newVolume(t, nil)), TagSpecifications: specifications(types.ResourceTypeSnapshot, m)})
	testutil.Must(t, err)
	return resources.Leftover{Type: resources.LeftoverSnapshot, ID: aws.ToString(made.SnapshotId), Marks: m}
}

func leaveHost(t *testing.T, m resources.OwnerTags) resources.Leftover {
	t.Helper()
	made, err := sdk(t).AllocateHosts(t.Context(), &ec2.AllocateHostsInput{InstanceType: aws.String("t3.small"), AvailabilityZone: aws.String(motoZone), Quantity: aws.Int32(1),
		TagSpecifications: specifications(types.ResourceTypeDedicatedHost, m)})
	testutil.Must(t, err)
	return resources.Leftover{Type: resources.LeftoverHost, ID: made.HostIds[0], Marks: m}
}

func leaveTemplate(t *testing.T, m resources.OwnerTags) resources.Leftover {
	t.Helper()
	name := cmp.Or(m.ID, "theirs")
	_, err := sdk(t).CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name),
		LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "t3.small"}, TagSpecifications: specifications(types.ResourceTypeLaunchTemplate, m)})
	if codeOf(err) != "InvalidLaunchTemplateName.AlreadyExistsException" { // the SDK repeats a call whose response was lost
		testutil.Must(t, err)
	}
	found, err := sdk(t).DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{name}})
	testutil.Must(t, err)
	return resources.Leftover{Type: resources.LeftoverLaunchTemplate, ID: aws.ToString(found.LaunchTemplates[0].LaunchTemplateId), Marks: m}
}

func templateStays(t *testing.T, id string) error {
	t.Helper()
	found, err := sdk(t).DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{id}})
	if err == nil && len(found.LaunchTemplates) == 0 {
		err = errors.New("launch template " + id + " was deleted")
	}
	return err
}

func attach(t *testing.T, instance string) []drivertest.Foreign {
	t.Helper()
	id := newVolume(t, nil)
	_, err := sdk(t).AttachVolume(t.Context(), &ec2.AttachVolumeInput{InstanceId: aws.String(instance), VolumeId: aws.String(id), Device: aws.String("/dev/sdf")})
	testutil.Must(t, err)
	t.Cleanup(func() { _, _ = sdk(t).DeleteVolume(uncanceled(t), &ec2.DeleteVolumeInput{VolumeId: aws.String(id)}) })
	return []drivertest.Foreign{{ID: id, Stays: func() error {
		answer, err := sdk(t).DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
		if err == nil && drivers.DecodeTags(tagMap(answer.Volumes[0].Tags)) != (resources.OwnerTags{}) {
			err = fmt.Errorf("volume %s has ownership tags", id)
		}
		return err
	}}}
}

func TestMotoContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		resetMoto(t)
		return motoSetup(t, offerConfig(nil))
	})
}

func TestMotoContractWithEveryAttribute(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		resetMoto(t)
		c := mustOpen(t, &wire{})
		subnets, err := c.names.subnets.Get(t.Context())
		testutil.Must(t, err)
		groups, err := c.names.securityGroups.Get(t.Context())
		testutil.Must(t, err)
		return motoSetup(t, offerConfig(map[string]cty.Value{
			"instance_types": words("t3.small", "t3.medium"), "availability_zones": words(subnets[0].zone), "subnet_ids": words(subnets[0].id),
			"security_group_ids": words(groups[0]), "key_name": cty.StringVal("lab"), "volume_size": cty.NumberIntVal(20), "volume_type": cty.StringVal("gp3"),
			"iops": cty.NumberIntVal(4000), "throughput": cty.NumberIntVal(250), "ebs_optimized": cty.True, "userdata": cty.StringVal("#cloud-config\n"),
			"tags": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("ci")}), "market_type": cty.StringVal("spot"), "imdsv2": cty.StringVal("required"),
			"use_internal_ip": cty.True, "kms_key_id": cty.StringVal("alias/ci"),
		}))
	}, "Instances", "Resolver")
}

func TestMotoContractOfFleets(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		resetMoto(t)
		return motoSetup(t, offerConfig(map[string]cty.Value{"instance_types": words("t3.small", "t3.medium"), "allocation_strategy": cty.StringVal("prioritized")}))
	}, "Instances", "Copies")
}

func TestMotoContractOfDedicatedHosts(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		resetMoto(t)
		s := motoSetup(t, offerConfig(map[string]cty.Value{"dedicated_host": cty.True, "availability_zones": words(motoZone)}))
		s.Attach = func(t *testing.T, instance string) []drivertest.Foreign {
			return []drivertest.Foreign{keptHost(t, instance)}
		}
		return s
	}, "Instances", "Copies")
}

// hostOf returns the dedicated host of an instance.
func hostOf(t *testing.T, instance string) string {
	t.Helper()
	found, err := sdk(t).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{instance}})
	testutil.Must(t, err)
	return aws.ToString(found.Reservations[0].Instances[0].Placement.HostId)
}

func hostStays(t *testing.T, id string) error {
	t.Helper()
	found, err := sdk(t).DescribeHosts(uncanceled(t), &ec2.DescribeHostsInput{HostIds: []string{id}})
	if err == nil && (len(found.Hosts) == 0 || found.Hosts[0].State != types.AllocationStateAvailable) {
		err = errors.New("host " + id + " was released")
	}
	return err
}

// keptHost removes the ownership tags of the host of an instance, as a person does who keeps it.
func keptHost(t *testing.T, instance string) drivertest.Foreign {
	t.Helper()
	id := hostOf(t, instance)
	_, err := sdk(t).DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String(tagInstallation)}}})
	testutil.Must(t, err)
	return drivertest.Foreign{ID: id, Stays: func() error { return hostStays(t, id) }}
}

func TestMotoHostOfAnotherInstanceStays(t *testing.T) {
	resetMoto(t)
	c := mustOpen(t, &wire{})
	spec := nodeSpec("hosted", map[string]cty.Value{"dedicated_host": cty.True, "availability_zones": words(motoZone)})
	spec.Zone = motoZone
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	host := hostOf(t, made.ID)
	_, err = sdk(t).RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: aws.String(motoImage), InstanceType: "t3.small", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		Placement: &types.Placement{HostId: aws.String(host), Tenancy: types.TenancyHost}})
	testutil.Must(t, err)
	testutil.Must(t, c.Delete(t.Context(), made.ID, spec.Marks))
	testutil.Must(t, c.FinishDeletion(t.Context(), made.ID))
	testutil.Must(t, hostStays(t, host))
}

func nodeSpec(id string, attributes map[string]cty.Value) drivers.Spec {
	return drivers.Spec{Marks: resources.OwnerTags{Installation: "integration", Kind: resources.KindNode, ID: id}, Hostname: "np" + id, ImageID: motoImage, Config: offerConfig(attributes)}
}

func TestMotoNextInstanceTypeIsTriedWithoutCapacity(t *testing.T) {
	w := &wire{}
	c := mustOpen(t, w)
	refusals := 1
	w.answer("RunInstances", func() *response {
		if refusals--; refusals < 0 {
			return nil
		}
		return capacityGone()
	})
	spec := nodeSpec("capacity", map[string]cty.Value{"instance_types": words("t3.small", "t3.medium")})
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = c.Delete(uncanceled(t), made.ID, spec.Marks) })
	if made.Flavor != "t3.medium" || made.Resources.RAM != 4096 {
		t.Errorf("instance is a %s with %d MiB, want the second type", made.Flavor, made.Resources.RAM)
	}
	refusals = 2
	if _, err := c.Create(t.Context(), nodeSpec("none", map[string]cty.Value{"instance_types": words("t3.small", "t3.medium")})); !errors.Is(err, drivers.ErrCapacity) || !drivers.IsNothingDone(err) {
		t.Errorf("Create without capacity for any type: %v, want ErrCapacity", err)
	}
}

func TestMotoDeletionsShareCalls(t *testing.T) {
	w := &wire{}
	c := mustOpen(t, w)
	const nodes = 20
	expected := map[string]resources.OwnerTags{}
	for i := range nodes {
		spec := nodeSpec(fmt.Sprint("batch-", i), nil)
		made, err := c.Create(t.Context(), spec)
		testutil.Must(t, err)
		expected[made.ID] = spec.Marks
	}
	foreign, err := c.Create(t.Context(), nodeSpec("foreign", nil))
	testutil.Must(t, err)
	t.Cleanup(func() { _ = c.Delete(uncanceled(t), foreign.ID, nodeSpec("foreign", nil).Marks) })
	expected[foreign.ID] = nodeSpec("another", nil).Marks
	expected["i-0123456789abcdef0"] = nodeSpec("gone", nil).Marks
	before := w.count()
	failed := c.DeleteBatch(t.Context(), expected)
	if calls := w.count() - before; calls != 2 {
		t.Errorf("%d deletions made %d calls, want 2", len(expected), calls)
	}
	if len(failed) != 1 || !errors.Is(failed[foreign.ID], drivers.ErrNotOurs) {
		t.Errorf("errors are %v, want that of %s", failed, foreign.ID)
	}
	list, err := c.List(t.Context())
	testutil.Must(t, err)
	for _, i := range list {
		if _, deleted := expected[i.ID]; deleted && i.ID != foreign.ID && i.Status != resources.StatusDeleting {
			t.Errorf("instance %s is %v", i.ID, i.Status)
		}
	}
}

func TestMotoZeroBlocksAreNotSent(t *testing.T) {
	w := &wire{}
	c := mustOpen(t, w)
	content := make([]byte, 8*blockSize+100)
	content[3*blockSize] = 1
	content[8*blockSize+99] = 1
	spec := drivers.ImageSpec{Marks: resources.OwnerTags{Installation: "integration", Kind: resources.KindUpload, ID: "sparse"}, Name: "sparse", Format: "raw", Size: int64(len(content))}
	made, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	t.Cleanup(func() { _ = c.DeleteImage(uncanceled(t), made.ID, spec.Marks) })
	puts := 0
	for action, n := range w.calls {
		if strings.HasPrefix(action, "PUT /snapshots/") {
			puts += n
		}
	}
	if puts != 2 {
		t.Errorf("%d blocks were sent, want 2", puts)
	}
}

// exempt permits the next calls of the moto with authorization without any.
func exempt(t *testing.T, calls int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, os.Getenv("NPCTL_TEST_AWS_AUTH")+"/moto-api/reset-auth", strings.NewReader(strconv.Itoa(calls)))
	testutil.Must(t, err)
	answer, err := http.DefaultClient.Do(request)
	testutil.Must(t, err)
	testutil.Must(t, answer.Body.Close())
}

// iam runs the aws command.
func iam(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv("NPCTL_TEST_AWS_CLI"), append([]string{"iam"}, args...)...)
	cmd.Env = append(os.Environ(), "AWS_DEFAULT_REGION=us-east-1", "AWS_ENDPOINT_URL="+os.Getenv("NPCTL_TEST_AWS_AUTH"))
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("aws iam %s: %v", args[0], err)
	}
	return strings.TrimSpace(string(text))
}

func TestMotoMissingPermissionIsNamed(t *testing.T) {
	exempt(t, 3)
	name := fmt.Sprint("reader-", time.Now().UnixNano())
	iam(t, "create-user", "--user-name", name)
	iam(t, "put-user-policy", "--user-name", name, "--policy-name", "read", "--policy-document",
		`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"}]}`)
	key := strings.Fields(iam(t, "create-access-key", "--user-name", name, "--query", "AccessKey.[AccessKeyId, SecretAccessKey]", "--output", "text"))
	t.Setenv("AWS_ENDPOINT_URL", os.Getenv("NPCTL_TEST_AWS_AUTH"))
	t.Setenv("AWS_ACCESS_KEY_ID", key[0])
	t.Setenv("AWS_SECRET_ACCESS_KEY", key[1])
	c := mustOpen(t, &wire{})
	if _, err := c.List(t.Context()); err != nil {
		t.Errorf("List with the permission: %v", err)
	}
	_, err := c.Create(t.Context(), nodeSpec("forbidden", nil))
	if !errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) || !strings.Contains(err.Error(), "ec2:RunInstances") {
		t.Errorf("Create without the permission: %v", err)
	}
	if err != nil && strings.Contains(err.Error(), key[1]) {
		t.Error("the error contains the secret key")
	}
}
