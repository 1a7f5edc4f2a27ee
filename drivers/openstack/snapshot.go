package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

var (
	_ drivers.Snapshots       = (*Cloud)(nil)
	_ drivers.SnapshotChecker = (*Cloud)(nil)
)

// withImageID is the microversion since which the answer to createImage holds the image's id.
const withImageID microversion = 45

// CheckSnapshot implements drivers.SnapshotChecker. What Nova makes of a server that boots from a volume is a snapshot of
// the volume, and an image without content.
func (c *Cloud) CheckSnapshot(offer cty.Value) error {
	if boolAttr(offer, "boot_from_volume") {
		return errOnVolume
	}
	return nil
}

var errOnVolume = fmt.Errorf("%w: a server that boots from a volume (boot_from_volume) has no disk whose content could be fetched; "+
	"take a label that boots from the host's own disk", drivers.ErrRejected)

// Snapshot implements drivers.Snapshots with Nova's createImage. Nova copies the properties of the image that the server
// was made from, so every mark is written, the empty ones too. The tag cannot be part of that call; ListImages finds the
// image without it.
func (c *Cloud) Snapshot(ctx context.Context, instance, name string, marks resources.Marks) (string, error) {
	doing := "make an image of server " + instance
	s, found, err := c.server(ctx, instance)
	switch {
	case err != nil:
		return "", unsentError{fmt.Errorf("%s: %w", doing, err)}
	case !found:
		return "", unsentError{fmt.Errorf("%s: %w: there is no such server", doing, drivers.ErrRejected)}
	case s.Metadata[keyVolumeGB] != "":
		return "", unsentError{fmt.Errorf("%s: %w", doing, errOnVolume)}
	}
	values := snapshotMetadata(marks)
	if err := checkMetadata(values); err != nil {
		return "", unsentError{fmt.Errorf("%s: %w", doing, err)}
	}
	id, err := c.postSnapshot(ctx, doing, instance, map[string]any{"name": name, "metadata": values})
	if err != nil {
		return "", err
	}
	if err := c.tag(ctx, id); err != nil {
		c.log.Warn("snapshot could not be tagged; it is known by its properties alone", "image", id, "error", err)
	}
	return id, nil
}

func snapshotMetadata(marks resources.Marks) map[string]string {
	values := map[string]string{}
	for name := range markFields(&marks) {
		values[markPrefix+name] = ""
	}
	maps.Copy(values, metadata(marks))
	return values
}

func (c *Cloud) postSnapshot(ctx context.Context, doing, server string, request map[string]any) (string, error) {
	var answer struct {
		ID string `json:"image_id"`
	}
	opts := &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}}
	if c.microversion >= withImageID {
		opts.JSONResponse = &answer
	}
	resp, err := c.compute.Post(ctx, c.compute.ServiceURL("servers", server, "action"), map[string]any{"createImage": request}, opts.JSONResponse, opts) //nolint:bodyclose // gophercloud has read and closed it
	if err != nil {
		return "", wrap(doing, err)
	}
	if answer.ID != "" {
		return answer.ID, nil
	}
	at, err := url.Parse(resp.Header.Get("Location"))
	if id := path.Base(at.Path); err == nil && id != "." && id != "/" {
		return id, nil
	}
	return "", errors.New(doing + ": Nova accepted it and does not say which image it makes")
}

func (c *Cloud) tag(ctx context.Context, image string) error {
	client, err := c.service(serviceImage)
	if err != nil {
		return err
	}
	_, err = client.Put(ctx, client.ServiceURL("images", url.PathEscape(image), "tags", markTag), nil, nil, okCodes(http.StatusNoContent)) //nolint:bodyclose // gophercloud has read and closed it
	return wrap("tag image "+image, err)
}
