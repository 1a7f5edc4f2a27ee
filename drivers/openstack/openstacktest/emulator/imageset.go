package emulator

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// readOnly are attributes that only the service sets.
var readOnly = []string{
	"created_at", "updated_at", "status", "checksum", "size", "virtual_size", "direct_url", "self", "file", "schema", "owner",
	"os_hash_algo", "os_hash_value", "stores", "locations",
}

var (
	diskFormats      = []string{"ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"}
	containerFormats = []string{"ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"}
	visibilities     = []string{"community", "public", "private", "shared"}
)

// set sets one attribute or property of a request.
func (i *image) set(name string, value json.RawMessage) error {
	if slices.Contains(readOnly, name) {
		return refuse(http.StatusForbidden, "Attribute '%s' is read-only.", name)
	}
	var err error
	switch name {
	case "name":
		i.HasName = string(value) != "null"
		err = json.Unmarshal(value, &i.Name)
	case "visibility":
		return oneOf(name, value, visibilities, &i.Visibility)
	case "disk_format":
		return oneOf(name, value, diskFormats, &i.DiskFormat)
	case "container_format":
		return oneOf(name, value, containerFormats, &i.ContainerFormat)
	case "min_disk":
		err = json.Unmarshal(value, &i.MinDisk)
	case "min_ram":
		err = json.Unmarshal(value, &i.MinRAM)
	case "protected":
		err = json.Unmarshal(value, &i.Protected)
	case "os_hidden":
		err = json.Unmarshal(value, &i.Hidden)
	case "tags":
		var tags []string
		err = json.Unmarshal(value, &tags)
		slices.Sort(tags)
		i.Tags = slices.Compact(tags)
	default:
		return i.setProperty(name, value)
	}
	if err != nil {
		return badRequest("Provided object does not match schema 'image': %s: %s is not valid", name, value)
	}
	return nil
}

func oneOf(name string, value json.RawMessage, allowed []string, to *string) error {
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || (text != nil && !slices.Contains(allowed, *text)) {
		return badRequest("Provided object does not match schema 'image': '%s' is not one of [None, '%s']\n\nFailed validating 'enum' in schema['properties']['%s']",
			strings.Trim(string(value), `"`), strings.Join(allowed, "', '"), name)
	}
	*to = ""
	if text != nil {
		*to = *text
	}
	return nil
}

func (i *image) setProperty(name string, value json.RawMessage) error {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return badRequest("Provided object does not match schema 'image': %s is not of type 'string': Failed validating 'type' in schema['additionalProperties']", value)
	}
	if len(name) > 255 || len(text) > 65535 {
		return badRequest("Property %s is too long.", name[:min(64, len(name))])
	}
	changed := maps.Clone(i.Properties)
	if changed == nil {
		changed = map[string]string{}
	}
	changed[name] = text
	i.Properties = changed
	return nil
}
