package ibmvpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/resources"
)

// UploadImage implements drivers.ImageStore: it writes the file to the bucket, imports it as an image, and deletes the file.
func (st *imageStore) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	doing := "upload image " + spec.Name
	name, err := objectName(spec.Marks)
	if err == nil && st.bucket == nil {
		err = drivers.Rejectf("the provider has no bucket; add the block object_storage")
	}
	var settings imageSettings
	if err == nil {
		err = cloudkit.Decode(spec.Config, &settings)
	}
	if err != nil {
		return resources.RemoteImage{}, fmt.Errorf("%s: %w", doing, err)
	}
	if spec.MaybeCreated {
		if err := st.deleteEarlier(ctx, name); err != nil {
			return resources.RemoteImage{}, fmt.Errorf("%s: delete the image of an earlier attempt: %w", doing, err)
		}
	}
	made, err := st.fill(ctx, spec, settings, name, content)
	if err == nil {
		return made, nil
	}
	err = cloudkit.CleanUp(ctx, cleanupLimit, err, "the objects of the attempt were not deleted", func(ctx context.Context) error { return st.deleteEarlier(ctx, name) })
	return resources.RemoteImage{}, fmt.Errorf("%s: %w", doing, err)
}

// deleteEarlier deletes the image with a name and its objects, and waits until the name is free.
func (st *imageStore) deleteEarlier(ctx context.Context, name string) error {
	for pause := cloudkit.FirstPause; ; pause = min(pause*2, cloudkit.MaxPause) {
		found, err := st.find(ctx, name)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return st.deleteObjects(ctx, name)
		}
		if found[0].Status != "deleting" {
			if err := st.api.remove(ctx, "delete image "+found[0].ID, "/images/"+url.PathEscape(found[0].ID)); err != nil && !errors.Is(err, drivers.ErrUnavailable) {
				return err
			}
		}
		if err := waits.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("wait for the deletion of image %s: %w", found[0].ID, err)
		}
	}
}

// find returns the image with a name, if the account has one.
func (st *imageStore) find(ctx context.Context, name string) ([]cloudImage, error) {
	return list[cloudImage](ctx, st.api, "find image "+name, "/images", url.Values{"name": {name}, "visibility": {"private"}}, "images")
}

// fill writes the objects and imports the image. The key of the first object has the properties of the image.
func (st *imageStore) fill(ctx context.Context, spec drivers.ImageSpec, settings imageSettings, name string, content io.Reader) (resources.RemoteImage, error) {
	meta, err := metaKey(name, spec)
	if err != nil {
		return resources.RemoteImage{}, err
	}
	if err := st.bucket.putEmpty(ctx, meta); err != nil {
		return resources.RemoteImage{}, err
	}
	key := name + "." + cmp.Or(spec.Format, st.settings.ImageFormat)
	if err := st.bucket.upload(ctx, key, spec, content); err != nil {
		return resources.RemoteImage{}, err
	}
	region := cmp.Or(st.bucket.settings.Region, st.settings.Region)
	request := newImage{Name: name, File: imageFile{fmt.Sprintf("cos://%s/%s/%s", region, st.bucket.settings.Bucket, key)},
		OperatingSystem: byName{settings.OperatingSystem}, ResourceGroup: st.settings.resourceGroup()}
	var made cloudImage
	if err := st.api.call(ctx, "import the image from "+request.File.Href, http.MethodPost, "/images", nil, request, &made); err != nil {
		return resources.RemoteImage{}, st.explainSystem(ctx, settings.OperatingSystem, err)
	}
	now, err := st.wait(ctx, made.ID, spec)
	if err != nil {
		return resources.RemoteImage{}, err
	}
	if err := st.bucket.remove(ctx, object{Key: key}); err != nil {
		return resources.RemoteImage{}, err
	}
	image := knownImage{cloudImage: now}
	r := image.remote()
	r.Name, r.Marks, r.Format, r.Size, r.SHA256, r.Properties = spec.Name, spec.Marks, spec.Format, spec.Size, spec.SHA256, spec.Properties
	return r, nil
}

// explainSystem adds similar operating systems to the rejection of an import, if the configured one does not exist.
func (st *imageStore) explainSystem(ctx context.Context, name string, rejection error) error {
	if !errors.Is(rejection, drivers.ErrRejected) {
		return rejection
	}
	all, err := list[reference](ctx, st.api, "list operating systems", "/operating_systems", nil, "operating_systems")
	if err != nil || slices.ContainsFunc(all, func(r reference) bool { return r.is(name) }) {
		return rejection
	}
	return fmt.Errorf("%w: %w", &drivers.UnknownName{Attribute: "operating_system", Value: name, Detail: "no such operating system", Near: drivers.Suggestions(name, drivers.NamesOf(all, reference.name))}, rejection)
}

// wait waits until instances can boot from an image, and compares the checksum of the file that the service has read.
func (st *imageStore) wait(ctx context.Context, id string, spec drivers.ImageSpec) (now cloudImage, err error) {
	err = cloudkit.Poll(ctx, "image "+id, func() (bool, error) {
		now = cloudImage{}
		found, err := st.api.get(ctx, "read image "+id, "/images/"+url.PathEscape(id), &now)
		switch {
		case cloudkit.IsFinal(ctx, err):
			return false, err
		case err != nil: // transient; the import continues
			return false, nil //nolint:nilerr // see IsFinal
		case !found:
			return false, fmt.Errorf("image %s was deleted during the import", id)
		case now.Status == "available":
			if sum := now.File.Checksums.SHA256; sum != "" && spec.SHA256 != "" && !strings.EqualFold(sum, spec.SHA256) {
				return false, fmt.Errorf("image %s has the checksum %s, expected %s", id, sum, spec.SHA256)
			}
			return true, nil
		case imageStatus(now.Status) != resources.StatusPending:
			reason := now.Status
			if len(now.Reasons) > 0 {
				reason += ": " + cloudkit.Clean(now.Reasons[0].Message)
			}
			return false, fmt.Errorf("image %s is %s", id, reason)
		default:
			return false, nil
		}
	})
	return now, err
}
