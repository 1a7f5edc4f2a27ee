package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// image holds the fields of a Glance image that npctl uses. Its properties are all strings other than fields that
// Glance defines.
type image struct {
	ID         string
	Name       string
	Status     string
	Format     string
	Owner      string
	Visibility string
	Created    time.Time
	Size       int64
	Checksum   string // MD5
	HashAlgo   string
	Hash       string
	Tags       []string
	Properties map[string]string
}

// UnmarshalJSON separates fields from properties.
func (i *image) UnmarshalJSON(text []byte) error {
	var fields struct {
		ID         string   `json:"id"`
		Name       string   `json:"name"`
		Status     string   `json:"status"`
		Format     string   `json:"disk_format"`
		Owner      string   `json:"owner"`
		Visibility string   `json:"visibility"`
		Created    string   `json:"created_at"`
		Size       int64    `json:"size"`
		Checksum   string   `json:"checksum"`
		HashAlgo   string   `json:"os_hash_algo"`
		Hash       string   `json:"os_hash_value"`
		Tags       []string `json:"tags"`
	}
	var everything map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &everything); err != nil {
		return err
	}
	*i = image{
		ID: fields.ID, Name: fields.Name, Status: fields.Status, Format: fields.Format, Owner: fields.Owner,
		Visibility: fields.Visibility, Size: fields.Size, Checksum: fields.Checksum, HashAlgo: fields.HashAlgo,
		Hash: fields.Hash, Tags: fields.Tags, Properties: map[string]string{},
	}
	i.Created, _ = time.Parse(time.RFC3339, fields.Created)
	for name, value := range everything {
		if text, ok := value.(string); ok && !isImageField(name) {
			i.Properties[name] = text
		}
	}
	return nil
}

// isImageField reports whether Glance defines the name, so that no property can have it.
func isImageField(name string) bool {
	return slices.Contains([]string{
		"id", "name", "status", "disk_format", "container_format", "owner", "visibility", "created_at", "updated_at", "size",
		"virtual_size", "checksum", "os_hash_algo", "os_hash_value", "os_hidden", "tags", "min_disk", "min_ram", "protected",
		"self", "file", "schema", "direct_url", "locations", "stores", "os_glance_importing_to_stores", "os_glance_failed_import",
	}, name)
}

const keySHA256 = markPrefix + "sha256"

func (i image) remote() resources.RemoteImage {
	r := resources.RemoteImage{
		ID: i.ID, Name: i.Name, Marks: i.marks(), Status: imageStatus(i.Status), Format: i.Format, Size: i.Size,
		SHA256: i.Properties[keySHA256], Created: i.Created, Properties: map[string]string{},
	}
	if r.Marks.Kind == resources.KindBuild {
		r.SHA256 = "" // that of the image that the server was created from
	}
	if i.HashAlgo == "sha256" {
		r.SHA256 = i.Hash
	}
	for name, value := range i.Properties {
		if !strings.HasPrefix(name, markPrefix) {
			r.Properties[name] = value
		}
	}
	return r
}

// imageStatus maps Glance's statuses (https://docs.openstack.org/glance/latest/user/statuses.html).
func imageStatus(status string) resources.Status {
	switch status {
	case "active":
		return resources.StatusReady
	case "killed", "deactivated":
		return resources.StatusFailed
	case "deleted", "pending_delete":
		return resources.StatusDeleting
	default: // queued, saving, uploading, importing
		return resources.StatusPending
	}
}

// imageStore implements drivers.ImageStore, and the image parts of drivers.Resolver and drivers.Snapshotter, with Glance.
type imageStore struct {
	*session
	format string // of uploads
}

// ImageFormat implements drivers.ImageStore.
func (st *imageStore) ImageFormat() string { return st.format }

// ListImages implements drivers.ImageStore. It filters by tag, so the number of calls grows with npctl's images and
// not with those of a public cloud. It lists snapshots separately, because they get their tag only after their
// creation. Of the snapshots without the tag only those of builds are npctl's; snapshots that another user takes of
// npctl's servers have inherited ownership tags.
func (st *imageStore) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	tagged, err := st.listImages(ctx, url.Values{"owner": {st.project}, "tag": {markTag}})
	if err != nil {
		return nil, err
	}
	snapshots, err := st.listImages(ctx, url.Values{"owner": {st.project}, "image_type": {"snapshot"}})
	if err != nil {
		return nil, err
	}
	var ours []resources.RemoteImage
	listed := map[string]bool{}
	for _, i := range append(tagged, snapshots...) {
		if r := i.remote(); r.Marks != (resources.OwnerTags{}) && !listed[i.ID] {
			ours = append(ours, r)
			listed[i.ID] = true
		}
	}
	return ours, nil
}

// marks returns the image's own ownership tags. A snapshot that another user takes of one of npctl's servers inherits
// the properties of the server's image, including ownership tags, but neither its tag nor the build ID.
func (i image) marks() resources.OwnerTags {
	m := drivers.OwnerOf(i.Properties, drivers.OfImage, i.ID)
	if m.Kind != resources.KindBuild && !slices.Contains(i.Tags, markTag) {
		return resources.OwnerTags{}
	}
	return m
}

func (st *imageStore) listImages(ctx context.Context, filter url.Values) ([]image, error) {
	return allIn(ctx, st.session, serviceImage, listing{path: "images", query: filter, key: "images", doing: "list images"},
		func(i image) string { return i.ID })
}

// image reads one image; false means that it does not exist.
func (st *imageStore) image(ctx context.Context, id string) (image, bool, error) {
	client, err := st.service(serviceImage)
	if err != nil {
		return image{}, false, err
	}
	var found image
	err = wrap("read image "+id, get(ctx, client, client.ServiceURL("images", url.PathEscape(id)), &found))
	if isStatus(err, http.StatusNotFound) {
		return image{}, false, nil
	}
	return found, err == nil, err
}

// DeleteImage implements drivers.ImageStore. The error for an image that servers or volumes still use is transient.
func (st *imageStore) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	now, found, err := st.image(ctx, id)
	if err != nil || !found || now.Status == "deleted" {
		return err
	}
	if err := drivers.CheckOwner("image", id, now.marks(), expected); err != nil {
		return err
	}
	return st.removeImage(ctx, id)
}

func (st *imageStore) removeImage(ctx context.Context, id string) error {
	client, err := st.service(serviceImage)
	if err != nil {
		return err
	}
	_, err = client.Delete(ctx, client.ServiceURL("images", url.PathEscape(id)), nil)
	err = wrap("delete image "+id, err)
	switch {
	case isStatus(err, http.StatusNotFound), isStatus(err, http.StatusGone):
		return nil
	case isStatus(err, http.StatusConflict):
		return fmt.Errorf("%w: the image is in use; delete the servers or volumes that use it first", err)
	case isStatus(err, http.StatusBadRequest): // Glance's response if another process deletes the image at the same time
		if now, found, readErr := st.image(ctx, id); readErr == nil && (!found || now.Status == "deleted") {
			return nil
		}
		return err
	default:
		return err
	}
}
