package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud. It reads the server first, because a listing may be stale. It deletes floating IPs
// before the server, since Neutron keeps them when their server is deleted. Nova deletes the boot volume with the
// server; Delete tags it first, so that npctl recognizes a volume that remains. After a lost response two servers may
// have the same ownership tags: objects attached to the other one stay.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	s, found, err := c.server(ctx, id)
	if err != nil || !found {
		return err
	}
	b := c.belongingsOf(s.Metadata)
	if err := drivers.CheckOwner("server", s.ID, b.marks, expected); err != nil {
		if s.Status == "UNKNOWN" { // its cell is down, and Nova shows no metadata
			return fmt.Errorf("delete server %s: %w: its cell does not answer, so its metadata cannot be read", s.ID, drivers.ErrUnavailable)
		}
		return err
	}
	if b.volume && b.marks != (resources.OwnerTags{}) {
		c.markBootVolume(ctx, b, s)
	}
	if b.floating {
		if err := c.network.deleteFloatingIPs(ctx, b.marks, id); err != nil {
			return err
		}
	}
	if b.ports {
		if err := c.network.deleteOwnPorts(ctx, b.marks, id); err != nil {
			return err
		}
	}
	_, err = c.compute.Delete(ctx, c.compute.ServiceURL("servers", id), nil)
	return cloudkit.UnlessMissing(wrap("delete server "+id, err))
}

// server reads one server; false means that it does not exist.
func (c *Cloud) server(ctx context.Context, id string) (server, bool, error) {
	var answer struct {
		Server server `json:"server"`
	}
	err := wrap("read server "+id, get(ctx, c.compute, c.compute.ServiceURL("servers", id), &answer))
	if isStatus(err, http.StatusNotFound) {
		return server{}, false, nil
	}
	return answer.Server, err == nil, err
}

// markBootVolume tags the volume that Nova created with the server, which Nova creates without tags. A failure must
// not prevent the server's deletion.
func (c *Cloud) markBootVolume(ctx context.Context, b attachedResources, s server) {
	client, err := c.service(serviceVolume)
	if err != nil {
		return
	}
	id, err := c.bootVolumeOf(ctx, s)
	if err != nil || id == "" {
		c.log.Warn("boot volume not found; npctl cannot delete it if Nova does not", "server", s.ID, "error", err)
		return
	}
	values := drivers.EncodeTags(b.marks)
	values[drivers.TagObject] = id
	body := map[string]any{"metadata": values}
	var answer struct{}
	_, err = client.Post(ctx, client.ServiceURL("volumes", id, "metadata"), body, &answer, okCodes(http.StatusOK)) //nolint:bodyclose // gophercloud has read and closed it
	if err != nil && !isStatus(err, http.StatusNotFound) {
		c.log.Warn("volume not tagged; npctl cannot delete it if Nova does not", "volume", id, "server", s.ID, "error", wrap("mark volume", err))
	}
}

// bootVolumeOf returns the boot volume of the server, which Nova deletes with the server. Other volumes (from 2.3 on
// Nova shows which ones it deletes) were attached later; their devices distinguish them.
func (c *Cloud) bootVolumeOf(ctx context.Context, s server) (string, error) {
	candidates := slices.Clone(s.Volumes)
	candidates = slices.DeleteFunc(candidates, func(v attachedVolume) bool { return v.DeleteOnTermination != nil && !*v.DeleteOnTermination })
	if len(candidates) == 0 {
		return "", nil
	}
	if len(candidates) == 1 && candidates[0].DeleteOnTermination != nil {
		return candidates[0].ID, nil
	}
	var answer struct {
		Attachments []struct {
			Volume string `json:"volumeId"`
			Device string `json:"device"`
		} `json:"volumeAttachments"`
	}
	if err := get(ctx, c.compute, c.compute.ServiceURL("servers", s.ID, "os-volume_attachments"), &answer); err != nil {
		return "", wrap("list volumes of server "+s.ID, err)
	}
	for _, a := range answer.Attachments {
		isCandidate := slices.ContainsFunc(candidates, func(v attachedVolume) bool { return v.ID == a.Volume })
		if isCandidate && strings.HasSuffix(a.Device, "da") { // /dev/vda, /dev/sda, /dev/xvda
			return a.Volume, nil
		}
	}
	return "", nil
}
