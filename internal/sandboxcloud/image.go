package sandboxcloud

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

type image struct {
	base
	Name            string            `json:"name"`
	HasName         bool              `json:"has_name"` // an image may be without a name, which shows as null
	Status          string            `json:"status"`
	Visibility      string            `json:"visibility"`
	DiskFormat      string            `json:"disk_format"`
	ContainerFormat string            `json:"container_format"`
	MinDisk         int64             `json:"min_disk"`
	MinRAM          int64             `json:"min_ram"`
	Protected       bool              `json:"protected"`
	Hidden          bool              `json:"hidden"`
	Size            *int64            `json:"size"`
	VirtualSize     *int64            `json:"virtual_size"`
	Checksum        *string           `json:"checksum"`
	HashAlgo        *string           `json:"os_hash_algo"`
	HashValue       *string           `json:"os_hash_value"`
	Tags            []string          `json:"tags"`
	Properties      map[string]string `json:"properties"`
}

func (i *image) visible(project string) bool {
	return i.Project == project || i.Visibility == "public" || i.Visibility == "community"
}

func imageRoutes() []route {
	return []route{
		{imaging, "GET", "/v2/images", "image.list", false, false, listImages},
		{imaging, "POST", "/v2/images", "image.create", false, false, createImage},
		{imaging, "GET", "/v2/images/{id}", "image.show", false, false, showImage},
		{imaging, "PATCH", "/v2/images/{id}", "image.update", false, false, patchImage},
		{imaging, "DELETE", "/v2/images/{id}", "image.delete", false, false, deleteImage},
		{imaging, "PUT", "/v2/images/{id}/file", "image.upload", false, true, uploadImage},
		{imaging, "GET", "/v2/images/{id}/file", "image.download", false, false, downloadImage},
		{imaging, "PUT", "/v2/images/{id}/tags/{tag}", "image.tag", false, false, tagImage},
		{imaging, "DELETE", "/v2/images/{id}/tags/{tag}", "image.tag", false, false, untagImage},
		{imaging, "GET", "/v2/images/{id}/members", "image_member.list", false, false, listMembers},
		{imaging, "GET", "/v2/schemas/image", "image_schema.show", false, false, showImageSchema},
		{imaging, "GET", "/v2/schemas/images", "image_schema.show", false, false, showImagesSchema},
		{imaging, "GET", "/v2/info/import", "image_import.info", false, false, showImportInfo},
		{imaging, "GET", "/v2/info/stores", "image_stores.info", false, false, showStores},
	}
}

// imageView is flat: properties of the user's stand beside those of the service.
func imageView(i *image) view {
	v := view{}
	for name, value := range i.Properties {
		v[name] = value
	}
	maps.Copy(v, view{
		"id": i.ID, "name": nil, "status": i.Status, "visibility": i.Visibility, "owner": i.Project, "protected": i.Protected,
		"os_hidden": i.Hidden, "min_disk": i.MinDisk, "min_ram": i.MinRAM, "disk_format": orNil(i.DiskFormat),
		"container_format": orNil(i.ContainerFormat), "size": i.Size, "virtual_size": i.VirtualSize, "checksum": i.Checksum,
		"os_hash_algo": i.HashAlgo, "os_hash_value": i.HashValue, "tags": list(i.Tags),
		"created_at": shortTime(i.Created), "updated_at": shortTime(i.Updated),
		"self": "/v2/images/" + i.ID, "file": "/v2/images/" + i.ID + "/file", "schema": "/v2/schemas/image",
	})
	if i.HasName {
		v["name"] = i.Name
	}
	return v
}

func (c *call) findImage(w *world) (*image, error) {
	i, found := w.Images.get(c.id(), c.now)
	if !found || !i.visible(c.who.project) {
		if c.request.Method == http.MethodDelete && c.request.PathValue("tag") == "" {
			return nil, refuse(http.StatusNotFound, "Failed to find image %s to delete", c.id())
		}
		return nil, refuse(http.StatusNotFound, "No image found with ID %s", c.id())
	}
	return i, nil
}

// withImage answers something about one image; changing one takes being its owner.
func (c *call) withImage(fn func(*world, *image) (*answer, error)) (a *answer, err error) {
	run := c.update
	if c.request.Method == http.MethodGet {
		run = c.view
	}
	err = run(func(w *world) error {
		i, err := c.findImage(w)
		if err != nil {
			return err
		}
		if c.request.Method != http.MethodGet && !c.owns(&i.base) {
			return refuse(http.StatusForbidden, "You are not authorized to complete this action.")
		}
		a, err = fn(w, i)
		return err
	})
	return a, err
}

func showImage(c *call) (*answer, error) {
	return c.withImage(func(_ *world, i *image) (*answer, error) { return ok(imageView(i)) })
}

func createImage(c *call) (*answer, error) {
	var in map[string]json.RawMessage
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	i := &image{Status: "queued", Visibility: "shared", Properties: map[string]string{}}
	wantedID := ""
	for name, value := range in {
		if name == "id" {
			_ = json.Unmarshal(value, &wantedID)
			continue
		}
		if err := i.set(name, value); err != nil {
			return nil, err
		}
	}
	if i.Visibility == "public" {
		return nil, refuse(http.StatusForbidden, "You are not authorized to complete publicize_image action.")
	}
	var v view
	err := c.update(func(w *world) error {
		if _, taken := w.Images.byID[wantedID]; taken {
			return refuse(http.StatusConflict, "Image ID %s already exists!", wantedID)
		}
		i.base = w.newBase(c.who.project, c.now)
		if wantedID != "" {
			i.ID = wantedID
		}
		c.bend(&i.base)
		w.Images.add(i)
		v = imageView(i)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a, err := created(v)
	return a.with("Location", c.base()+roots[imaging]+"/v2/images/"+i.ID).
		with("OpenStack-image-import-methods", "glance-direct,web-download,copy-image"), err
}

// readOnly are attributes that the service alone sets.
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

func deleteImage(c *call) (*answer, error) {
	return c.withImage(func(w *world, i *image) (*answer, error) {
		if i.Protected {
			return nil, refuse(http.StatusForbidden, "Image %s is protected and cannot be deleted.", i.ID)
		}
		for _, v := range w.Volumes.rows {
			if v.ImageID == i.ID && !v.Gone {
				return nil, refuse(http.StatusConflict, "Image %s could not be deleted because it is in use: The image cannot be deleted because it is in use through the backend store outside of Glance.", i.ID)
			}
		}
		c.cloud.contents.remove(i.ID)
		retire(w, &w.Images, i, c.now, c.lingers())
		return noContent()
	})
}

func tagImage(c *call) (*answer, error) {
	return c.withImage(func(_ *world, i *image) (*answer, error) {
		if tag := c.request.PathValue("tag"); !slices.Contains(i.Tags, tag) {
			i.Tags = append(slices.Clone(i.Tags), tag)
			i.touch(c.now)
		}
		return noContent()
	})
}

func untagImage(c *call) (*answer, error) {
	return c.withImage(func(_ *world, i *image) (*answer, error) {
		tag := c.request.PathValue("tag")
		if !slices.Contains(i.Tags, tag) {
			return nil, refuse(http.StatusNotFound, "The resource could not be found.")
		}
		i.Tags = slices.DeleteFunc(slices.Clone(i.Tags), func(one string) bool { return one == tag })
		i.touch(c.now)
		return noContent()
	})
}

func listMembers(c *call) (*answer, error) {
	return c.withImage(func(*world, *image) (*answer, error) {
		return ok(view{"members": []any{}, "schema": "/v2/schemas/members"})
	})
}

func showImportInfo(*call) (*answer, error) {
	return ok(view{"import-methods": view{"description": "Import methods available.", "type": "array", "value": []string{}}})
}

func showStores(*call) (*answer, error) {
	return nil, refuse(http.StatusNotFound, "Multi backend is not supported at this site.")
}

func showImageSchema(*call) (*answer, error) { return ok(imageSchema()) }

func showImagesSchema(*call) (*answer, error) {
	return ok(view{
		"name": "images",
		"properties": view{
			"images": view{"type": "array", "items": imageSchema()}, "first": view{"type": "string"},
			"next": view{"type": "string"}, "schema": view{"type": "string"},
		},
		"links": []view{{"rel": "first", "href": "{first}"}, {"rel": "next", "href": "{next}"}, {"rel": "describedby", "href": "{schema}"}},
	})
}

func imageSchema() view {
	text := func() view { return view{"type": []string{"null", "string"}} }
	number := func() view { return view{"type": []string{"null", "integer"}} }
	format := func(values []string) view { return view{"type": []string{"null", "string"}, "enum": values} }
	return view{
		"name": "image",
		"properties": view{
			"id": view{"type": "string"}, "name": text(), "status": view{"type": "string", "readOnly": true},
			"visibility": view{"type": "string", "enum": visibilities}, "protected": view{"type": "boolean"},
			"os_hidden": view{"type": "boolean"}, "owner": text(), "checksum": text(), "os_hash_algo": text(),
			"os_hash_value": text(), "size": number(), "virtual_size": number(), "container_format": format(containerFormats),
			"disk_format": format(diskFormats), "min_disk": view{"type": "integer"}, "min_ram": view{"type": "integer"},
			"tags":       view{"type": "array", "items": view{"type": "string", "maxLength": 255}},
			"created_at": view{"type": "string"}, "updated_at": view{"type": "string"}, "self": view{"type": "string"},
			"file": view{"type": "string"}, "schema": view{"type": "string"},
		},
		"additionalProperties": view{"type": "string"},
		"links": []view{
			{"rel": "self", "href": "{self}"}, {"rel": "enclosure", "href": "{file}"}, {"rel": "describedby", "href": "{schema}"},
		},
	}
}

// imageField is an attribute as text, for filters and sorting.
func imageField(i *image, name string) string {
	switch name {
	case "id":
		return i.ID
	case "name":
		return i.Name
	case "status":
		return i.Status
	case "owner":
		return i.Project
	case "visibility":
		return i.Visibility
	case "disk_format":
		return i.DiskFormat
	case "container_format":
		return i.ContainerFormat
	case "protected":
		return strconv.FormatBool(i.Protected)
	case "os_hidden":
		return strconv.FormatBool(i.Hidden)
	case "min_disk":
		return strconv.FormatInt(i.MinDisk, 10)
	case "min_ram":
		return strconv.FormatInt(i.MinRAM, 10)
	case "checksum":
		return textOf(i.Checksum)
	case "os_hash_value":
		return textOf(i.HashValue)
	case "os_hash_algo":
		return textOf(i.HashAlgo)
	case "size":
		return fmt.Sprintf("%020d", numberOf(i.Size))
	case "created_at":
		return i.Created.UTC().Format(time.RFC3339)
	case "updated_at":
		return i.Updated.UTC().Format(time.RFC3339)
	default:
		return i.Properties[name]
	}
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func numberOf(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
