package external

import (
	"context"

	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud. The program compares the ownership tags.
func (c *cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	owner := ownerOf(expected)
	return c.call(ctx, request{Call: callDelete, ID: id, Expected: &owner}, func(response) error { return nil })
}
