package ibmvpc

import (
	"context"
	"fmt"
	"net/url"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud: it reads the name, deletes the floating IP of the record, and then the instance. The VPC
// deletes the boot volume with it.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	var now instance
	path := "/instances/" + url.PathEscape(id)
	found, err := c.api.get(ctx, "read instance "+id, path, &now)
	if err != nil || !found {
		return err
	}
	if err := checkMarks(drivers.OfServer, "instance", id, now.Name, expected); err != nil {
		return err
	}
	if now.Status == "deleting" {
		return nil
	}
	if now.needsFloatingIP() {
		if err := c.deleteFloatingIPs(ctx, now, expected); err != nil {
			return err
		}
	}
	return c.api.remove(ctx, "delete instance "+id, path)
}

// deleteFloatingIPs deletes the floating IPs of the record; those of others stay.
func (c *Cloud) deleteFloatingIPs(ctx context.Context, of instance, expected resources.OwnerTags) error {
	bound, err := list[floatingIP](ctx, c.api, "list the floating IPs of instance "+of.ID, "/floating_ips", url.Values{"target.id": {of.Interface.ID}}, "floating_ips")
	if err != nil {
		return err
	}
	for _, f := range bound {
		if recordOf(f.Name).SameRecord(expected) {
			if err := c.api.remove(ctx, fmt.Sprintf("delete floating IP %s of instance %s", f.Address, of.ID), "/floating_ips/"+url.PathEscape(f.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}
