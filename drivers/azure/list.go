package azure

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// inventory is all objects of a resource group that belong to virtual machines.
type inventory struct {
	vms        []*armcompute.VirtualMachine
	power      map[string]string // by lower case ID of the virtual machine
	disks      []*armcompute.Disk
	interfaces []networkInterface
	addresses  []publicIP
}

// inventory reads the lists at the same time.
func (c *Cloud) inventory(ctx context.Context) (all inventory, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		all.vms, err = collect(ctx, c.vms.NewListPager(c.group, nil), func(p armcompute.VirtualMachinesClientListResponse) ([]*armcompute.VirtualMachine, *string) {
			return p.Value, p.NextLink
		})
		return wrap("list virtual machines", err)
	})
	group.Go(func() (err error) { all.power, err = c.listPower(ctx); return err })
	group.Go(func() (err error) { all.disks, err = c.listDisks(ctx); return err })
	group.Go(func() (err error) { all.interfaces, err = c.listInterfaces(ctx); return err })
	group.Go(func() (err error) { all.addresses, err = c.listAddresses(ctx); return err })
	return all, group.Wait()
}

// listPower returns the power states of the virtual machines, by the lower case ID. Azure lists them for a subscription only. With
// credentials that must not do that npctl knows no power states.
func (c *Cloud) listPower(ctx context.Context) (map[string]string, error) {
	pager := c.vms.NewListAllPager(&armcompute.VirtualMachinesClientListAllOptions{StatusOnly: to.Ptr("true")})
	vms, err := collect(ctx, pager, func(p armcompute.VirtualMachinesClientListAllResponse) ([]*armcompute.VirtualMachine, *string) {
		return p.Value, p.NextLink
	})
	if err = wrap("list the power states of virtual machines", err); errors.Is(err, drivers.ErrRejected) {
		c.warnPower.Do(func() {
			c.log.Warn("power states are not readable; npctl does not notice stopped machines", "error", err)
		})
		return nil, nil
	}
	found := map[string]string{}
	for _, vm := range vms {
		if vm.Properties == nil || vm.Properties.InstanceView == nil {
			continue
		}
		for _, s := range vm.Properties.InstanceView.Statuses {
			if state, ok := strings.CutPrefix(deref(s.Code), "PowerState/"); ok {
				found[strings.ToLower(deref(vm.ID))] = state
			}
		}
	}
	return found, err
}

func (a *account) listDisks(ctx context.Context) ([]*armcompute.Disk, error) {
	found, err := collect(ctx, a.disks.NewListByResourceGroupPager(a.group, nil), func(p armcompute.DisksClientListByResourceGroupResponse) ([]*armcompute.Disk, *string) {
		return p.Value, p.NextLink
	})
	return found, wrap("list disks", err)
}

func (a *account) listInterfaces(ctx context.Context) ([]networkInterface, error) {
	found, err := list[networkInterface](ctx, a.rest, a.network(a.group, interfaceKind), networkVersion)
	return found, wrap("list network interfaces", err)
}

func (a *account) listAddresses(ctx context.Context) ([]publicIP, error) {
	found, err := list[publicIP](ctx, a.rest, a.network(a.group, addressKind), networkVersion)
	return found, wrap("list public addresses", err)
}

// List implements drivers.Cloud with one list each of virtual machines, their power states, disks, network interfaces and public
// addresses.
func (c *Cloud) List(ctx context.Context) ([]resources.Instance, error) {
	began := time.Now()
	all, err := c.inventory(ctx)
	if err != nil {
		return nil, err
	}
	addresses := all.addressesByServer()
	untagged := all.untaggedDisks()
	instances := make([]resources.Instance, 0, len(all.vms))
	for _, vm := range all.vms {
		one, err := c.convert(ctx, vm)
		if err != nil {
			return nil, err
		}
		addPower(&one, all.power[strings.ToLower(deref(vm.ID))])
		one.Addresses = addresses[strings.ToLower(one.ID)]
		one.Addresses.Interface = cloudkit.ConnectTo(one.Addresses, deref(vm.Tags[cloudkit.TagInterface]))
		if one.Status == resources.StatusReady && (one.Addresses.Interface == "" || untagged[one.ID].disk != "") {
			one.Status = resources.StatusPending
		}
		instances = append(instances, one)
	}
	if err := c.addFaults(ctx, instances, all); err != nil {
		return nil, err
	}
	c.recent.set(began, instances, untagged)
	return instances, nil
}

// The provisioning states of Azure that npctl distinguishes.
const (
	stateSucceeded = "Succeeded"
	stateUpdating  = "Updating"
	stateFailed    = "Failed"
	stateDeleting  = "Deleting"
)

// convert converts a virtual machine of the SDK, without its addresses.
func (c *Cloud) convert(ctx context.Context, vm *armcompute.VirtualMachine) (resources.Instance, error) {
	tags, p := tagMap(vm.Tags), vm.Properties
	if p == nil {
		p = &armcompute.VirtualMachineProperties{}
	}
	one := resources.Instance{ID: deref(vm.Name), Name: tags[tagName], Marks: ownerOf(tags, drivers.OfServer, vm.Name), Status: statusFrom(deref(p.ProvisioningState)), Region: deref(vm.Location), Cloud: "azure",
		Zone: zoneOf(vm), Created: deref(p.TimeCreated).UTC()}
	if one.Name == "" || one.Marks.Installation == "" {
		one.Name = one.ID
	}
	if p.HardwareProfile != nil {
		one.Flavor = string(deref(p.HardwareProfile.VMSize))
	}
	all, err := c.names.sizes.Get(ctx)
	if err != nil {
		return resources.Instance{}, err
	}
	one.Resources = resources.ResourceAmounts{Instances: 1}
	if i := slices.IndexFunc(all, func(s size) bool { return sameName(s.name, one.Flavor) }); i >= 0 {
		one.Resources = all[i].amounts(deref(p.Priority) == armcompute.VirtualMachinePriorityTypesSpot)
	}
	return one, nil
}

// zoneOf returns the zone of a virtual machine, "" if Azure chose it.
func zoneOf(vm *armcompute.VirtualMachine) string {
	if len(vm.Zones) == 0 {
		return ""
	}
	return deref(vm.Zones[0])
}

// statusFrom maps provisioning states. A machine that is updated, for example with new tags, runs.
func statusFrom(state string) resources.Status {
	switch state {
	case stateSucceeded, stateUpdating:
		return resources.StatusReady
	case stateFailed, "Canceled":
		return resources.StatusFailed
	case stateDeleting:
		return resources.StatusDeleting
	default:
		return resources.StatusPending
	}
}

// addPower adds the power state to a machine that Azure has started. npctl never stops a machine, so a stopped one has failed.
// Azure does not always know the power state.
func addPower(i *resources.Instance, power string) {
	if i.Status != resources.StatusReady {
		return
	}
	switch power {
	case "running", "unknown", "":
	case "starting":
		i.Status = resources.StatusPending
	default: // stopping, stopped, deallocating, deallocated, hibernating, hibernated
		i.Status, i.Fault = resources.StatusFailed, "the virtual machine is "+power
	}
}

// addressesByServer returns the addresses by the lower case name of the virtual machine.
func (all inventory) addressesByServer() map[string]resources.Addresses {
	public := map[string]string{}
	for _, ip := range all.addresses {
		public[strings.ToLower(ip.ID)] = ip.Properties.Address
	}
	found := map[string]resources.Addresses{}
	for _, n := range all.interfaces {
		server := strings.ToLower(n.server())
		if server == "" {
			continue
		}
		a := found[server]
		for _, configuration := range n.Properties.Configurations {
			private, outside := &a.PrivateIPv4, &a.PublicIPv4
			var ignored string
			if configuration.Properties.Version == "IPv6" {
				private, outside = &ignored, &a.PublicIPv6
				a.PublicIPv6 = cmp.Or(a.PublicIPv6, configuration.Properties.Address)
			}
			if *private == "" {
				*private = configuration.Properties.Address
			}
			if ip := configuration.Properties.PublicIP; ip != nil && public[strings.ToLower(ip.ID)] != "" {
				*outside = public[strings.ToLower(ip.ID)]
			}
		}
		found[server] = a
	}
	return found
}

// diskTags are the tags that a disk lacks.
type diskTags struct {
	disk string
	tags map[string]string
}

// scope returns the scope of shortages of a virtual machine.
func (all inventory) scope(id string) string {
	for _, vm := range all.vms {
		if vm.Properties != nil && deref(vm.Name) == id {
			return scopeOf(zoneOf(vm), vm.Properties)
		}
	}
	return ""
}

// untaggedDisks returns, by virtual machine, the OS disks that Azure created without tags.
func (all inventory) untaggedDisks() map[string]diskTags {
	disks := map[string]*armcompute.Disk{}
	for _, d := range all.disks {
		disks[strings.ToLower(deref(d.Name))] = d
	}
	found := map[string]diskTags{}
	for _, vm := range all.vms {
		tags := tagMap(vm.Tags)
		owner := ownerOf(tags, drivers.OfServer, vm.Name)
		if tags[tagTagDisk] == "" || owner.Installation == "" || vm.Properties == nil || vm.Properties.StorageProfile == nil || vm.Properties.StorageProfile.OSDisk == nil {
			continue
		}
		d := disks[strings.ToLower(deref(vm.Properties.StorageProfile.OSDisk.Name))]
		if d == nil || !sameName(nameOf(deref(d.ManagedBy)), deref(vm.Name)) || ownerOf(tagMap(d.Tags), drivers.OfAny, d.Name).SameRecord(owner) {
			continue
		}
		delete(tags, tagTagDisk)
		tags = withObject(tags, deref(d.Name))
		found[deref(vm.Name)] = diskTags{deref(d.Name), tags}
	}
	return found
}

// recentList keeps the newest list. Its zero value is usable.
type recentList struct {
	cloudkit.RecentList
	mu       sync.Mutex           // guards the fields below
	withTags map[string]diskTags  // by virtual machine: its OS disk, if the list shows the disk without tags
	tagged   map[string]time.Time // by virtual machine: when its disk was tagged; zero: the call has not returned yet
}

// set stores a list that was begun at the given time. Another list may have been made and used since: a disk that was tagged
// because of that one is not tagged again.
func (r *recentList) set(began time.Time, list []resources.Instance, untagged map[string]diskTags) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.tagged {
		if at.IsZero() || began.Before(at) {
			delete(untagged, id)
		} else {
			delete(r.tagged, id)
		}
	}
	r.Set(list)
	r.withTags = untagged
}

// tagDisk calls tag with the OS disk of a virtual machine and its tags, if the newest list shows the disk without them: once for each
// list that was begun after the previous call.
func (r *recentList) tagDisk(id string, tag func(diskTags) error) error {
	r.mu.Lock()
	d, lacks := r.withTags[id]
	if lacks {
		delete(r.withTags, id)
		if r.tagged == nil {
			r.tagged = map[string]time.Time{}
		}
		r.tagged[id] = time.Time{}
	}
	r.mu.Unlock()
	if !lacks {
		return nil
	}
	err := tag(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tagged[id] = time.Now(); err != nil {
		delete(r.tagged, id)
	}
	return err
}

// fault is the reason of a failed virtual machine.
type fault struct {
	text string
	kind resources.FaultKind
}

// addFaults adds the reasons of failures, which lists omit: one call for each machine of npctl that has failed since.
func (c *Cloud) addFaults(ctx context.Context, list []resources.Instance, all inventory) error {
	for n := range list {
		i := &list[n]
		if i.Status != resources.StatusFailed || i.Marks.Installation == "" || i.Fault != "" {
			continue
		}
		reason, ok := c.faults.Get(i.ID)
		if !ok {
			view, err := c.vms.InstanceView(ctx, c.group, i.ID, nil)
			if err = wrap("read the state of virtual machine "+i.ID, err); cloudkit.IsMissing(err) {
				continue
			}
			if err != nil {
				return err
			}
			reason = faultOf(view.Statuses)
			c.faults.Set(i.ID, reason)
			if reason.kind == resources.FaultCapacity { // Azure reports some shortages after it has accepted the machine
				c.shortages.Add(all.scope(i.ID), i.Flavor)
			}
		}
		i.Fault, i.FaultKind = reason.text, reason.kind
	}
	c.faults.DeleteUnless(func(id string) bool {
		return slices.ContainsFunc(list, func(i resources.Instance) bool { return i.ID == id && i.Status == resources.StatusFailed })
	})
	return nil
}

// faultOf returns the reason in a code such as ProvisioningState/failed/AllocationFailed.
func faultOf(statuses []*armcompute.InstanceViewStatus) fault {
	for _, s := range statuses {
		if rest, ok := strings.CutPrefix(deref(s.Code), "ProvisioningState/failed"); ok {
			code, message := strings.TrimPrefix(rest, "/"), cloudkit.Clean(deref(s.Message))
			text := code
			if message != "" {
				text = strings.TrimPrefix(code+": "+message, ": ")
			}
			return fault{text, faultKind(code, message)}
		}
	}
	return fault{}
}
