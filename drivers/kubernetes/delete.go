package kubernetes

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	return c.deleteOwned(ctx, c.spaces.at(id), expected)
}

// deleteOwned deletes an object if it belongs to the record. The deletion names the UID of the object that npctl has
// read, so that a new object of the same name stays.
func (c *base) deleteOwned(ctx context.Context, path string, expected resources.OwnerTags) error {
	var there struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	err := c.get(ctx, path, &there)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r := recordIn(there.Metadata)
	if r.Installation == "" || !r.marks().SameRecord(expected) {
		return fmt.Errorf("delete %s: %w", shortPath(path), drivers.ErrNotOurs)
	}
	if there.Metadata.DeletionTimestamp != nil {
		return nil
	}
	if err := c.delete(ctx, path, there.Metadata); err != nil && !isStatus(err, http.StatusNotFound) && !isStatus(err, http.StatusConflict) {
		return err
	}
	return nil
}
