package openstack

import (
	"context"
	"net/http"

	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud. Floating IPs go first, since Neutron keeps them when their server goes; boot
// volumes go with the server, but are marked before so that one that stays behind is known. After a lost answer there
// may be two servers with the same marks: what is attached to the other one stays.
func (c *Cloud) Delete(ctx context.Context, id string) error {
	b, known := c.attached.belongings(id)
	if !known || b.volume {
		s, found, err := c.server(ctx, id)
		if err != nil || !found {
			return err
		}
		b = c.belongingsOf(s.Metadata)
		c.markVolumes(ctx, b, s)
	}
	if b.floating {
		if err := c.deleteFloatingIPs(ctx, b.marks, id); err != nil {
			return err
		}
	}
	if b.ports {
		if err := c.deleteOwnPorts(ctx, b.marks, id); err != nil {
			return err
		}
	}
	_, err := c.compute.Delete(ctx, c.compute.ServiceURL("servers", id), nil)
	if err = wrap("delete server "+id, err); isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// server fetches one; false means there is none.
func (c *Cloud) server(ctx context.Context, id string) (server, bool, error) {
	var answer struct {
		Server server `json:"server"`
	}
	err := wrap("look at server "+id, get(ctx, c.compute, c.compute.ServiceURL("servers", id), &answer))
	if isStatus(err, http.StatusNotFound) {
		return server{}, false, nil
	}
	return answer.Server, err == nil, err
}

// markVolumes writes marks on the volumes that go with a server. Nova makes them without any. That it fails must not
// keep a server alive.
func (c *Cloud) markVolumes(ctx context.Context, b belongings, s server) {
	if !b.volume || b.marks == (resources.Marks{}) {
		return
	}
	client, err := c.service(serviceVolume)
	if err != nil {
		return
	}
	for _, v := range s.Volumes {
		body := map[string]any{"metadata": metadata(b.marks)}
		var answer struct{}
		_, err := client.Post(ctx, client.ServiceURL("volumes", v.ID, "metadata"), body, &answer, okCodes(http.StatusOK))
		if err != nil && !isStatus(err, http.StatusNotFound) {
			c.log.Warn("volume could not be marked; if it stays behind, npctl will not know it", "volume", v.ID, "server", s.ID, "error", wrap("mark volume", err))
		}
	}
}
