package openstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// cleanupLimit is the maximum duration of the cleanup after a failed upload.
const cleanupLimit = 30 * time.Second

// UploadImage implements drivers.ImageStore: it creates a record in Glance, streams the content and verifies the
// result.
func (st *imageStore) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	doing := "upload image " + spec.Name
	if spec.MaybeCreated {
		if err := st.deleteMarkedImages(ctx, spec.Marks); err != nil {
			return resources.RemoteImage{}, fmt.Errorf("%s: delete the image of an earlier attempt: %w", doing, err)
		}
	}
	created, err := st.createImage(ctx, doing, spec)
	if err != nil {
		return resources.RemoteImage{}, err
	}
	// Until here the image has no content, so that it has no copies.
	err = st.patchImage(ctx, "tag image ", created.ID, []operation{{"add", "/" + drivers.TagObject, created.ID}})
	var uploaded image
	if err == nil {
		uploaded, err = st.fill(ctx, doing, created.ID, spec, content)
	}
	if err == nil {
		return uploaded.remote(), nil
	}
	return resources.RemoteImage{}, cloudkit.CleanUp(ctx, cleanupLimit, err, "image "+created.ID+" was not deleted", func(ctx context.Context) error { return st.removeImage(ctx, created.ID) })
}

// deleteMarkedImages deletes the images with these ownership tags.
func (st *imageStore) deleteMarkedImages(ctx context.Context, marks resources.OwnerTags) error {
	images, err := st.ListImages(ctx)
	if err != nil {
		return err
	}
	for _, i := range images {
		if !i.Marks.SameRecord(marks) {
			continue
		}
		if err := st.DeleteImage(ctx, i.ID, marks); err != nil {
			return err
		}
	}
	return nil
}

func (st *imageStore) createImage(ctx context.Context, doing string, spec drivers.ImageSpec) (image, error) {
	client, err := st.service(serviceImage)
	if err != nil {
		return image{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	body, err := imageRequest(spec)
	if err != nil {
		return image{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	var created image
	_, err = client.Post(ctx, client.ServiceURL("images"), body, &created, nil)
	return created, wrap(doing, err)
}

// imageRequest returns the properties of the record: the user's, overridden by the ownership tags.
func imageRequest(spec drivers.ImageSpec) (map[string]any, error) {
	body := map[string]any{}
	for name, value := range spec.Properties {
		if isImageField(name) || strings.HasPrefix(name, markPrefix) {
			return nil, fmt.Errorf("%w: %q cannot be an image property: Glance or npctl uses the name itself", drivers.ErrRejected, name)
		}
		body[name] = value
	}
	for name, value := range drivers.EncodeTags(spec.Marks) {
		body[name] = value
	}
	if spec.SHA256 != "" {
		body[keySHA256] = spec.SHA256
	}
	maps.Copy(body, map[string]any{
		"name": spec.Name, "disk_format": spec.Format, "container_format": "bare", "protected": false,
		"tags": slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(spec.Tags), markTag)))),
	})
	var settings imageSettings
	if err := cloudkit.Decode(spec.Config, &settings); err != nil {
		return nil, err
	}
	if settings.Visibility != "" {
		body["visibility"] = settings.Visibility
	}
	for name, n := range map[string]int64{"min_disk": settings.MinDisk, "min_ram": settings.MinRAM} {
		if n > 0 {
			body[name] = n
		}
	}
	return body, nil
}

// fill sends the content and verifies that Glance stored it.
func (st *imageStore) fill(ctx context.Context, doing, id string, spec drivers.ImageSpec, content io.ReadSeeker) (image, error) {
	sent, err := st.putContent(ctx, doing, id, spec, content)
	if err != nil {
		return image{}, err
	}
	if err := sent.check(spec); err != nil {
		return image{}, fmt.Errorf("%s: %w", doing, err)
	}
	active, err := st.waitActive(ctx, id)
	if err == nil {
		err = sent.verify(ctx, active, content)
	}
	if err != nil {
		return image{}, fmt.Errorf("%s: %w", doing, err)
	}
	return active, nil
}

// waitActive waits until Glance has stored the image, usually right after the last byte.
func (st *imageStore) waitActive(ctx context.Context, id string) (now image, err error) {
	err = cloudkit.Poll(ctx, "the image to become active", func() (found bool, err error) {
		now, found, err = st.image(ctx, id)
		switch {
		case cloudkit.IsFinal(ctx, err):
			return false, err
		case err != nil: // transient error; the content is stored, so polling is cheaper than another upload
			return false, nil //nolint:nilerr // see IsFinal
		case !found:
			return false, errors.New("the image was deleted during the upload")
		case now.Status != "active" && imageStatus(now.Status) != resources.StatusPending:
			return false, fmt.Errorf("Glance reports the image as %s%s", now.Status, importFailure(now)) //nolint:revive,staticcheck // a name
		default:
			return now.Status == "active", nil
		}
	})
	return now, err
}

func importFailure(i image) string {
	if text := i.Properties["os_glance_failed_import"]; text != "" {
		return ": " + cloudkit.Clean(text)
	}
	return ""
}

// putContent streams the content. It does not use gophercloud's request, which has no content length and would send
// chunks; Glance receives those a quarter more slowly.
func (st *imageStore) putContent(ctx context.Context, doing, id string, spec drivers.ImageSpec, content io.ReadSeeker) (sentBytes, error) {
	client, err := st.service(serviceImage)
	if err != nil {
		return sentBytes{}, err
	}
	address := client.ServiceURL("images", id, "file")
	for attempt := 1; ; attempt++ {
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return sentBytes{}, fmt.Errorf("%s: rewind: %w", doing, err)
		}
		token := st.provider.Token()
		answer, err := st.put(ctx, address, token, spec, content)
		switch {
		case err != nil:
			return sentBytes{}, fmt.Errorf("%s: %w", doing, err)
		case answer.status == http.StatusNoContent || answer.status == http.StatusOK:
			return answer.sent, nil
		case answer.status == http.StatusUnauthorized && attempt == 1:
			if err := st.provider.Reauthenticate(ctx, token); err != nil {
				return sentBytes{}, wrap(doing+": renew token", err)
			}
		default:
			return sentBytes{}, newAPIError(doing, answer.status, answer.body, answer.header)
		}
	}
}

type putAnswer struct {
	sent   sentBytes
	status int
	header http.Header
	body   []byte
}

func (st *imageStore) put(ctx context.Context, address, token string, spec drivers.ImageSpec, content io.Reader) (putAnswer, error) {
	ctx, watch := watchStall(ctx)
	defer watch.stop()
	body := newUploadReader(spec, content, watch)
	defer body.end()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, address, body)
	if err != nil {
		return putAnswer{}, err
	}
	if spec.Size > 0 {
		request.ContentLength = spec.Size
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	request.Header.Set("X-Auth-Token", token)
	request.Header.Set("User-Agent", st.provider.UserAgent.Join())
	resp, err := st.provider.HTTPClient.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause // reports the stall, which the transport does not know
		}
		return putAnswer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return putAnswer{body.end(), resp.StatusCode, resp.Header, text}, err
}
