package aws

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/requestvalues"
	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "Nodes are EC2 instances, images are AMIs. Credentials come from the variables, files and roles that every AWS " +
	"tool reads; `AWS_ENDPOINT_URL` selects another endpoint."

func driverSchema() schema.Driver {
	checks := map[string]schema.Check{"userdata": cloudkit.CheckBytes("user data", "EC2", maxUserdata), "tags": checkTags, "request_properties": requestvalues.CheckMap(checkTags)}
	pool := schema.Of[poolSettings]("", checks)
	return schema.Driver{
		Doc:            driverDoc,
		Provider:       schema.Of[providerSettings]("", nil),
		Pool:           pool,
		Label:          schema.ForLabels[labelSettings](pool, map[string]schema.Check{"instance_types": cloudkit.CheckFilled("instance type such as t3.micro")}),
		Image:          schema.Of[imageSettings]("", nil),
		HasLabels:      true,
		HasImages:      true,
		HasCloudImages: true,
		Formats:        []string{formatRaw, "vhd", "vmdk", "vhdx", "ova"},
		Nodepool:       nodepoolKeys(),
	}
}

// providerSettings locate the cloud.
type providerSettings struct {
	Region  string `config:"region" doc:"Region; the default is that of the profile or of 'AWS_REGION'."`
	Bucket  string `config:"bucket" doc:"S3 bucket in the region, for images with the 'import_method' 'snapshot' or 'image'. npctl's objects start with 'npctl/'; it deletes them after the import."`
	Format  string `config:"image_format" default:"raw" oneof:"raw vhd vmdk vhdx ova" doc:"Format of uploaded images. The 'import_method' 'ebs-direct' accepts 'raw', 'snapshot' also 'vhd' and 'vmdk', 'image' all."`
	Profile string `config:"profile" doc:"Profile of '~/.aws/config' and '~/.aws/credentials'; the default is 'AWS_PROFILE', else 'default'."`
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	InstanceTypes []string `config:"instance_types,required,replacing" doc:"Instance types in order of preference: npctl uses the next one when EC2 has no capacity for one."`

	poolSettings `config:",inline"`
}

// poolSettings are the attributes of an offer that a pool may have too. The defaults apply when neither sets them.
type poolSettings struct {
	AvailabilityZones []string                  `config:"availability_zones,new" doc:"Zones to choose from; the default is the zones of 'subnet_ids', else EC2 chooses."`
	SubnetIDs         []string                  `config:"subnet_ids,replacing" doc:"Subnets: npctl uses the first one in the zone of the node. The default is the default subnet of the zone."`
	SecurityGroupIDs  []string                  `config:"security_group_ids,replacing" doc:"Security groups by ID; the default is the default group of the network."`
	PublicIPv4        bool                      `config:"public_ipv4,replacing" default:"true" doc:"Nodes have a public IPv4 address."`
	PublicIPv6        bool                      `config:"public_ipv6,replacing" default:"false" doc:"Nodes have an IPv6 address, which the subnet must support."`
	UseInternalIP     bool                      `config:"use_internal_ip,new" default:"false" doc:"Connect to nodes at their private address even if they have a public one."`
	Reach             drivers.Reach             `config:",inline"`
	KeyName           string                    `config:"key_name,replacing" doc:"EC2 key pair of the nodes."`
	VolumeSize        int64                     `config:"volume_size,replacing" min:"1" doc:"Size of the root volume in GiB; the default is that of the image."`
	VolumeType        string                    `config:"volume_type,replacing" oneof:"standard gp2 gp3 io1 io2 st1 sc1" doc:"Type of the root volume; the default is that of the image."`
	IOPS              int64                     `config:"iops,replacing" min:"100" doc:"I/O operations per second of the root volume ('gp3', 'io1', 'io2')."`
	Throughput        int64                     `config:"throughput,replacing" min:"125" doc:"Throughput of the root volume in MiB/s ('gp3')."`
	EBSOptimized      bool                      `config:"ebs_optimized,replacing" default:"false" doc:"Dedicated bandwidth between nodes and volumes, for types without it by default."`
	UserData          string                    `config:"userdata,replacing,hashed" doc:"User data for cloud-init, at most 16384 bytes."`
	InstanceProfile   string                    `config:"iam_instance_profile,replacing" doc:"Name or ARN of the instance profile of the nodes: it gives them a role."`
	Tags              map[string]string         `config:"tags,replacing" doc:"Tags of instances, their volumes and their network interfaces."`
	Request           drivers.RequestProperties `config:",inline"`
	Encrypted         bool                      `config:"encrypted,replacing" default:"false" doc:"The root volume is encrypted, with 'kms_key_id' or the default key of EBS."`
	KMSKeyID          string                    `config:"kms_key_id,replacing" doc:"KMS key of the root volume, by ID, alias or ARN; it sets 'encrypted'."`
	MarketType        string                    `config:"market_type,replacing" default:"on-demand" oneof:"on-demand spot" doc:"'spot' nodes cost less; EC2 may terminate them at any time."`
	Allocation        string                    `config:"allocation_strategy,replacing" oneof:"lowest-price prioritized diversified capacity-optimized capacity-optimized-prioritized price-capacity-optimized" doc:"EC2 chooses among all 'instance_types' by this strategy of EC2 Fleet; the default is the order of the list. On demand: 'lowest-price', 'prioritized'. Spot: all but 'prioritized'."`
	DedicatedHost     bool                      `config:"dedicated_host,replacing" default:"false" doc:"Each node has a dedicated host, which npctl allocates and releases with it."`
	IMDSv2            string                    `config:"imdsv2,replacing" oneof:"required optional" doc:"Whether the metadata service requires tokens (IMDSv2); the default is that of the image and the account."`
	NestedVirt        bool                      `config:"nested_virtualization,replacing" default:"false" doc:"Nodes can run virtual machines; only some instance types support it."`
}

// imageSettings are the attributes of an uploaded image.
type imageSettings struct {
	Architecture string `config:"architecture,replacing" default:"x86_64" oneof:"x86_64 arm64" doc:"Architecture of the image."`
	ImportMethod string `config:"import_method,new" default:"ebs-direct" oneof:"ebs-direct snapshot image" doc:"'ebs-direct' writes the blocks of a snapshot; 'snapshot' and 'image' upload the image to 'bucket' of the provider, from which EC2 imports it with the role 'vmimport': as a snapshot, or as a whole AMI, for systems with a license such as Windows."`
	BootMode     string `config:"boot_mode,replacing" oneof:"legacy-bios uefi uefi-preferred" doc:"Boot mode of the image; the default is that of the instance type."`
	ENASupport   bool   `config:"ena_support,replacing" default:"true" doc:"The image has the driver of the Elastic Network Adapter."`
	IMDSSupport  string `config:"imds_support,replacing" oneof:"v2.0" doc:"'v2.0': instances of the image require IMDSv2."`
	Encrypted    bool   `config:"encrypted,replacing" default:"false" doc:"The snapshot of the image is encrypted, with 'kms_key_id' or the default key of EBS."`
	KMSKeyID     string `config:"kms_key_id,replacing" doc:"KMS key of the snapshot by ARN, with another 'import_method' than 'ebs-direct' also by ID or alias; it sets 'encrypted'."`
	VolumeSize   int64  `config:"volume_size,replacing" min:"1" doc:"Size of the root volume in GiB; the default is the size of the image."`
	VolumeType   string `config:"volume_type,replacing" default:"gp3" oneof:"standard gp2 gp3 io1 io2 st1 sc1" doc:"Type of the root volume."`
	IOPS         int64  `config:"iops,replacing" min:"100" doc:"I/O operations per second of the root volume."`
	Throughput   int64  `config:"throughput,replacing" min:"125" doc:"Throughput of the root volume in MiB/s ('gp3')."`
}

// maxUserdata is EC2's limit on user data before its encoding.
const maxUserdata = 16384

// EC2's limits on tags. npctl needs up to reservedTags tags of an object.
const (
	maxTagKey    = 128
	maxTagValue  = 255 // EC2 accepts 256; the contract of request_properties has 255 for all drivers
	maxTags      = 50
	reservedTags = 15
)

func checkTags(v cty.Value) error {
	values := v.AsValueMap()
	if n := len(values); n > maxTags-reservedTags {
		return fmt.Errorf("%d tags: EC2 accepts %d for an object, of which npctl needs %d", n, maxTags, reservedTags)
	}
	for key, value := range values {
		switch {
		case strings.HasPrefix(key, tagPrefix), strings.HasPrefix(strings.ToLower(key), "aws:"), key == tagName:
			return fmt.Errorf("tag %q: %s, %s… and aws:… are reserved; choose another", key, tagName, tagPrefix)
		case key == "" || len(key) > maxTagKey:
			return fmt.Errorf("tag %q: a name has 1 to %d bytes", key, maxTagKey)
		case !value.IsNull() && value.IsKnown() && len(value.AsString()) > maxTagValue:
			return fmt.Errorf("tag %q: npctl accepts values of at most %d bytes, this one has %d", key, maxTagValue, len(value.AsString()))
		}
	}
	return nil
}

func (s poolSettings) encodedUserData() string {
	return base64.StdEncoding.EncodeToString([]byte(s.UserData))
}

func (s poolSettings) isSpot() bool { return s.MarketType == "spot" }

func (s imageSettings) isEncrypted() bool { return s.Encrypted || s.KMSKeyID != "" }

// kmsKey returns the key of requests, nil for the default key.
func (s imageSettings) kmsKey() *string {
	if s.KMSKeyID == "" {
		return nil
	}
	return &s.KMSKeyID
}

// isPrioritized reports whether EC2 Fleet uses the order of the instance types.
func (s poolSettings) isPrioritized() bool { return strings.HasSuffix(s.Allocation, "prioritized") }

// checkCombination rejects attributes that exclude each other; they may come from a label and its pool.
func (s poolSettings) checkCombination() error {
	switch {
	case s.Allocation == "prioritized" && s.isSpot():
		return &drivers.UnknownName{Attribute: "allocation_strategy", Value: s.Allocation, Detail: "it is for nodes on demand", Near: []string{"capacity-optimized-prioritized"}}
	case s.Allocation != "" && !s.isSpot() && s.Allocation != "prioritized" && s.Allocation != "lowest-price":
		return &drivers.UnknownName{Attribute: "allocation_strategy", Value: s.Allocation, Detail: "it is for spot nodes", Near: []string{"lowest-price", "prioritized"}}
	case s.DedicatedHost && (s.isSpot() || s.Allocation != ""):
		return &drivers.UnknownName{Attribute: "dedicated_host", Value: "true", Detail: "spot nodes and nodes with an allocation_strategy cannot have a dedicated host"}
	case s.DedicatedHost && len(s.AvailabilityZones)+len(s.SubnetIDs) == 0:
		return &drivers.UnknownName{Attribute: "dedicated_host", Value: "true", Detail: "a host needs a zone; set availability_zones or subnet_ids"}
	default:
		return nil
	}
}

// decodeOffer reads the configuration of an offer.
func decodeOffer(config cty.Value) (s labelSettings, err error) {
	err = cloudkit.Decode(config, &s)
	s.InstanceTypes = slices.Compact(s.InstanceTypes)
	return s, err
}
