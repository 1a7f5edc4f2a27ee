package gce

import (
	"context"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud. Google deletes the boot disk with the instance.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	at, ok := placeOf(id)
	if !ok { // not the ID of any instance
		return context.Cause(ctx)
	}
	i, err := c.api.instance(ctx, at)
	if err != nil {
		return cloudkit.UnlessMissing(err)
	}
	if err := drivers.CheckOwner("instance", at.String(), ownerOf(i), expected); err != nil {
		return err
	}
	return cloudkit.UnlessMissing(c.api.deleteInstance(ctx, at))
}
