package azure

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Leftovers implements drivers.Sweeper: network interfaces, public addresses and disks with ownership tags, one list each.
func (c *Cloud) Leftovers(ctx context.Context) ([]resources.Leftover, error) {
	interfaces, err := c.listInterfaces(ctx)
	if err != nil {
		return nil, err
	}
	addresses, err := c.listAddresses(ctx)
	if err != nil {
		return nil, err
	}
	disks, err := c.listDisks(ctx)
	if err != nil {
		return nil, err
	}
	var found []resources.Leftover
	add := func(l resources.Leftover) {
		if l.Marks.Installation != "" {
			found = append(found, l)
		}
	}
	servers := map[string]string{}
	for _, n := range interfaces {
		servers[strings.ToLower(n.ID)] = n.server()
		add(leftoverInterface(n))
	}
	for _, ip := range addresses {
		l := leftoverAddress(ip)
		l.Server = servers[strings.ToLower(ip.owner())]
		add(l)
	}
	for _, d := range disks {
		l := leftoverOf(resources.LeftoverVolume, deref(d.Name), tagMap(d.Tags))
		l.Server = nameOf(deref(d.ManagedBy))
		l.InUse = l.Server != ""
		add(l)
	}
	return found, nil
}

func leftoverOf(kind, name string, tags map[string]string) resources.Leftover {
	return resources.Leftover{Type: kind, ID: name, Name: cmp.Or(tags[tagName], name), Marks: tagged{kind, name, tags}.owner()}
}

func leftoverInterface(n networkInterface) resources.Leftover {
	l := leftoverOf(resources.LeftoverPort, n.Name, n.Tags)
	l.Server = n.server()
	l.InUse = l.Server != ""
	return l
}

func leftoverAddress(ip publicIP) resources.Leftover {
	l := leftoverOf(resources.LeftoverFloatingIP, ip.Name, ip.Tags)
	l.InUse = ip.Properties.Configuration != nil
	return l
}

// owner returns the ID of the network interface that has the address.
func (ip publicIP) owner() string {
	if ip.Properties.Configuration == nil {
		return ""
	}
	id, _, _ := strings.Cut(ip.Properties.Configuration.ID, "/ipConfigurations/")
	return id
}

// leftover reads one leftover again; false means that it does not exist.
func (c *Cloud) leftover(ctx context.Context, kind, name string) (l resources.Leftover, found bool, err error) {
	switch kind {
	case resources.LeftoverPort:
		var n networkInterface
		err = c.rest.send(ctx, http.MethodGet, c.network(c.group, interfaceKind)+"/"+name, networkVersion, nil, &n)
		l = leftoverInterface(n)
	case resources.LeftoverFloatingIP:
		var ip publicIP
		err = c.rest.send(ctx, http.MethodGet, c.network(c.group, addressKind)+"/"+name, networkVersion, nil, &ip)
		l = leftoverAddress(ip)
	case resources.LeftoverVolume:
		answer, readErr := c.disks.Get(ctx, c.group, name, nil)
		l, err = leftoverOf(kind, deref(answer.Name), tagMap(answer.Tags)), readErr
		l.Server = nameOf(deref(answer.ManagedBy))
		l.InUse = l.Server != ""
	default:
		return l, false, fmt.Errorf("%w: delete leftover %s: %q is not a kind that this driver creates", drivers.ErrRejected, name, kind)
	}
	err = wrap("read "+kind+" "+name, err)
	return l, err == nil, cloudkit.UnlessMissing(err)
}

// DeleteLeftover implements drivers.Sweeper. It reads the object again before it deletes it: npctl must not delete an
// object that has lost its ownership tags since the listing, or that is in use now.
func (c *Cloud) DeleteLeftover(ctx context.Context, l resources.Leftover) error {
	now, found, err := c.leftover(ctx, l.Type, l.ID)
	if err != nil || !found {
		return err
	}
	if err := cloudkit.CheckLeftover(l, now); err != nil {
		return err
	}
	switch l.Type {
	case resources.LeftoverVolume:
		return c.deleteDisk(ctx, l.ID)
	case resources.LeftoverPort:
		err = c.rest.send(ctx, http.MethodDelete, c.network(c.group, interfaceKind)+"/"+l.ID, networkVersion, nil, nil)
	default:
		err = c.rest.send(ctx, http.MethodDelete, c.network(c.group, addressKind)+"/"+l.ID, networkVersion, nil, nil)
	}
	return cloudkit.UnlessMissing(wrap("delete "+l.Type+" "+l.ID, err))
}
