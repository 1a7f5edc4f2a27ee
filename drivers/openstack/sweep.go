package openstack

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

type volume struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Metadata    map[string]string `json:"metadata"`
	Attachments []struct {
		Server string `json:"server_id"`
	} `json:"attachments"`
}

// Leftovers implements drivers.Sweeper: one list per service.
func (c *Cloud) Leftovers(ctx context.Context) ([]resources.Leftover, error) {
	var ports, ips, volumes []resources.Leftover
	var err error
	if c.hasService(serviceNetwork) {
		if ports, err = cloudkit.LeftoversOf(leftoverOfPort)(c.network.listPorts(ctx, url.Values{})); err == nil {
			ips, err = cloudkit.LeftoversOf(leftoverOfFloatingIP)(c.network.listFloatingIPs(ctx, url.Values{}))
		}
	}
	if c.hasService(serviceVolume) && err == nil {
		volumes, err = cloudkit.LeftoversOf(leftoverOfVolume)(c.listVolumes(ctx))
	}
	if err != nil {
		return nil, err
	}
	return slices.Concat(ports, ips, volumes), nil
}

func leftoverOfPort(p port) resources.Leftover {
	l := resources.Leftover{Type: resources.LeftoverPort, ID: p.ID, Name: p.Name, Marks: drivers.OnlyOf(drivers.OfServer, marksIn(p.Description)), InUse: p.Device != ""}
	if p.Owner == "" || strings.HasPrefix(p.Owner, "compute:") {
		l.Server = p.Device
	}
	return l
}

func leftoverOfFloatingIP(f floatingIP) resources.Leftover {
	return resources.Leftover{Type: resources.LeftoverFloatingIP, ID: f.ID, Name: f.Address, Marks: drivers.OnlyOf(drivers.OfServer, marksIn(f.Description)), InUse: f.Port != ""}
}

func leftoverOfVolume(v volume) resources.Leftover {
	return resources.Leftover{Type: resources.LeftoverVolume, ID: v.ID, Name: cmp.Or(v.Name, v.ID), Marks: drivers.OwnerOf(v.Metadata, drivers.OfServer, v.ID), InUse: len(v.Attachments) > 0}
}

func (c *Cloud) listVolumes(ctx context.Context) ([]volume, error) {
	return allIn(ctx, c.session, serviceVolume, listing{path: "volumes/detail", key: "volumes", doing: "list volumes"},
		func(v volume) string { return v.ID })
}

// DeleteLeftover implements drivers.Sweeper. It reads the object again before it deletes it: npctl must not delete an
// object that has lost its ownership tags since the listing, or that is in use now.
func (c *Cloud) DeleteLeftover(ctx context.Context, l resources.Leftover) error {
	now, found, err := c.reread(ctx, l)
	if err != nil || !found {
		return err
	}
	if err := cloudkit.CheckLeftover(l, now); err != nil {
		return err
	}
	switch l.Type {
	case resources.LeftoverPort:
		return c.deleteIn(ctx, serviceNetwork, "ports", l.ID, "delete port")
	case resources.LeftoverFloatingIP:
		return c.deleteIn(ctx, serviceNetwork, "floatingips", l.ID, "delete floating IP")
	default:
		return c.deleteIn(ctx, serviceVolume, "volumes", l.ID, "delete volume")
	}
}

func (c *Cloud) reread(ctx context.Context, l resources.Leftover) (resources.Leftover, bool, error) {
	var answer struct {
		Port       port       `json:"port"`
		FloatingIP floatingIP `json:"floatingip"`
		Volume     volume     `json:"volume"`
	}
	service, path := serviceNetwork, ""
	switch l.Type {
	case resources.LeftoverPort:
		path = "ports"
	case resources.LeftoverFloatingIP:
		path = "floatingips"
	case resources.LeftoverVolume:
		service, path = serviceVolume, "volumes"
	default:
		return l, false, fmt.Errorf("%w: delete leftover %s: %q is not a kind that this driver creates", drivers.ErrRejected, l.ID, l.Type)
	}
	client, err := c.service(service)
	if err != nil {
		return l, false, err
	}
	err = wrap("read "+l.Type+" "+l.ID, get(ctx, client, client.ServiceURL(path, l.ID), &answer))
	if isStatus(err, 404) {
		return l, false, nil
	}
	switch l.Type {
	case resources.LeftoverPort:
		return leftoverOfPort(answer.Port), err == nil, err
	case resources.LeftoverFloatingIP:
		return leftoverOfFloatingIP(answer.FloatingIP), err == nil, err
	default:
		return leftoverOfVolume(answer.Volume), err == nil, err
	}
}
