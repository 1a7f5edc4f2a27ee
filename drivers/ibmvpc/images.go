package ibmvpc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// imageStore implements drivers.ImageStore, and the image part of drivers.Resolver.
type imageStore struct {
	api      *api
	bucket   *bucket // nil without object_storage
	settings providerSettings
}

func newImageStore(a *api, settings providerSettings) *imageStore {
	st := &imageStore{api: a, settings: settings}
	if o := settings.ObjectStorage; o != nil {
		st.bucket = &bucket{a, *o}
	}
	return st
}

// ImageFormat implements drivers.ImageStore.
func (st *imageStore) ImageFormat() string { return st.settings.ImageFormat }

// imageMeta is what npctl knows about an uploaded image. Images have no attributes for it: it is in the key of an empty object
// in the bucket, NAME.m.JSON, so that one list returns that of all images.
type imageMeta struct {
	Name       string            `json:"n"`
	Marks      map[string]string `json:"m"`
	Format     string            `json:"f"`
	Size       int64             `json:"s"`
	SHA256     string            `json:"h,omitempty"`
	Properties map[string]string `json:"p,omitempty"`
	Tags       []string          `json:"t,omitempty"`
}

const (
	metaInfix = ".m."
	maxKey    = 1024
)

// metaKey returns the key of the object with the properties of an image.
func metaKey(name string, spec drivers.ImageSpec) (string, error) {
	meta := imageMeta{Name: spec.Name, Marks: map[string]string{}, Format: spec.Format, Size: spec.Size, SHA256: spec.SHA256, Properties: spec.Properties, Tags: spec.Tags}
	marks := spec.Marks
	for field, value := range markFields(&marks) {
		if *value != "" {
			meta.Marks[field] = *value
		}
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return "", drivers.Unsent(err)
	}
	key := name + metaInfix + base64.RawURLEncoding.EncodeToString(text)
	if len(key) > maxKey {
		return "", drivers.Rejectf("properties and tags of the image are too long by about %d bytes; remove some", (len(key)-maxKey)*3/4+1)
	}
	return key, nil
}

// metas returns the properties of images by the names of the images.
func (st *imageStore) metas(ctx context.Context) (map[string]imageMeta, error) {
	if st.bucket == nil {
		return nil, nil
	}
	objects, err := st.bucket.list(ctx, namePrefix+kindLetters[resources.KindUpload]+"-")
	all := map[string]imageMeta{}
	for _, o := range objects {
		name, encoded, ok := strings.Cut(o.Key, metaInfix)
		text, wrong := base64.RawURLEncoding.DecodeString(encoded)
		var meta imageMeta
		if ok && wrong == nil && json.Unmarshal(text, &meta) == nil {
			all[name] = meta
		}
	}
	return all, err
}

// ListImages implements drivers.ImageStore with the list of the account's own images and that of the objects.
func (st *imageStore) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	found, err := st.images(ctx, url.Values{"visibility": {"private"}})
	if err != nil {
		return nil, err
	}
	var all []resources.RemoteImage
	for _, i := range found {
		if r := i.remote(); r.Marks.Installation != "" && r.Status != resources.StatusDeleting {
			all = append(all, r)
		}
	}
	return all, nil
}

// knownImage is an image with the properties that npctl knows.
type knownImage struct {
	cloudImage

	meta imageMeta
}

// images lists images with their properties.
func (st *imageStore) images(ctx context.Context, query url.Values) ([]knownImage, error) {
	found, err := list[cloudImage](ctx, st.api, "list images", "/images", query, "images")
	if err != nil {
		return nil, err
	}
	metas, err := st.metas(ctx)
	all := make([]knownImage, 0, len(found))
	for _, i := range found {
		one := knownImage{cloudImage: i}
		if i.Visibility == "private" {
			one.meta = metas[i.Name]
		}
		all = append(all, one)
	}
	return all, err
}

func (i knownImage) remote() resources.RemoteImage {
	r := resources.RemoteImage{
		ID: i.ID, Name: i.Name, Marks: drivers.OnlyOf(drivers.OfImage, recordOf(i.Name)), Status: imageStatus(i.Status), Format: i.meta.Format, Size: i.meta.Size,
		SHA256: i.meta.SHA256, Properties: i.meta.Properties, Created: i.CreatedAt,
	}
	if i.Visibility != "private" || r.Marks.Installation == "" {
		r.Marks = resources.OwnerTags{}
	} else if i.meta.Name != "" {
		r.Name = i.meta.Name
		for name, field := range markFields(&r.Marks) {
			*field = i.meta.Marks[name]
		}
	}
	return r
}

func imageStatus(status string) resources.Status {
	switch status {
	case "available", "deprecated":
		return resources.StatusReady
	case "pending":
		return resources.StatusPending
	case "deleting":
		return resources.StatusDeleting
	default: // failed, obsolete, unusable
		return resources.StatusFailed
	}
}

// DeleteImage implements drivers.ImageStore. It deletes the objects after the image. After a failure Leftovers lists them.
func (st *imageStore) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	var now cloudImage
	path := "/images/" + url.PathEscape(id)
	found, err := st.api.get(ctx, "read image "+id, path, &now)
	if err != nil || !found {
		return err
	}
	if err := checkMarks(drivers.OfImage, "image", id, now.Name, expected); err != nil {
		return err
	}
	if now.Status != "deleting" {
		if err := st.api.remove(ctx, "delete image "+id, path); err != nil {
			return err
		}
	}
	return st.deleteObjects(ctx, now.Name)
}

// deleteObjects deletes the objects of an image.
func (st *imageStore) deleteObjects(ctx context.Context, name string) error {
	if st.bucket == nil {
		return nil
	}
	objects, err := st.bucket.everything(ctx, name+".")
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := st.bucket.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
