package openstack

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/requestvalues"
	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "Nodes are Nova servers, images are Glance images. Credentials come from `clouds.yaml`, `secure.yaml` " +
	"and `OS_*` variables as for every OpenStack tool."

// uploadFormats are Glance's bootable disk formats, the default first.
func uploadFormats() []string {
	return []string{"qcow2", "raw", "vhd", "vhdx", "vmdk", "vdi", "iso", "ploop"}
}

// SharedSchema is the schema without the attributes that locate the cloud.
func SharedSchema() schema.Driver {
	checks := map[string]schema.Check{
		"ip_version": checkIPVersion, "userdata": checkUserdata, "instance_properties": checkProperties, "request_properties": requestvalues.CheckMap(checkProperties), "tags": checkTags,
	}
	pool := schema.Of[poolSettings]("", checks)
	label := schema.ForLabels[labelSettings](pool, nil)
	label.AtLeastOneOf = [][]string{{"flavor", "min_ram"}}
	return schema.Driver{
		Doc:            driverDoc,
		Provider:       schema.Of[sharedSettings]("", nil),
		Pool:           pool,
		Label:          label,
		Image:          schema.Of[imageSettings]("", nil),
		HasLabels:      true,
		HasImages:      true,
		HasCloudImages: true,
		Formats:        uploadFormats(),
		Nodepool:       nodepoolKeys(),
	}
}

// providerSettings locate the cloud.
type providerSettings struct {
	Cloud  string         `config:"cloud,required" doc:"Name of the entry in 'clouds.yaml'; 'envvars' means the 'OS_*' environment variables."`
	Region string         `config:"region" doc:"Region; the default is the region of the entry."`
	Shared sharedSettings `config:",inline"`
}

// sharedSettings are the attributes of a provider that do not locate the cloud.
type sharedSettings struct {
	ImageFormat string `config:"image_format" oneof:"qcow2 raw vhd vhdx vmdk vdi iso ploop qcow vpc" doc:"Format of uploaded images; 'qcow' means qcow2 and 'vpc' means vhd. The default is 'image_format' of the 'clouds.yaml' entry, else 'qcow2'."`
}

// labelSettings are the attributes of an offer.
type labelSettings struct {
	Flavor string `config:"flavor,replacing" doc:"Flavor by name or ID; with 'min_ram', a part of the flavor's name. 'flavor' or 'min_ram' is required."`
	MinRAM int64  `config:"min_ram,replacing" min:"1" doc:"Minimum RAM in MiB: selects the flavor with the least RAM of at least this size, the first by name among equals."`

	poolSettings `config:",inline"`
}

// poolSettings are the attributes of an offer that a pool may have too. The defaults apply when neither sets them.
type poolSettings struct {
	Networks           []string                  `config:"networks,replacing" doc:"Networks by name or ID, attached in this order. Without networks the cloud chooses, which works if the project has only one."`
	SecurityGroups     []string                  `config:"security_groups,replacing" doc:"Security groups by name or ID; the default is the 'default' group of the project."`
	CreatePorts        bool                      `config:"create_ports" default:"false" doc:"npctl creates the ports of servers instead of Nova. The ports then have ownership tags, so npctl finds and deletes orphans. This costs one call per network and node."`
	AvailabilityZones  []string                  `config:"availability_zones,new" doc:"Zones to choose from; the default is all zones of the cloud."`
	AutoFloatingIP     bool                      `config:"auto_floating_ip,replacing" default:"false" doc:"Attach a new floating IP to servers that have no public address."`
	FloatingIPNetwork  string                    `config:"floating_ip_network,replacing" doc:"External network of floating IPs, by name or ID; the default is the only external network, or the default network of the cloud."`
	UseInternalIP      bool                      `config:"use_internal_ip,new" default:"false" doc:"Connect to nodes at their private address even if they have a public one."`
	IPVersion          int64                     `config:"ip_version,new" doc:"4 or 6: connect to nodes at an address of this version; the default is 4 if the node has an IPv4 address, else 6."`
	InterfaceNetwork   string                    `config:"interface_network,new" doc:"Network of the address at which npctl connects to nodes with several networks."`
	Reach              drivers.Reach             `config:",inline"`
	KeyName            string                    `config:"key_name,replacing" doc:"Nova key pair of the servers."`
	UserData           string                    `config:"userdata,replacing,hashed" doc:"User data for cloud-init, at most 49149 bytes."`
	ConfigDrive        *bool                     `config:"config_drive,replacing" doc:"Attach a config drive to servers; the default is that of the cloud."`
	BootFromVolume     bool                      `config:"boot_from_volume,replacing" default:"false" doc:"Boot from a new volume; Nova deletes it with the server."`
	VolumeSize         int64                     `config:"volume_size,replacing" default:"50" min:"1" doc:"Size of the boot volume in GB."`
	VolumeType         string                    `config:"volume_type,replacing" doc:"Type of the boot volume; the default is that of the cloud."`
	InstanceProperties map[string]string         `config:"instance_properties,replacing" doc:"Metadata of servers: keys and values of at most 255 bytes."`
	Request            drivers.RequestProperties `config:",inline"`
	Tags               []string                  `config:"tags,replacing" doc:"Tags of servers, at most 60 characters each."`
}

// imageSettings are the attributes of an uploaded image.
type imageSettings struct {
	Visibility string `config:"visibility,replacing" oneof:"private shared community public" doc:"Visibility of the uploaded image; the default is that of the cloud (usually 'shared': this project and its members)."`
	MinDisk    int64  `config:"min_disk,replacing" min:"0" doc:"Minimum disk of a flavor that boots the image, in GB."`
	MinRAM     int64  `config:"min_ram,replacing" min:"0" doc:"Minimum RAM of a flavor that boots the image, in MiB."`
}

func checkIPVersion(v cty.Value) error {
	if n, _ := v.AsBigFloat().Int64(); n != 4 && n != 6 {
		return fmt.Errorf("IP version %d does not exist; write 4 or 6", n)
	}
	return nil
}

// maxUserdata is Nova's limit on the base64 text.
const maxUserdata = 65535

func checkUserdata(v cty.Value) error {
	if n := base64.StdEncoding.EncodedLen(len(v.AsString())); n > maxUserdata {
		return fmt.Errorf("user data has %d bytes as base64, Nova accepts %d; download the rest from the node instead", n, maxUserdata)
	}
	return nil
}

// maxMetadata is Nova's limit on keys and values of metadata.
const maxMetadata = 255

func checkProperties(v cty.Value) error {
	for key, value := range v.AsValueMap() {
		switch {
		case strings.HasPrefix(key, markPrefix):
			return fmt.Errorf("property %q: names that start with %s are reserved for npctl; choose another", key, markPrefix)
		case key == "" || len(key) > maxMetadata:
			return fmt.Errorf("property %q: a name has 1 to %d bytes", key, maxMetadata)
		case !value.IsNull() && value.IsKnown() && len(value.AsString()) > maxMetadata:
			return fmt.Errorf("property %q: Nova accepts values of at most %d bytes, this one has %d", key, maxMetadata, len(value.AsString()))
		}
	}
	return nil
}

// maxTag is Nova's limit on the length of a tag.
const maxTag = 60

func checkTags(v cty.Value) error {
	for _, e := range v.AsValueSlice() {
		if e.IsNull() || !e.IsKnown() {
			continue
		}
		if tag := e.AsString(); tag == "" || len(tag) > maxTag || strings.ContainsAny(tag, "/,") {
			return fmt.Errorf("tag %q: a tag has 1 to %d characters and neither / nor a comma", tag, maxTag)
		}
	}
	return nil
}
