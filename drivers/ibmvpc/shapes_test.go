//go:build integration

package ibmvpc

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/IBM/go-sdk-core/v5/core"
	"github.com/IBM/vpc-go-sdk/vpcv1"
	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/ibmvpc/ibmvpctest"
	"github.com/npctl/npctl/internal/testutil"
)

// These tests read and write the shapes of the VPC API with IBM's library, so that the driver and the cloud in memory do not
// only agree with each other.

// library is IBM's client of the cloud in memory.
func library(t *testing.T) *vpcv1.VpcV1 {
	t.Helper()
	client, err := vpcv1.NewVpcV1UsingExternalConfig(&vpcv1.VpcV1Options{Version: core.StringPtr(apiVersion)})
	testutil.Must(t, err)
	return client
}

// everyAttribute creates an instance, its floating IP and an image, and returns the bodies of the requests by path.
func everyAttribute(t *testing.T, l *lab) map[string][]byte {
	t.Helper()
	bodies := map[string][]byte{}
	keep := func(next http.RoundTripper) http.RoundTripper {
		return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/") {
				content, err := io.ReadAll(r.Body)
				testutil.Must(t, err)
				bodies[r.URL.Path] = content
				r.Body = io.NopCloser(bytes.NewReader(content))
			}
			return next.RoundTrip(r)
		})
	}
	config := providerConfig(l, map[string]cty.Value{"resource_group": cty.StringVal("fee82deba12e4c0fb69c3b09d1f12345")})
	opened, err := New().Open(t.Context(), drivers.Env{WrapTransport: keep}, config)
	testutil.Must(t, err)
	c := opened.(*Cloud)
	spec := nodeSpec(l, "1", map[string]cty.Value{"keys": words("ci"), "security_groups": words("ssh"), "public_ipv4": cty.True, "user_data": cty.StringVal("#cloud-config\n"),
		"volume_size": cty.NumberIntVal(100), "tags": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("ci")})})
	_, err = c.Create(t.Context(), spec)
	testutil.Must(t, err)
	for range 4 {
		all, err := c.List(t.Context())
		testutil.Must(t, err)
		_, err = c.Advance(t.Context(), spec, all[0])
		testutil.Must(t, err)
	}
	_, err = c.UploadImage(t.Context(), uploadSpec([]byte("x")), strings.NewReader("x"))
	testutil.Must(t, err)
	return bodies
}

func TestIBMsLibraryReadsTheRequests(t *testing.T) {
	bodies := everyAttribute(t, labOf(t, ibmvpctest.New(t)))
	for path, read := range map[string]func(map[string]json.RawMessage) (any, error){
		"/v1/instances": func(m map[string]json.RawMessage) (any, error) {
			var in *vpcv1.InstancePrototypeInstanceByImage
			return in, vpcv1.UnmarshalInstancePrototypeInstanceByImage(m, &in)
		},
		"/v1/floating_ips": func(m map[string]json.RawMessage) (any, error) {
			var in *vpcv1.FloatingIPPrototypeFloatingIPByTarget
			return in, vpcv1.UnmarshalFloatingIPPrototypeFloatingIPByTarget(m, &in)
		},
		"/v1/images": func(m map[string]json.RawMessage) (any, error) {
			var in *vpcv1.ImagePrototypeImageByFile
			return in, vpcv1.UnmarshalImagePrototypeImageByFile(m, &in)
		},
	} {
		var sent map[string]json.RawMessage
		if err := json.Unmarshal(bodies[path], &sent); err != nil {
			t.Errorf("body of %s: %v", path, err)
			continue
		}
		parsed, err := read(sent)
		testutil.Must(t, err)
		again, err := json.Marshal(parsed)
		testutil.Must(t, err)
		if diff := cmp.Diff(asMap(t, bodies[path]), asMap(t, again)); diff != "" {
			t.Errorf("the library knows another request to %s (-sent +read):\n%s", path, diff)
		}
	}
}

func asMap(t *testing.T, text []byte) (m map[string]any) {
	t.Helper()
	testutil.Must(t, json.Unmarshal(text, &m))
	return m
}

func TestIBMsLibraryReadsTheResponses(t *testing.T) {
	l := labOf(t, ibmvpctest.New(t))
	everyAttribute(t, l)
	client, c := library(t), l.mustOpen(t, nil)
	all, err := c.List(t.Context())
	testutil.Must(t, err)
	ours := all[0]
	name := core.StringPtr("npctl-n-1-here")

	instances, _, err := client.ListInstances(&vpcv1.ListInstancesOptions{Name: name, VPCID: &c.vpc.ID, Limit: core.Int64Ptr(100)})
	testutil.Must(t, err)
	i := instances.Instances[0]
	wanted(t, "instance", map[string][2]any{
		"ID": {*i.ID, ours.ID}, "name": {*i.Name, *name}, "status": {*i.Status, "running"}, "profile": {*i.Profile.Name, ours.Flavor}, "zone": {*i.Zone.Name, ours.Zone},
		"memory": {*i.Memory * mibPerGiB, ours.Resources.RAM}, "cores": {*i.Vcpu.Count, ours.Resources.Cores}, "address": {*i.PrimaryNetworkInterface.PrimaryIP.Address, ours.Addresses.PrivateIPv4},
	})
	volumes, _, err := client.ListVolumes(&vpcv1.ListVolumesOptions{Name: name})
	testutil.Must(t, err)
	v := volumes.Volumes[0]
	marks, hostname := readTags(*v.Name, v.UserTags)
	wanted(t, "volume", map[string][2]any{"marks": {marks, ours.Marks}, "name": {hostname, ours.Name}, "instance": {*v.VolumeAttachments[0].Instance.ID, ours.ID}})

	addresses, _, err := client.ListFloatingIps(&vpcv1.ListFloatingIpsOptions{TargetID: i.PrimaryNetworkInterface.ID})
	testutil.Must(t, err)
	f := addresses.FloatingIps[0]
	bound, isInterface := f.Target.(*vpcv1.FloatingIPTarget)
	if !isInterface {
		t.Fatalf("target is a %s", reflect.TypeOf(f.Target))
	}
	wanted(t, "floating IP", map[string][2]any{"address": {*f.Address, ours.Addresses.PublicIPv4}, "name": {*f.Name, *name}, "target": {*bound.ID, *i.PrimaryNetworkInterface.ID},
		"server": {floatingIP{Target: &floatingIPTarget{Href: *bound.Href}}.leftover().Server, ours.ID}})

	uploaded, err := c.ListImages(t.Context())
	testutil.Must(t, err)
	images, _, err := client.ListImages(&vpcv1.ListImagesOptions{Visibility: core.StringPtr("private"), Name: core.StringPtr("npctl-u-7-here")})
	testutil.Must(t, err)
	image := images.Images[0]
	wanted(t, "image", map[string][2]any{"ID": {*image.ID, uploaded[0].ID}, "status": {*image.Status, "available"}, "sum": {*image.File.Checksums.Sha256 != "", true},
		"system": {*image.OperatingSystem.Name, "debian-12-amd64"}})

	profiles, _, err := client.ListInstanceProfiles(&vpcv1.ListInstanceProfilesOptions{})
	testutil.Must(t, err)
	count, isFixed := profiles.Profiles[0].VcpuCount.(*vpcv1.InstanceProfileVcpu)
	if !isFixed || *count.Value < 1 || len(profiles.Profiles) != 3 {
		t.Errorf("%d profiles, the first with %v", len(profiles.Profiles), profiles.Profiles[0].VcpuCount)
	}
	subnets, _, err := client.ListSubnets(&vpcv1.ListSubnetsOptions{VPCID: &c.vpc.ID})
	testutil.Must(t, err)
	groups, _, err := client.ListSecurityGroups(&vpcv1.ListSecurityGroupsOptions{VPCID: &c.vpc.ID})
	testutil.Must(t, err)
	keys, _, err := client.ListKeys(&vpcv1.ListKeysOptions{})
	testutil.Must(t, err)
	vpcs, _, err := client.ListVpcs(&vpcv1.ListVpcsOptions{})
	testutil.Must(t, err)
	systems, _, err := client.ListOperatingSystems(&vpcv1.ListOperatingSystemsOptions{})
	testutil.Must(t, err)
	wanted(t, "names", map[string][2]any{"subnet": {*subnets.Subnets[0].Name, "ci-1"}, "zone": {*subnets.Subnets[0].Zone.Name, ibmvpctest.Region + "-1"}, "group": {*groups.SecurityGroups[0].Name, "ssh"},
		"key": {*keys.Keys[0].Name, "ci"}, "VPC": {*vpcs.Vpcs[0].CRN, c.vpc.CRN}, "system": {*systems.OperatingSystems[0].Name, "debian-12-amd64"}})
}

// wanted compares what the library and the driver read.
func wanted(t *testing.T, what string, values map[string][2]any) {
	t.Helper()
	for name, pair := range values {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %s is %v for the library, %v for the driver", what, name, pair[0], pair[1])
		}
	}
}

func TestIBMsLibraryReadsTheErrors(t *testing.T) {
	labOf(t, ibmvpctest.New(t))
	_, answer, err := library(t).GetInstance(&vpcv1.GetInstanceOptions{ID: core.StringPtr("r006-dead")})
	if err == nil || answer.StatusCode != http.StatusNotFound || !strings.Contains(err.Error(), "r006-dead not found") {
		t.Errorf("GetInstance of a missing instance: %v", err)
	}
	_, err = library(t).DeleteInstance(&vpcv1.DeleteInstanceOptions{ID: core.StringPtr("r006-dead")})
	if err == nil {
		t.Error("DeleteInstance of a missing instance returned no error")
	}
}
