package gce

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

const cloudName = "gce"

// List implements drivers.Cloud. One list contains the instances of all zones.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	found, err := c.api.instances(ctx, "")
	if err != nil {
		return nil, err
	}
	list, err := c.convert(ctx, found)
	if err != nil {
		return nil, err
	}
	c.recent.Set(list)
	return list, nil
}

// convert converts the instances in the region. It reads machine types that it does not know.
func (c *Cloud) convert(ctx context.Context, found []*compute.Instance) ([]resources.Instance, error) {
	list := make([]resources.Instance, 0, len(found))
	for _, i := range found {
		zone := base(i.Zone)
		if !slices.Contains(c.zones, zone) {
			continue
		}
		size, err := c.names.size(ctx, zone, base(i.MachineType))
		if err != nil {
			return nil, err
		}
		one := instanceOf(i, size)
		one.Region, one.Cloud = c.region, cloudName
		list = append(list, one)
	}
	return list, nil
}

func ownerOf(i *compute.Instance) resources.OwnerTags {
	return marksOf(i.Labels, place{base(i.Zone), i.Name})
}

func instanceOf(i *compute.Instance, size machineType) resources.Instance {
	one := resources.Instance{
		ID: place{base(i.Zone), i.Name}.String(), Name: i.Name, Marks: ownerOf(i), Status: statusOf(i.Status), Zone: base(i.Zone),
		Flavor: base(i.MachineType), Addresses: addressesOf(i), Resources: amountsOf(size, i),
	}
	if one.Marks.Installation != "" {
		one.Name = strings.TrimSuffix(i.Name, nameSuffix(one.Marks.Installation))
	}
	if created, err := time.Parse(time.RFC3339, i.CreationTimestamp); err == nil {
		one.Created = created.UTC()
	}
	if one.Status == resources.StatusFailed {
		one.Fault = "the instance is " + i.Status
		if i.StatusMessage != "" {
			one.Fault += ": " + cloudkit.Clean(i.StatusMessage)
		}
	}
	return one
}

// statusOf maps Google's statuses. npctl never stops an instance, so a stopping instance is being deleted or has shut down.
func statusOf(status string) resources.Status {
	switch status {
	case "RUNNING":
		return resources.StatusReady
	case "STOPPING", "PENDING_STOP", "DEPROVISIONING":
		return resources.StatusDeleting
	case "STOPPED", "TERMINATED", "SUSPENDING", "SUSPENDED", "REPAIRING":
		return resources.StatusFailed
	default: // PROVISIONING, STAGING
		return resources.StatusPending
	}
}

func addressesOf(i *compute.Instance) resources.Addresses {
	a := resources.Addresses{}
	for _, n := range i.NetworkInterfaces {
		a.PrivateIPv4 = cmp.Or(a.PrivateIPv4, n.NetworkIP)
		for _, access := range n.AccessConfigs {
			a.PublicIPv4 = cmp.Or(a.PublicIPv4, access.NatIP)
		}
	}
	if a.Interface = a.PublicIPv4; a.Interface == "" || i.Labels[cloudkit.TagInterface] == cloudkit.PrivateInterface {
		a.Interface = a.PrivateIPv4
	}
	return a
}
