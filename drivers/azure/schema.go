package azure

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

const driverDoc = "Nodes are virtual machines, images are managed images of one resource group. Credentials come from the variables and " +
	"identities that every Azure tool reads: `AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and `AZURE_CLIENT_SECRET`, a workload or managed identity, or `az login`."

func driverSchema() schema.Driver {
	checkUserdata := cloudkit.CheckBytes("the text", "Azure", maxUserdata)
	checks := map[string]schema.Check{"userdata": checkUserdata, "custom_data": checkUserdata, "tags": checkTags, "request_properties": requestvalues.CheckMap(checkTags)}
	pool := schema.Of[poolSettings]("", checks)
	return schema.Driver{
		Doc:            driverDoc,
		Provider:       schema.Of[providerSettings]("", nil),
		Pool:           pool,
		Label:          schema.ForLabels[labelSettings](pool, map[string]schema.Check{"vm_sizes": cloudkit.CheckFilled("size such as Standard_D2s_v5")}),
		Image:          schema.Of[imageSettings]("", nil),
		HasLabels:      true,
		HasImages:      true,
		HasCloudImages: true,
		Nodepool:       nodepoolKeys(),
		Formats:        []string{formatRaw, formatVHD},
	}
}

// providerSettings locate the resource group.
type providerSettings struct {
	SubscriptionID string `config:"subscription_id" doc:"ID of the subscription; the default is 'AZURE_SUBSCRIPTION_ID'."`
	ResourceGroup  string `config:"resource_group,required,nonempty" doc:"Resource group of all objects that npctl creates. It has to exist."`
	Location       string `config:"location" doc:"Location of the objects, such as 'westeurope'; the default is that of the resource group."`
	Cloud          string `config:"cloud" default:"public" oneof:"public government china" doc:"The Azure cloud."`
	Endpoint       string `config:"endpoint" doc:"URL of another Azure Resource Manager, such as that of an Azure Stack. 'AZURE_AUTHORITY_HOST' is then the URL of its login service."`
	ImageFormat    string `config:"image_format" default:"raw" oneof:"raw vhd" doc:"Format of uploaded images. Azure stores fixed VHDs, and npctl makes them of raw images; images of the format 'vhd' have to be fixed VHDs."`
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	VMSizes []string `config:"vm_sizes,required,replacing" doc:"Sizes of virtual machines in order of preference, such as 'Standard_D2s_v5': npctl uses the next one when Azure has no capacity for one."`

	poolSettings `config:",inline"`
}

// poolSettings are the attributes of an offer that a pool may have too. The defaults apply when neither sets them.
type poolSettings struct {
	Zones            []string                  `config:"availability_zones,new" doc:"Zones to choose from, such as '1'; the default is no zone: Azure chooses."`
	Network          string                    `config:"network,replacing" doc:"Virtual network of the nodes, by name. Not with the ID of a subnet."`
	NetworkGroup     string                    `config:"network_resource_group,replacing" doc:"Resource group of the network; the default is that of the provider."`
	Subnet           string                    `config:"subnet,replacing" default:"default" doc:"Subnet in the network, by name, or the full ID of any subnet."`
	SecurityGroupID  string                    `config:"security_group_id,replacing" doc:"Full ID of the network security group of the nodes. Without one here or in the subnet, Azure rejects connections to public addresses."`
	PublicIPv4       bool                      `config:"public_ipv4,replacing" default:"true" doc:"Nodes have a public IPv4 address."`
	IPv6             bool                      `config:"ipv6,replacing" default:"false" doc:"Nodes have a private IPv6 address, which the subnet must support."`
	PublicIPv6       bool                      `config:"public_ipv6,replacing" default:"false" doc:"Nodes have a public and a private IPv6 address."`
	UseInternalIP    bool                      `config:"use_internal_ip,new" default:"false" doc:"Connect to nodes at their private address even if they have a public one."`
	Reach            drivers.Reach             `config:",inline"`
	AdminUsername    string                    `config:"admin_username,replacing" default:"zuul" doc:"User that Azure creates on the node. It is that of the image if jobs connect with 'ssh_public_key' or a password."`
	SSHPublicKey     string                    `config:"ssh_public_key,replacing" doc:"Public key of 'admin_username', 'ssh-rsa' or 'ssh-ed25519'."`
	AdminPassword    string                    `config:"admin_password,sensitive,replacing" doc:"Password of 'admin_username'."`
	GeneratePassword bool                      `config:"generate_password,replacing" default:"false" doc:"Give 'admin_username' a random password that is stored nowhere, for Windows images that have another login."`
	VolumeSize       int64                     `config:"volume_size,replacing" min:"1" doc:"Size of the OS disk in GiB; the default is that of the image."`
	VolumeType       string                    `config:"volume_type,replacing" oneof:"Standard_LRS StandardSSD_LRS StandardSSD_ZRS Premium_LRS Premium_ZRS" doc:"Type of the OS disk; the default is that of the size."`
	UserData         string                    `config:"userdata,replacing,hashed" doc:"User data, at most 49149 bytes: programs on the node read it from the metadata service."`
	CustomData       string                    `config:"custom_data,replacing,hashed" doc:"Custom data, at most 49149 bytes: cloud-init reads it at the first start."`
	Tags             map[string]string         `config:"tags,replacing" doc:"Tags of virtual machines, their disks, network interfaces and public addresses."`
	Request          drivers.RequestProperties `config:",inline"`
	MarketType       string                    `config:"market_type,replacing" default:"on-demand" oneof:"on-demand spot" doc:"'spot' nodes cost less; Azure may delete them at any time."`
	Identities       []string                  `config:"identities,replacing" doc:"Full IDs of user-assigned managed identities of the nodes."`
}

// imageSettings are the attributes of an uploaded image.
type imageSettings struct {
	OSType        string `config:"os_type,replacing" default:"Linux" oneof:"Linux Windows" doc:"Operating system of the image."`
	Generation    string `config:"generation,replacing" default:"V2" oneof:"V1 V2" doc:"'V2' images boot with UEFI, 'V1' images with a BIOS."`
	ZoneResilient bool   `config:"zone_resilient,replacing" default:"true" doc:"Azure stores the image in all zones; only locations with zones support it."`
}

// maxUserdata is the limit of 65536 bytes after the encoding, which Azure also documents as 64 KiB.
const maxUserdata = 49149

// Azure's limits on tags. npctl needs up to reservedTags tags of an object.
const (
	maxTagKey    = 512
	maxTagValue  = 255 // Azure accepts 256; the contract of request_properties has 255 for all drivers
	maxTags      = 50
	reservedTags = 15
	// notInTags are the characters that the name of a tag must not contain.
	notInTags = `<>%&\?/`
)

func checkTags(v cty.Value) error {
	values := v.AsValueMap()
	if n := len(values); n > maxTags-reservedTags {
		return fmt.Errorf("%d tags: Azure accepts %d for an object, of which npctl needs %d", n, maxTags, reservedTags)
	}
	for key, value := range values {
		low := strings.ToLower(key)
		switch {
		case strings.HasPrefix(low, tagPrefix), strings.HasPrefix(low, "azure"), strings.HasPrefix(low, "microsoft"), strings.HasPrefix(low, "windows"):
			return fmt.Errorf("tag %q: %s…, azure…, microsoft… and windows… are reserved; choose another", key, tagPrefix)
		case key == "" || len(key) > maxTagKey || strings.ContainsAny(key, notInTags):
			return fmt.Errorf("tag %q: a name has 1 to %d bytes and none of %s", key, maxTagKey, notInTags)
		case !value.IsNull() && value.IsKnown() && len(value.AsString()) > maxTagValue:
			return fmt.Errorf("tag %q: npctl accepts values of at most %d bytes, this one has %d", key, maxTagValue, len(value.AsString()))
		}
	}
	return nil
}

func encoded(text string) *string {
	if text == "" {
		return nil
	}
	result := base64.StdEncoding.EncodeToString([]byte(text))
	return &result
}

func (s poolSettings) isSpot() bool { return s.MarketType == "spot" }

// decodeOffer reads the configuration of an offer.
func decodeOffer(config cty.Value) (s labelSettings, err error) {
	err = cloudkit.Decode(config, &s)
	s.VMSizes = slices.Compact(s.VMSizes)
	return s, err
}
