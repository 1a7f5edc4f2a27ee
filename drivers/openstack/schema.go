package openstack

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources/schema"
)

const driverDoc = "Nodes are Nova servers, images are Glance images. Credentials come from `clouds.yaml`, `secure.yaml` " +
	"and `OS_*` variables as for every OpenStack tool."

// uploadFormats are Glance's bootable disk formats, the default first.
func uploadFormats() []string {
	return []string{"qcow2", "raw", "vhd", "vhdx", "vmdk", "vdi", "iso", "ploop"}
}

// SharedSchema is the schema without the attributes that locate the cloud. A driver that provides its own cloud, such
// as the sandbox, uses it.
func SharedSchema() schema.Driver {
	return schema.Driver{
		Doc:            driverDoc,
		Provider:       schema.Block{Attributes: sharedAttributes()},
		Pool:           schema.Block{Attributes: poolAttributes()},
		Label:          schema.Block{Attributes: labelAttributes(), AtLeastOneOf: [][]string{{"flavor", "min_ram"}}},
		Image:          schema.Block{Attributes: imageAttributes()},
		HasLabels:      true,
		HasImages:      true,
		HasCloudImages: true,
		Formats:        uploadFormats(),
	}
}

func cloudAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "cloud", Type: cty.String, Required: true, Class: schema.InPlace,
			Doc: "Name of the entry in `clouds.yaml`; `envvars` means the `OS_*` environment variables."},
		{Name: "region", Type: cty.String, Class: schema.InPlace,
			Doc: "Region; the default is the region of the entry."},
	}
}

func sharedAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "image_format", Type: cty.String, Class: schema.InPlace, OneOf: append(uploadFormats(), "qcow", "vpc"),
			Doc: "Format of uploaded images; `qcow` means qcow2 and `vpc` means vhd. The default is `image_format` of the `clouds.yaml` entry, else `qcow2`."},
	}
}

// poolAttributes are the offer's attributes with the defaults that apply when neither pool nor label sets them.
func poolAttributes() []schema.Attribute {
	defaults := map[string]cty.Value{
		"auto_floating_ip":  cty.False,
		"use_internal_ip":   cty.False,
		"host_key_checking": cty.True,
		"boot_from_volume":  cty.False,
		"volume_size":       cty.NumberIntVal(defaultVolumeSize),
		"create_ports":      cty.False,
	}
	attributes := offerAttributes()
	for i, a := range attributes {
		if value, ok := defaults[a.Name]; ok {
			attributes[i].Default = value
		}
	}
	return attributes
}

const defaultVolumeSize = 50 // GB

func labelAttributes() []schema.Attribute {
	return append([]schema.Attribute{
		{Name: "flavor", Type: cty.String, Class: schema.Replacing,
			Doc: "Flavor by name or ID; with `min_ram`, a part of the flavor's name. `flavor` or `min_ram` is required."},
		{Name: "min_ram", Type: cty.Number, Class: schema.Replacing, Min: ptr(int64(1)),
			Doc: "Minimum RAM in MiB: selects the flavor with the least RAM of at least this size, the first by name among equals."},
	}, offerAttributes()...)
}

func offerAttributes() []schema.Attribute {
	list := cty.List(cty.String)
	return []schema.Attribute{
		{Name: "networks", Type: list, Class: schema.Replacing,
			Doc: "Networks by name or ID, attached in this order. Without networks the cloud chooses, which works if the project has only one."},
		{Name: "security_groups", Type: list, Class: schema.Replacing,
			Doc: "Security groups by name or ID; the default is the `default` group of the project."},
		{Name: "create_ports", Type: cty.Bool, Class: schema.InPlace,
			Doc: "npctl creates the ports of servers instead of Nova. The ports then have ownership tags, so npctl finds and deletes orphans. This costs one call per network and node."},
		{Name: "availability_zones", Type: list, Class: schema.AppliedToNew,
			Doc: "Zones to choose from; the default is all zones of the cloud."},
		{Name: "auto_floating_ip", Type: cty.Bool, Class: schema.Replacing,
			Doc: "Attach a new floating IP to servers that have no public address."},
		{Name: "floating_ip_network", Type: cty.String, Class: schema.Replacing,
			Doc: "External network of floating IPs, by name or ID; the default is the only external network, or the default network of the cloud."},
		{Name: "use_internal_ip", Type: cty.Bool, Class: schema.AppliedToNew,
			Doc: "Connect to nodes at their private address even if they have a public one."},
		{Name: "ip_version", Type: cty.Number, Class: schema.AppliedToNew, Check: checkIPVersion,
			Doc: "4 or 6: connect to nodes at an address of this version; the default is 4 if the node has an IPv4 address, else 6."},
		{Name: "interface_network", Type: cty.String, Class: schema.AppliedToNew,
			Doc: "Network of the address at which npctl connects to nodes with several networks."},
		{Name: "host_key_checking", Type: cty.Bool, Class: schema.InPlace,
			Doc: "A node is ready when it presents its SSH host keys."},
		{Name: "key_name", Type: cty.String, Class: schema.Replacing,
			Doc: "Nova key pair of the servers."},
		{Name: "userdata", Type: cty.String, Class: schema.Replacing, Hashed: true, Check: checkUserdata,
			Doc: "User data for cloud-init, at most 49149 bytes."},
		{Name: "config_drive", Type: cty.Bool, Class: schema.Replacing,
			Doc: "Attach a config drive to servers; the default is that of the cloud."},
		{Name: "boot_from_volume", Type: cty.Bool, Class: schema.Replacing,
			Doc: "Boot from a new volume; Nova deletes it with the server."},
		{Name: "volume_size", Type: cty.Number, Class: schema.Replacing, Min: ptr(int64(1)),
			Doc: "Size of the boot volume in GB."},
		{Name: "volume_type", Type: cty.String, Class: schema.Replacing,
			Doc: "Type of the boot volume; the default is that of the cloud."},
		{Name: "instance_properties", Type: cty.Map(cty.String), Class: schema.Replacing, Check: checkProperties,
			Doc: "Metadata of servers: keys and values of at most 255 bytes."},
		{Name: "tags", Type: list, Class: schema.Replacing, Check: checkTags,
			Doc: "Tags of servers, at most 60 characters each."},
	}
}

func imageAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "visibility", Type: cty.String, Class: schema.Replacing, OneOf: []string{"private", "shared", "community", "public"},
			Doc: "Visibility of the uploaded image; the default is that of the cloud (usually `shared`: this project and its members)."},
		{Name: "min_disk", Type: cty.Number, Class: schema.Replacing, Min: ptr(int64(0)),
			Doc: "Minimum disk of a flavor that boots the image, in GB."},
		{Name: "min_ram", Type: cty.Number, Class: schema.Replacing, Min: ptr(int64(0)),
			Doc: "Minimum RAM of a flavor that boots the image, in MiB."},
	}
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

func ptr[T any](v T) *T { return &v }
