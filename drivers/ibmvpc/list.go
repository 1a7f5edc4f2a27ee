package ibmvpc

import (
	"context"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// List implements drivers.Cloud with the lists of instances, of volumes, which have the tags, and of floating IPs, which have
// the public addresses.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	found, err := list[instance](ctx, c.api, "list instances", "/instances", nil, "instances")
	if err != nil {
		return nil, err
	}
	volumes, err := list[volume](ctx, c.api, "list volumes", "/volumes", nil, "volumes")
	if err != nil {
		return nil, err
	}
	addresses, err := list[floatingIP](ctx, c.api, "list floating IPs", "/floating_ips", nil, "floating_ips")
	if err != nil {
		return nil, err
	}
	tags, public := map[string][]string{}, map[string]string{}
	for _, v := range volumes {
		tags[v.Name] = v.UserTags
	}
	for _, f := range addresses {
		if f.Target != nil {
			public[f.Target.ID] = f.Address
		}
	}
	all := make([]resources.Instance, 0, len(found))
	waiting := map[string]string{}
	for _, i := range found {
		one := c.convert(i, tags[i.Name], public[i.Interface.ID])
		if i.Status == "running" && one.Status == resources.StatusPending {
			waiting[i.ID] = i.Interface.ID
		}
		if one.FaultKind == resources.FaultCapacity && one.Marks.Installation != "" {
			c.shortages.Add(one.Zone, one.Flavor) // the VPC API accepts an instance and reports the shortage later
		}
		all = append(all, one)
	}
	c.waiting.Replace(waiting)
	c.recent.Set(all)
	return all, nil
}

// convert converts an instance; public is the address of its floating IP.
func (c *Cloud) convert(i instance, tags []string, public string) resources.Instance {
	marks, name := readTags(i.Name, tags)
	marks = drivers.OnlyOf(drivers.OfServer, marks)
	one := resources.Instance{
		ID: i.ID, Name: name, Marks: marks, Status: statusOf(i.Status), Addresses: addressesOf(i, public), Zone: i.Zone.Name, Region: c.settings.Region,
		Cloud: "ibmvpc", Flavor: i.Profile.Name, Resources: amountsOf(i.VCPU.Count, i.Memory), Created: i.CreatedAt,
	}
	if one.Status == resources.StatusReady && i.needsFloatingIP() && public == "" {
		one.Status = resources.StatusPending
	}
	if one.Status == resources.StatusFailed && len(i.Reasons) > 0 {
		one.Fault, one.FaultKind = cloudkit.Clean(i.Reasons[0].Message), faultKind(i.Reasons[0].Code)
	}
	return one
}

// statusOf maps the statuses of instances. npctl never stops an instance, so a stopped one has failed.
func statusOf(status string) resources.Status {
	switch status {
	case "running":
		return resources.StatusReady
	case "deleting":
		return resources.StatusDeleting
	case "failed", "stopping", "stopped", "paused", "pausing":
		return resources.StatusFailed
	default: // pending, starting, restarting, resuming
		return resources.StatusPending
	}
}

func addressesOf(i instance, public string) resources.Addresses {
	a := resources.Addresses{PublicIPv4: public, PrivateIPv4: i.Interface.PrimaryIP.Address}
	if a.PrivateIPv4 == "0.0.0.0" { // of an instance without an address yet
		a.PrivateIPv4 = ""
	}
	switch {
	case i.Interface.Name == interfaceBoth, i.Interface.Name == interfacePrivate:
		a.Interface = a.PrivateIPv4
	case i.Interface.Name == interfacePublic:
		a.Interface = public
	case public != "":
		a.Interface = public
	default:
		a.Interface = a.PrivateIPv4
	}
	return a
}
