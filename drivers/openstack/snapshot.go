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
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

var (
	_ drivers.Snapshotter     = (*Cloud)(nil)
	_ drivers.SnapshotChecker = (*Cloud)(nil)
)

// withImageID is the microversion from which the response to createImage contains the image's ID.
const withImageID microversion = 45

// CheckSnapshot implements drivers.SnapshotChecker. For a server that boots from a volume, Nova creates a snapshot of
// the volume, and an image without content.
func (c *Cloud) CheckSnapshot(offer cty.Value) error {
	var settings labelSettings
	if err := cloudkit.Decode(offer, &settings); err != nil {
		return err
	}
	if settings.BootFromVolume {
		return errOnVolume
	}
	return nil
}

var errOnVolume = fmt.Errorf("%w: a server that boots from a volume (boot_from_volume) has no disk that npctl can download; "+
	"use a label whose servers boot from a local disk", drivers.ErrRejected)

// Snapshot implements drivers.Snapshotter with Nova's createImage. Nova copies the properties of the server's image,
// so Snapshot writes all ownership tags, including empty ones. The call cannot set the tag; ListImages finds the
// image without it.
func (c *Cloud) Snapshot(ctx context.Context, instance, name string, marks resources.OwnerTags) (string, error) {
	doing := "create image of server " + instance
	s, found, err := c.server(ctx, instance)
	switch {
	case err != nil:
		return "", drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	case !found:
		return "", drivers.Unsent(fmt.Errorf("%s: %w: the server does not exist", doing, drivers.ErrRejected))
	case s.Metadata[keyVolumeGB] != "":
		return "", drivers.Unsent(fmt.Errorf("%s: %w", doing, errOnVolume))
	}
	values := snapshotMetadata(marks)
	if err := checkMetadata(values); err != nil {
		return "", drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	id, err := c.postSnapshot(ctx, doing, instance, map[string]any{"name": name, "metadata": values})
	if err != nil {
		return "", err
	}
	if err := c.tag(ctx, id); err != nil {
		c.log.Warn("snapshot not tagged; npctl identifies it by its properties", "image", id, "error", err)
	}
	return id, nil
}

func snapshotMetadata(marks resources.OwnerTags) map[string]string {
	values := map[string]string{}
	for _, key := range append(drivers.TagKeys(), drivers.TagObject) {
		values[key] = ""
	}
	maps.Copy(values, drivers.EncodeTags(marks))
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
	return "", errors.New(doing + ": Nova accepted the call and returned no image ID")
}

func (st *imageStore) tag(ctx context.Context, image string) error {
	client, err := st.service(serviceImage)
	if err != nil {
		return err
	}
	_, err = client.Put(ctx, client.ServiceURL("images", url.PathEscape(image), "tags", markTag), nil, nil, okCodes(http.StatusNoContent)) //nolint:bodyclose // gophercloud has read and closed it
	return wrap("tag image "+image, err)
}
