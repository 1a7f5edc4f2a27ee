package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

func TestInstanceTypesHaveTheQuotaOfTheirFamily(t *testing.T) {
	for name, want := range map[string]familyCodes{
		"t3.small": {"L-1216C47A", "L-34B43A08"}, "im4gn.large": {"L-1216C47A", "L-34B43A08"}, "c7gn.large": {"L-1216C47A", "L-34B43A08"},
		"g5.xlarge": {"L-DB2E81BA", "L-3819A6DF"}, "inf2.xlarge": {"L-1945791B", "L-B5D1601B"}, "u-6tb1.metal": {"L-43DA4232", ""},
		"x2gd.medium": {"L-7295265B", "L-E3A00192"}, "p5.48xlarge": {"L-417A185B", "L-7212CCBC"}, "mac2.metal": {"", ""},
	} {
		if got := (familyCodes{quotaCode(name, false), quotaCode(name, true)}); got != want {
			t.Errorf("%s has codes %+v, want %+v", name, got, want)
		}
	}
}

func TestOwnershipTagsSurviveEncoding(t *testing.T) {
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload, resources.KindBuild} {
		want := resources.OwnerTags{Installation: "i", Kind: kind, ID: "7", Provider: "p", Pool: "main", Label: "l", Image: "diskimage.d", Build: "b", Hash: "v1:0"}
		if diff := cmp.Diff(want, drivers.DecodeTags(tagMap(tagList(drivers.EncodeTags(want))))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestAddressIsChosen(t *testing.T) {
	i := types.Instance{PrivateIpAddress: aws.String("10.0.0.1"), PublicIpAddress: aws.String("192.0.2.1"), Ipv6Address: aws.String("2001:db8::1")}
	if got := addressesOf(i, "").Interface; got != "192.0.2.1" {
		t.Errorf("interface is %s", got)
	}
	if got := addressesOf(i, cloudkit.PrivateInterface).Interface; got != "10.0.0.1" {
		t.Errorf("internal interface is %s", got)
	}
	i.PublicIpAddress = nil
	if got := addressesOf(i, "").Interface; got != "2001:db8::1" {
		t.Errorf("interface without IPv4 is %s", got)
	}
}

func TestImageNamesAreValid(t *testing.T) {
	for name, want := range map[string]string{"debian-1 (x)": "debian-1 (x)", "a:b+c": "a-b-c", "x": "x--"} {
		if got := amiName(name); got != want {
			t.Errorf("amiName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestArchitecturesOfTypesAndImagesAreRead(t *testing.T) {
	c := typeCache{}
	c.add([]types.InstanceTypeInfo{{InstanceType: "t4g.small", ProcessorInfo: &types.ProcessorInfo{
		SupportedArchitectures: []types.ArchitectureType{types.ArchitectureTypeArm64}}}})
	want := map[string][]string{"t4g.small": {"arm64"}}
	known, _ := c.Get("t4g.small")
	if diff := cmp.Diff(want, architectures([]instanceType{known})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := remoteImage(types.Image{Architecture: types.ArchitectureValuesArm64}).Architecture; got != "arm64" {
		t.Errorf("the architecture of the image is %q", got)
	}
}
