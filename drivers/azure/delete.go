package azure

import (
	"context"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud: it reads the ownership tags, and deletes the virtual machine. Azure deletes the OS disk,
// the network interface and its public addresses with it, as Create asked; Leftovers lists what remains after a failure.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	vm, found, err := c.vm(ctx, id)
	if err != nil || !found {
		return err
	}
	if err := drivers.CheckOwner("virtual machine", id, ownerOf(tagMap(vm.Tags), drivers.OfServer, vm.Name), expected); err != nil {
		return err
	}
	if vm.Properties != nil && deref(vm.Properties.ProvisioningState) == stateDeleting {
		return nil
	}
	_, err = c.vms.BeginDelete(ctx, c.group, id, nil)
	return cloudkit.UnlessMissing(wrap("delete virtual machine "+id, err))
}
