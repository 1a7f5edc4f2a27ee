package emulator

import (
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// The two versions of glance's JSON patch. The older one uses the operation as a key: {"add": "/x", "value": …}.
const (
	patchV20 = "application/openstack-images-v2.0-json-patch"
	patchV21 = "application/openstack-images-v2.1-json-patch"
)

// imageChange is one operation of a patch.
type imageChange struct {
	op, name string
	value    json.RawMessage
}

func patchImage(c *call) (*answer, error) {
	changes, err := c.imageChanges()
	if err != nil {
		return nil, err
	}
	return c.withImage(func(_ *cloudState, i *image) (*answer, error) {
		changed := *i
		for _, change := range changes {
			if err := changed.apply(change); err != nil {
				return nil, err
			}
		}
		if changed.Visibility == "public" && i.Visibility != "public" {
			return nil, refuse(http.StatusForbidden, "You are not authorized to complete publicize_image action.")
		}
		*i = changed
		i.touch(c.now)
		return ok(imageView(i))
	})
}

func (c *call) imageChanges() ([]imageChange, error) {
	kind, _, _ := mime.ParseMediaType(c.request.Header.Get("Content-Type"))
	if kind != patchV20 && kind != patchV21 {
		return nil, refuse(http.StatusUnsupportedMediaType, "The request media type %s is not supported by this server.", kind)
	}
	var raw []map[string]json.RawMessage
	if err := json.Unmarshal(c.body, &raw); err != nil {
		return nil, badRequest("Request body must be a JSON array of operation objects.")
	}
	var changes []imageChange
	for _, one := range raw {
		change, err := parseChangeOf(kind, one)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func parseChangeOf(kind string, raw map[string]json.RawMessage) (imageChange, error) {
	change := imageChange{value: raw["value"]}
	var path string
	if kind == patchV21 {
		_ = json.Unmarshal(raw["op"], &change.op) // a value other than a string is no valid operation; detected below
		_ = json.Unmarshal(raw["path"], &path)
	} else {
		for _, op := range []string{"add", "replace", "remove"} {
			if text, found := raw[op]; found {
				change.op = op
				_ = json.Unmarshal(text, &path)
			}
		}
	}
	if !slices.Contains([]string{"add", "replace", "remove"}, change.op) {
		return change, badRequest("Operation objects must contain exactly one member named \"add\", \"remove\", or \"replace\".")
	}
	name, rooted := strings.CutPrefix(path, "/")
	if !rooted || strings.Contains(name, "/") || name == "" {
		return change, badRequest("Invalid JSON pointer for this resource: '%s'", path)
	}
	change.name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	return change, nil
}

// baseAttributes exist on every image and cannot be removed.
var baseAttributes = append(slices.Clone(readOnly), "name", "visibility", "disk_format", "container_format", "min_disk", "min_ram",
	"protected", "os_hidden", "tags", "id")

func (i *image) apply(change imageChange) error {
	isBase := slices.Contains(baseAttributes, change.name)
	_, exists := i.Properties[change.name]
	switch {
	case change.name == "id":
		return refuse(http.StatusForbidden, "Attribute 'id' is read-only.")
	case change.op == "remove" && isBase:
		return refuseGlance(http.StatusForbidden, "Property "+change.name+" may not be removed.")
	case change.op != "add" && !isBase && !exists:
		return refuseGlance(http.StatusConflict, "Property "+change.name+" does not exist.")
	case change.op == "remove":
		properties := maps.Clone(i.Properties)
		delete(properties, change.name)
		i.Properties = properties
		return nil
	}
	return i.set(change.name, change.value)
}
