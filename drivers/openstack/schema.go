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
			Doc: "Region; default is the entry's own."},
	}
}

func sharedAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "image_format", Type: cty.String, Class: schema.InPlace, OneOf: append(uploadFormats(), "qcow", "vpc"),
			Doc: "Format that images are uploaded in, where `qcow` is qcow2 and `vpc` is vhd; default is `image_format` of the `clouds.yaml` entry, else `qcow2`."},
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
			Doc: "Flavor by name or id; together with `min_ram` a part of the flavor's name. One of the two must be there."},
		{Name: "min_ram", Type: cty.Number, Class: schema.Replacing, Min: ptr(int64(1)),
			Doc: "MiB: the flavor with the least RAM that has at least this much is taken, the first by name among equals."},
	}, offerAttributes()...)
}

func offerAttributes() []schema.Attribute {
	list := cty.List(cty.String)
	return []schema.Attribute{
		{Name: "networks", Type: list, Class: schema.Replacing,
			Doc: "Networks by name or id, attached in this order. Without any the cloud chooses, which works where the project has just one."},
		{Name: "security_groups", Type: list, Class: schema.Replacing,
			Doc: "Security groups by name or id; default is the project's `default` group."},
		{Name: "create_ports", Type: cty.Bool, Class: schema.InPlace,
			Doc: "Make the ports of servers rather than have Nova do it: they carry marks then, so that one left behind is found and removed, at the price of a call per network and node."},
		{Name: "availability_zones", Type: list, Class: schema.AppliedToNew,
			Doc: "Zones to choose from; default is every zone the cloud has."},
		{Name: "auto_floating_ip", Type: cty.Bool, Class: schema.Replacing,
			Doc: "Attach a new floating IP to servers that have no public address."},
		{Name: "floating_ip_network", Type: cty.String, Class: schema.Replacing,
			Doc: "External network, by name or id, that floating IPs come from; default is the only external network, or the cloud's default one."},
		{Name: "use_internal_ip", Type: cty.Bool, Class: schema.AppliedToNew,
			Doc: "Connect to nodes at their private address even when they have a public one."},
		{Name: "ip_version", Type: cty.Number, Class: schema.AppliedToNew, Check: checkIPVersion,
			Doc: "4 or 6: connect to nodes at an address of this version; default is 4 where there is one, else 6."},
		{Name: "interface_network", Type: cty.String, Class: schema.AppliedToNew,
			Doc: "Network whose address nodes are connected to at, when they have several."},
		{Name: "host_key_checking", Type: cty.Bool, Class: schema.InPlace,
			Doc: "Nodes count as ready once their SSH host keys have been seen."},
		{Name: "key_name", Type: cty.String, Class: schema.Replacing,
			Doc: "Nova key pair to put into servers."},
		{Name: "userdata", Type: cty.String, Class: schema.Replacing, Hashed: true, Check: checkUserdata,
			Doc: "User data for cloud-init, at most 49149 bytes."},
		{Name: "config_drive", Type: cty.Bool, Class: schema.Replacing,
			Doc: "Give servers a config drive; default is the cloud's."},
		{Name: "boot_from_volume", Type: cty.Bool, Class: schema.Replacing,
			Doc: "Boot from a new volume that is deleted with the server."},
		{Name: "volume_size", Type: cty.Number, Class: schema.Replacing, Min: ptr(int64(1)),
			Doc: "Size of the boot volume in GB."},
		{Name: "volume_type", Type: cty.String, Class: schema.Replacing,
			Doc: "Type of the boot volume; default is the cloud's."},
		{Name: "instance_properties", Type: cty.Map(cty.String), Class: schema.Replacing, Check: checkProperties,
			Doc: "Metadata of servers: keys and values of at most 255 bytes."},
		{Name: "tags", Type: list, Class: schema.Replacing, Check: checkTags,
			Doc: "Tags of servers, at most 60 characters each."},
	}
}

func imageAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "visibility", Type: cty.String, Class: schema.Replacing, OneOf: []string{"private", "shared", "community", "public"},
			Doc: "Who may use the uploaded image; default is the cloud's (mostly `shared`: this project and those invited)."},
		{Name: "min_disk", Type: cty.Number, Class: schema.Replacing, Min: ptr(int64(0)),
			Doc: "GB of disk a flavor must have to boot the image."},
		{Name: "min_ram", Type: cty.Number, Class: schema.Replacing, Min: ptr(int64(0)),
			Doc: "MiB of RAM a flavor must have to boot the image."},
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
		return fmt.Errorf("user data takes %d bytes as base64 and Nova takes %d; fetch the rest from the node instead", n, maxUserdata)
	}
	return nil
}

// maxMetadata is Nova's limit on keys and values of metadata.
const maxMetadata = 255

func checkProperties(v cty.Value) error {
	for key, value := range v.AsValueMap() {
		switch {
		case strings.HasPrefix(key, markPrefix):
			return fmt.Errorf("property %q: names that begin with %s are npctl's own; choose another", key, markPrefix)
		case key == "" || len(key) > maxMetadata:
			return fmt.Errorf("property %q: a name has 1 to %d bytes", key, maxMetadata)
		case !value.IsNull() && value.IsKnown() && len(value.AsString()) > maxMetadata:
			return fmt.Errorf("property %q: Nova takes values of at most %d bytes, this has %d", key, maxMetadata, len(value.AsString()))
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
