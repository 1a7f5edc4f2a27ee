package ibmvpc

import (
	"cmp"
	"context"
	"net/http"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Advance implements drivers.Cloud: it creates the floating IP of an instance that runs without. The floating IP has the name
// of the instance, so a repetition creates no second one.
func (c *Cloud) Advance(ctx context.Context, spec drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	target, ok := c.waiting.Get(seen.ID)
	if !ok {
		return seen, nil
	}
	name, err := objectName(spec.Marks)
	if err != nil {
		return seen, err
	}
	var made floatingIP
	request := newFloatingIP{Name: name, Target: byID{target}, ResourceGroup: c.settings.resourceGroup()}
	err = c.api.call(ctx, "create the floating IP of instance "+seen.ID, http.MethodPost, "/floating_ips", nil, request, &made)
	if isUsedName(err) { // the next List shows it
		return seen, nil
	}
	if err != nil {
		return seen, err
	}
	c.waiting.Delete(seen.ID)
	seen.Addresses.PublicIPv4 = made.Address
	seen.Addresses.Interface = cmp.Or(seen.Addresses.Interface, made.Address)
	seen.Status = resources.StatusReady
	return seen, nil
}
