package emulator

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

type image struct {
	base
	Name            string            `json:"name"`
	HasName         bool              `json:"has_name"` // an image may have no name, which is null in JSON
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
	}
}

// imageView is flat: it mixes user properties and attributes of the service.
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
	if i.Status == "queued" { // a snapshot has its content before it shows it
		maps.Copy(v, view{"size": nil, "virtual_size": nil, "checksum": nil, "os_hash_algo": nil, "os_hash_value": nil})
	}
	return v
}

func (c *call) findImage(w *cloudState) (*image, error) {
	i, found := w.Images.get(c.id(), c.now)
	if !found || !i.visible(c.who.project) {
		if c.request.Method == http.MethodDelete && c.request.PathValue("tag") == "" {
			return nil, refuse(http.StatusNotFound, "Failed to find image %s to delete", c.id())
		}
		return nil, refuse(http.StatusNotFound, "No image found with ID %s", c.id())
	}
	return i, nil
}

// withImage responds to a request for one image; only the owner may change it.
func (c *call) withImage(fn func(*cloudState, *image) (*answer, error)) (a *answer, err error) {
	run := c.update
	if c.request.Method == http.MethodGet {
		run = c.view
	}
	err = run(func(w *cloudState) error {
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
	return c.withImage(func(_ *cloudState, i *image) (*answer, error) { return ok(imageView(i)) })
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
	err := c.update(func(w *cloudState) error {
		if _, taken := w.Images.byID[wantedID]; taken {
			return refuse(http.StatusConflict, "Image ID %s already exists!", wantedID)
		}
		i.base = w.newBase(c.who.project, c.now)
		if wantedID != "" {
			i.ID = wantedID
		}
		c.applyFault(&i.base)
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

func deleteImage(c *call) (*answer, error) {
	return c.withImage(func(w *cloudState, i *image) (*answer, error) {
		if i.Protected {
			return nil, refuse(http.StatusForbidden, "Image %s is protected and cannot be deleted.", i.ID)
		}
		for _, v := range w.Volumes.rows {
			if v.ImageID == i.ID && !v.Gone {
				return nil, refuse(http.StatusConflict, "Image %s could not be deleted because it is in use: The image cannot be deleted because it is in use through the backend store outside of Glance.", i.ID)
			}
		}
		c.cloud.contents.remove(i.ID)
		retire(&w.timeline, &w.Images, i, c.now, c.lingers())
		return noContent()
	})
}

func tagImage(c *call) (*answer, error) {
	return c.withImage(func(_ *cloudState, i *image) (*answer, error) {
		if tag := c.request.PathValue("tag"); !slices.Contains(i.Tags, tag) {
			i.Tags = append(slices.Clone(i.Tags), tag)
			i.touch(c.now)
		}
		return noContent()
	})
}

// imageField returns an attribute as text, for filters and sorting.
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
