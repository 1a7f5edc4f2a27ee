package ibmvpc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/requestvalues"
	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "Nodes are virtual server instances in a VPC of IBM Cloud, images are custom images. Credentials come from the " +
	"variables and the file that IBM's libraries read: `VPC_APIKEY`, or `IBM_CREDENTIALS_FILE`; `VPC_URL` selects another endpoint."

func driverSchema() schema.Driver {
	checks := map[string]schema.Check{"user_data": cloudkit.CheckBytes("user data", "the VPC API", maxUserData), "tags": checkTags, "request_properties": requestvalues.CheckMap(checkTagNames)}
	pool := schema.Of[poolSettings]("", checks)
	return schema.Driver{
		Doc:            driverDoc,
		Provider:       schema.Of[providerSettings]("", nil),
		Pool:           pool,
		Label:          schema.ForLabels[labelSettings](pool, map[string]schema.Check{"profiles": cloudkit.CheckFilled("instance profile such as cx2-2x4")}),
		Image:          schema.Of[imageSettings]("", nil),
		HasLabels:      true,
		HasImages:      true,
		HasCloudImages: true,
		Nodepool:       nodepoolKeys(),
		Formats:        []string{"qcow2", "vhd"},
	}
}

// providerSettings locate the cloud.
type providerSettings struct {
	Region        string         `config:"region,required,nonempty" doc:"Region such as 'eu-de'."`
	VPC           string         `config:"vpc,required,nonempty" doc:"VPC by name or ID."`
	Credentials   string         `config:"credentials,nonempty" default:"vpc" doc:"Prefix of the variables, or of the names in the credentials file: 'vpc' reads 'VPC_APIKEY'. Providers with different prefixes use different accounts."`
	ResourceGroup string         `config:"resource_group" doc:"ID of the resource group of the objects that npctl creates; the default is that of the account."`
	MaxServers    *int64         `config:"max_servers" min:"0" doc:"Maximum number of instances in the region, with those of others. npctl does not read the quotas of the account."`
	MaxCores      *int64         `config:"max_cores" min:"0" doc:"Maximum number of vCPUs in the region, with those of others."`
	MaxRAM        *int64         `config:"max_ram" min:"0" doc:"Maximum memory in the region in MiB, with that of others."`
	ImageFormat   string         `config:"image_format" default:"qcow2" oneof:"qcow2 vhd" doc:"Format of uploaded images."`
	ObjectStorage *objectStorage `config:"object_storage" doc:"Bucket of Cloud Object Storage through which npctl uploads images. The VPC image service needs an authorization to read it."`
}

// objectStorage is the block object_storage.
type objectStorage struct {
	Endpoint string `config:"endpoint,required,nonempty" doc:"Endpoint of the bucket, such as 'https://s3.eu-de.cloud-object-storage.appdomain.cloud'."`
	Bucket   string `config:"bucket,required,nonempty" doc:"Name of the bucket."`
	Region   string `config:"region" doc:"Location of the bucket; the default is the region of the provider."`
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	Profiles []string `config:"profiles,required,replacing" doc:"Instance profiles in order of preference: npctl uses the next one when the zone has no capacity for one."`

	poolSettings `config:",inline"`
}

// poolSettings are the attributes of an offer that a pool may have too. The defaults apply when neither sets them.
type poolSettings struct {
	Zones          []string                  `config:"zones,new" doc:"Zones to choose from; the default is the zones of 'subnets'."`
	Subnets        []string                  `config:"subnets,replacing" doc:"Subnets by name or ID: npctl uses the first one in the zone of the node. The default is all subnets of the VPC, by name."`
	SecurityGroups []string                  `config:"security_groups,replacing" doc:"Security groups by name or ID; the default is the default group of the VPC."`
	PublicIPv4     bool                      `config:"public_ipv4,replacing" default:"false" doc:"Nodes have a floating IP."`
	UseInternalIP  bool                      `config:"use_internal_ip,new" default:"false" doc:"Connect to nodes at their private address even if they have a floating IP."`
	Reach          drivers.Reach             `config:",inline"`
	Keys           []string                  `config:"keys,replacing" doc:"SSH keys of the nodes by name or ID."`
	UserData       string                    `config:"user_data,replacing,hashed" doc:"User data for cloud-init, at most 65536 bytes."`
	VolumeSize     int64                     `config:"volume_size,replacing" min:"10" doc:"Size of the boot volume in GB; the default is that of the image."`
	VolumeProfile  string                    `config:"volume_profile,replacing" default:"general-purpose" doc:"Profile of the boot volume."`
	Tags           map[string]string         `config:"tags,replacing" doc:"User tags of the boot volume, 'NAME:VALUE' each. The VPC API cannot tag instances when it creates them."`
	Request        drivers.RequestProperties `config:",inline"`
}

// imageSettings are the attributes of an uploaded image.
type imageSettings struct {
	OperatingSystem string `config:"operating_system,required,replacing" doc:"Name of the operating system in IBM Cloud, such as 'debian-12-amd64'; 'ibmcloud is operating-systems' lists them."`
}

// maxUserData is the limit of the VPC API.
const maxUserData = 65536

func checkTags(v cty.Value) error {
	for name, value := range v.AsValueMap() {
		switch {
		case strings.HasPrefix(strings.ToLower(name), tagPrefix):
			return fmt.Errorf("tag %q: %s… is reserved; choose another", name, tagPrefix)
		case name == "" || strings.Contains(name, ":") || otherTagCharacters().MatchString(name):
			return fmt.Errorf("tag %q: a name has letters, digits, spaces, '_', '-' and '.'", name)
		case !value.IsNull() && value.IsKnown() && len(name)+1+len(value.AsString()) > maxTag:
			return fmt.Errorf("tag %q: name and value have at most %d characters together", name, maxTag-1)
		}
	}
	return nil
}

// checkTagNames checks the names only; npctl cuts the values of request_properties.
func checkTagNames(v cty.Value) error {
	names := map[string]cty.Value{}
	for name := range v.AsValueMap() {
		names[name] = cty.StringVal("")
	}
	if len(names) == 0 {
		return nil
	}
	return checkTags(cty.MapVal(names))
}

// decodeOffer reads the configuration of an offer.
func decodeOffer(config cty.Value) (s labelSettings, err error) {
	err = cloudkit.Decode(config, &s)
	s.Profiles = slices.Compact(s.Profiles)
	return s, err
}
