package azuretest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7/fake"
)

// machine is a virtual machine with the end of its current operation.
type machine struct {
	vm      *armcompute.VirtualMachine
	next    string // provisioning state after the operation; "" means that the machine ends
	at      time.Time
	failure string // code of a failed start
	power   string // power state; "" means running
}

// settle ends the operations that have reached their time.
func (c *Cloud) settle() {
	for name, m := range c.vms {
		if m.at.IsZero() || time.Now().Before(m.at) {
			continue
		}
		m.at = time.Time{}
		if m.next != "" {
			m.vm.Properties.ProvisioningState = to.Ptr(m.next)
			continue
		}
		delete(c.vms, name)
		for _, all := range []map[string]*object{c.nics, c.ips} {
			maps.DeleteFunc(all, func(_ string, o *object) bool { return o.vm == name && o.onDelete == "Delete" })
			for _, o := range all {
				if o.vm == name {
					o.vm = ""
					delete(o.Properties, "virtualMachine")
				}
			}
		}
		maps.DeleteFunc(c.disks, func(_ string, d *armcompute.Disk) bool { return c.endsWith(d, m.vm) })
	}
}

// endsWith detaches a disk from a machine that ends, and reports whether the disk ends too.
func (c *Cloud) endsWith(d *armcompute.Disk, vm *armcompute.VirtualMachine) bool {
	if d.ManagedBy == nil || !strings.EqualFold(*d.ManagedBy, *vm.ID) {
		return false
	}
	d.ManagedBy = nil
	system := vm.Properties.StorageProfile.OSDisk
	return *system.Name == *d.Name && system.DeleteOption != nil && *system.DeleteOption == armcompute.DiskDeleteOptionTypesDelete
}

// refusal is the error code of requests for a size, and their number.
type refusal struct {
	code     string
	requests int
}

// Refuse answers requests for virtual machines of a size with an error code. It returns the number of these requests so far.
func (c *Cloud) Refuse(size, code string) (requests func() int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &refusal{code: code}
	c.refusals = map[string]*refusal{size: r}
	return func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return r.requests
	}
}

// FailStarts makes virtual machines of a size fail after Azure has accepted them.
func (c *Cloud) FailStarts(size, code string) {
	c.Fail("start of "+size, 1, 0, code, "")
}

func (c *Cloud) startFailure(size string) string {
	for i := range c.answers {
		if a := &c.answers[i]; a.api == "start of "+size && a.times > 0 {
			a.times--
			return a.code
		}
	}
	return ""
}

// MaxCores changes the quota.
func (c *Cloud) MaxCores(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxCores = n
}

func missing(e *azfake.ErrorResponder) { e.SetResponseError(http.StatusNotFound, "ResourceNotFound") }

// pages adds sorted objects to the pages of a list.
func addPages[P, T any](c *Cloud, pager *azfake.PagerResponder[P], all map[string]T, page func([]T) P) {
	var sorted []T
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[name])
	}
	size := c.PageSize
	if size == 0 {
		size = len(sorted) + 1
	}
	for chunk := range slices.Chunk(sorted, size) {
		pager.AddPage(http.StatusOK, page(chunk), nil)
	}
	if len(sorted) == 0 {
		pager.AddPage(http.StatusOK, page(nil), nil)
	}
}

type size struct {
	name, family, ram string
	cores             int64
}

var sizes = []size{
	{"Standard_D2s_v5", "standardDSv5Family", "8", 2}, {"Standard_D4s_v5", "standardDSv5Family", "16", 4},
	{"Standard_B1s", "standardBSFamily", "1", 1}, {"Standard_ND96", "standardNDFamily", "900", 96},
}

func sizeOf(name string) (size, bool) {
	i := slices.IndexFunc(sizes, func(s size) bool { return s.name == name })
	if i < 0 {
		return size{}, false
	}
	return sizes[i], true
}

// servers are the SDK's fake servers with this cloud's behavior. They run with mu held.
func (c *Cloud) servers() fake.ServerFactory {
	return fake.ServerFactory{
		VirtualMachinesServer: fake.VirtualMachinesServer{
			BeginCreateOrUpdate: c.createVM, BeginDelete: c.deleteVM, BeginUpdate: c.updateVM, Get: c.getVM, NewListPager: c.listVMs, NewListAllPager: c.listStatuses,
			InstanceView: c.instanceView, RetrieveBootDiagnosticsData: c.bootDiagnostics,
		},
		DisksServer: fake.DisksServer{
			BeginCreateOrUpdate: c.createDisk, BeginDelete: c.deleteDisk, BeginUpdate: c.updateDisk, Get: c.getDisk, NewListByResourceGroupPager: c.listDisks,
			BeginGrantAccess: c.grantAccess, BeginRevokeAccess: c.revokeAccess,
		},
		ImagesServer: fake.ImagesServer{
			BeginCreateOrUpdate: c.createImage, BeginDelete: c.deleteImage, BeginUpdate: c.updateImage, Get: c.getImage, NewListByResourceGroupPager: c.listImages,
		},
		UsageServer:                         fake.UsageServer{NewListPager: c.usages},
		ResourceSKUsServer:                  fake.ResourceSKUsServer{NewListPager: skus},
		VirtualMachineImagesServer:          fake.VirtualMachineImagesServer{List: marketplaceVersions, ListSKUs: marketplaceSKUs},
		GalleryImageVersionsServer:          fake.GalleryImageVersionsServer{Get: galleryVersion},
		SharedGalleryImageVersionsServer:    fake.SharedGalleryImageVersionsServer{Get: sharedVersion},
		CommunityGalleryImageVersionsServer: fake.CommunityGalleryImageVersionsServer{Get: communityVersion},
	}
}

func (c *Cloud) createVM(_ context.Context, _, name string, vm armcompute.VirtualMachine, options *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) (r azfake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse], e azfake.ErrorResponder) {
	key := strings.ToLower(name)
	if _, exists := c.vms[key]; exists && options != nil && options.IfNoneMatch != nil {
		e.SetResponseError(http.StatusPreconditionFailed, "PreconditionFailed")
		return r, e
	}
	p := vm.Properties
	s, known := sizeOf(string(*p.HardwareProfile.VMSize))
	switch {
	case !known:
		e.SetResponseError(http.StatusBadRequest, "InvalidParameter")
		return r, e
	case *vm.Location != Location:
		e.SetResponseError(http.StatusBadRequest, "LocationNotAvailableForResourceType")
		return r, e
	case !c.hasImage(p.StorageProfile.ImageReference):
		e.SetResponseError(http.StatusNotFound, "NotFound")
		return r, e
	case p.OSProfile == nil || p.OSProfile.AdminUsername == nil || p.OSProfile.AdminPassword == nil && p.OSProfile.LinuxConfiguration == nil:
		e.SetResponseError(http.StatusBadRequest, "InvalidParameter")
		return r, e
	case c.refusals[s.name] != nil:
		c.refusals[s.name].requests++
		e.SetResponseError(http.StatusConflict, c.refusals[s.name].code)
		return r, e
	case c.usedCores()+s.cores > c.maxCores:
		e.SetResponseError(http.StatusConflict, "QuotaExceeded")
		return r, e
	}
	for _, n := range p.NetworkProfile.NetworkInterfaceConfigurations {
		for _, a := range n.Properties.IPConfigurations {
			if *a.Properties.Subnet.ID != ID("Microsoft.Network/virtualNetworks", Network)+"/subnets/"+Subnet {
				e.SetResponseError(http.StatusBadRequest, "InvalidResourceReference")
				return r, e
			}
		}
	}
	vm.ID, vm.Name = to.Ptr(ID("Microsoft.Compute/virtualMachines", name)), to.Ptr(name)
	p.ProvisioningState, p.TimeCreated, p.OSProfile.AdminPassword = to.Ptr("Creating"), to.Ptr(time.Now().UTC()), nil
	m := &machine{vm: &vm, next: "Succeeded", at: time.Now().Add(c.Delay)}
	if m.failure = c.startFailure(s.name); m.failure != "" {
		m.next = "Failed"
	}
	c.vms[key] = m
	c.addParts(key, &vm)
	r.SetTerminalResponse(http.StatusCreated, armcompute.VirtualMachinesClientCreateOrUpdateResponse{VirtualMachine: vm}, nil)
	return r, e
}

// addParts creates the network interfaces, public addresses and OS disk of a machine.
func (c *Cloud) addParts(key string, vm *armcompute.VirtualMachine) {
	for _, n := range vm.Properties.NetworkProfile.NetworkInterfaceConfigurations {
		id := ID("Microsoft.Network/networkInterfaces", *n.Name)
		var configurations []any
		for _, a := range n.Properties.IPConfigurations {
			number := c.next()
			address := map[string]any{"privateIPAddress": fmt.Sprintf("10.0.%d.%d", number/256, number%256), "privateIPAddressVersion": string(*a.Properties.PrivateIPAddressVersion)}
			if *a.Properties.PrivateIPAddressVersion == armcompute.IPVersionsIPv6 {
				address["privateIPAddress"] = fmt.Sprintf("fd00::%x", number)
			}
			if public := a.Properties.PublicIPAddressConfiguration; public != nil {
				ip := &object{ID: ID("Microsoft.Network/publicIPAddresses", *public.Name), Name: *public.Name, Location: Location, Tags: values(public.Tags), vm: key,
					onDelete: string(*public.Properties.DeleteOption), Properties: map[string]any{
						"ipAddress": fmt.Sprintf("203.0.%d.%d", 113+number/256, number%256), "publicIPAddressVersion": string(*public.Properties.PublicIPAddressVersion),
						"ipConfiguration": map[string]string{"id": id + "/ipConfigurations/" + *a.Name}}}
				if *public.Properties.PublicIPAddressVersion == armcompute.IPVersionsIPv6 {
					ip.Properties["ipAddress"] = fmt.Sprintf("2001:db8::%x", number)
				}
				c.ips[strings.ToLower(ip.Name)] = ip
				address["publicIPAddress"] = map[string]string{"id": ip.ID}
			}
			configurations = append(configurations, map[string]any{"id": id + "/ipConfigurations/" + *a.Name, "name": *a.Name, "properties": address})
		}
		c.nics[strings.ToLower(*n.Name)] = &object{ID: id, Name: *n.Name, Location: Location, Tags: values(n.Tags), vm: key, onDelete: string(*n.Properties.DeleteOption),
			Properties: map[string]any{"virtualMachine": map[string]string{"id": strings.ToUpper(*vm.ID)}, "ipConfigurations": configurations}}
	}
	disk := vm.Properties.StorageProfile.OSDisk
	c.disks[strings.ToLower(*disk.Name)] = &armcompute.Disk{ID: to.Ptr(ID("Microsoft.Compute/disks", *disk.Name)), Name: disk.Name, Location: vm.Location, ManagedBy: vm.ID,
		Properties: &armcompute.DiskProperties{ProvisioningState: to.Ptr("Succeeded"), DiskState: to.Ptr(armcompute.DiskStateAttached)}}
}

func (c *Cloud) hasImage(r *armcompute.ImageReference) bool {
	switch {
	case r.ID != nil:
		_, found := c.images[strings.ToLower((*r.ID)[strings.LastIndexByte(*r.ID, '/')+1:])]
		return found
	case r.SharedGalleryImageID != nil || r.CommunityGalleryImageID != nil:
		return true
	default:
		return *r.Publisher+":"+*r.Offer+":"+*r.SKU+":"+*r.Version == Marketplace
	}
}

func (c *Cloud) usedCores() (total int64) {
	for _, m := range c.vms {
		s, _ := sizeOf(string(*m.vm.Properties.HardwareProfile.VMSize))
		total += s.cores
	}
	return total
}

func (c *Cloud) deleteVM(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientBeginDeleteOptions) (r azfake.PollerResponder[armcompute.VirtualMachinesClientDeleteResponse], e azfake.ErrorResponder) {
	if m, found := c.vms[strings.ToLower(name)]; found && *m.vm.Properties.ProvisioningState != "Deleting" {
		m.vm.Properties.ProvisioningState, m.next, m.at = to.Ptr("Deleting"), "", time.Now().Add(c.Delay)
	}
	r.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
	return r, e
}

func (c *Cloud) updateVM(_ context.Context, _, name string, update armcompute.VirtualMachineUpdate, _ *armcompute.VirtualMachinesClientBeginUpdateOptions) (r azfake.PollerResponder[armcompute.VirtualMachinesClientUpdateResponse], e azfake.ErrorResponder) {
	m, found := c.vms[strings.ToLower(name)]
	if !found {
		missing(&e)
		return r, e
	}
	m.vm.Tags = update.Tags
	r.SetTerminalResponse(http.StatusOK, armcompute.VirtualMachinesClientUpdateResponse{VirtualMachine: *m.vm}, nil)
	return r, e
}

func (c *Cloud) getVM(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientGetOptions) (r azfake.Responder[armcompute.VirtualMachinesClientGetResponse], e azfake.ErrorResponder) {
	if m, found := c.vms[strings.ToLower(name)]; found {
		r.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientGetResponse{VirtualMachine: *m.vm}, nil)
	} else {
		missing(&e)
	}
	return r, e
}

func (c *Cloud) listVMs(string, *armcompute.VirtualMachinesClientListOptions) (r azfake.PagerResponder[armcompute.VirtualMachinesClientListResponse]) {
	addPages(c, &r, c.vms, func(page []*machine) (p armcompute.VirtualMachinesClientListResponse) {
		for _, m := range page {
			p.Value = append(p.Value, m.vm)
		}
		return p
	})
	return r
}

// listStatuses lists the statuses of machines without their other properties, and writes the resource group in upper case.
func (c *Cloud) listStatuses(options *armcompute.VirtualMachinesClientListAllOptions) (r azfake.PagerResponder[armcompute.VirtualMachinesClientListAllResponse]) {
	if options == nil || options.StatusOnly == nil || *options.StatusOnly != "true" {
		r.AddResponseError(http.StatusBadRequest, "InvalidParameter")
		return r
	}
	addPages(c, &r, c.vms, func(page []*machine) (p armcompute.VirtualMachinesClientListAllResponse) {
		for _, m := range page {
			view := &armcompute.VirtualMachineInstanceView{Statuses: m.statuses()}
			p.Value = append(p.Value, &armcompute.VirtualMachine{Name: m.vm.Name, ID: to.Ptr(strings.Replace(*m.vm.ID, "/"+Group+"/", "/"+strings.ToUpper(Group)+"/", 1)),
				Properties: &armcompute.VirtualMachineProperties{InstanceView: view}})
		}
		return p
	})
	return r
}

// statuses are the provisioning state and, of a started machine, the power state.
func (m *machine) statuses() (all []*armcompute.InstanceViewStatus) {
	switch state := *m.vm.Properties.ProvisioningState; {
	case m.failure != "":
		all = append(all, &armcompute.InstanceViewStatus{Code: to.Ptr("ProvisioningState/failed/" + m.failure), Message: to.Ptr("Allocation failed.")})
	case state == "Succeeded":
		all = append(all, &armcompute.InstanceViewStatus{Code: to.Ptr("ProvisioningState/succeeded")},
			&armcompute.InstanceViewStatus{Code: to.Ptr("PowerState/" + cmp.Or(m.power, "running"))})
	default:
		all = append(all, &armcompute.InstanceViewStatus{Code: to.Ptr("ProvisioningState/" + strings.ToLower(state))})
	}
	return all
}

// Power changes the power state of a machine, such as deallocated, as another user or the machine itself would.
func (c *Cloud) Power(vm, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vms[strings.ToLower(vm)].power = state
}

func (c *Cloud) instanceView(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientInstanceViewOptions) (r azfake.Responder[armcompute.VirtualMachinesClientInstanceViewResponse], e azfake.ErrorResponder) {
	m, found := c.vms[strings.ToLower(name)]
	if !found {
		missing(&e)
		return r, e
	}
	view := armcompute.VirtualMachineInstanceView{Statuses: m.statuses()}
	r.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientInstanceViewResponse{VirtualMachineInstanceView: view}, nil)
	return r, e
}

func (c *Cloud) bootDiagnostics(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientRetrieveBootDiagnosticsDataOptions) (r azfake.Responder[armcompute.VirtualMachinesClientRetrieveBootDiagnosticsDataResponse], e azfake.ErrorResponder) {
	m, found := c.vms[strings.ToLower(name)]
	if !found || m.vm.Properties.DiagnosticsProfile == nil {
		missing(&e)
		return r, e
	}
	r.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientRetrieveBootDiagnosticsDataResponse{RetrieveBootDiagnosticsDataResult: armcompute.RetrieveBootDiagnosticsDataResult{
		SerialConsoleLogBlobURI: to.Ptr(c.endpoint + "/console/" + name + "?sig=" + signature)}}, nil)
	return r, e
}

func (c *Cloud) createDisk(_ context.Context, _, name string, d armcompute.Disk, _ *armcompute.DisksClientBeginCreateOrUpdateOptions) (r azfake.PollerResponder[armcompute.DisksClientCreateOrUpdateResponse], e azfake.ErrorResponder) {
	d.ID, d.Name = to.Ptr(ID("Microsoft.Compute/disks", name)), to.Ptr(name)
	d.Properties.ProvisioningState, d.Properties.DiskState = to.Ptr("Succeeded"), to.Ptr(armcompute.DiskStateUnattached)
	if n := d.Properties.CreationData.UploadSizeBytes; n != nil {
		if (*n-512)%(1<<20) != 0 {
			e.SetResponseError(http.StatusBadRequest, "InvalidParameter")
			return r, e
		}
		c.pages[strings.ToLower(name)] = make([]byte, *n)
		d.Properties.DiskState = to.Ptr(armcompute.DiskStateReadyToUpload)
	}
	c.disks[strings.ToLower(name)] = &d
	r.SetTerminalResponse(http.StatusOK, armcompute.DisksClientCreateOrUpdateResponse{Disk: d}, nil)
	return r, e
}

func (c *Cloud) grantAccess(_ context.Context, _, name string, data armcompute.GrantAccessData, _ *armcompute.DisksClientBeginGrantAccessOptions) (r azfake.PollerResponder[armcompute.DisksClientGrantAccessResponse], e azfake.ErrorResponder) {
	d, found := c.disks[strings.ToLower(name)]
	if !found || *data.Access != armcompute.AccessLevelWrite {
		missing(&e)
		return r, e
	}
	d.Properties.DiskState = to.Ptr(armcompute.DiskStateActiveUpload)
	r.AddNonTerminalResponse(http.StatusAccepted, nil)
	r.SetTerminalResponse(http.StatusOK, armcompute.DisksClientGrantAccessResponse{AccessURI: armcompute.AccessURI{AccessSAS: to.Ptr(c.endpoint + "/blob/" + name + "?sig=" + signature)}}, nil)
	return r, e
}

func (c *Cloud) revokeAccess(_ context.Context, _, name string, _ *armcompute.DisksClientBeginRevokeAccessOptions) (r azfake.PollerResponder[armcompute.DisksClientRevokeAccessResponse], e azfake.ErrorResponder) {
	d, found := c.disks[strings.ToLower(name)]
	if !found {
		missing(&e)
		return r, e
	}
	d.Properties.DiskState = to.Ptr(armcompute.DiskStateUnattached)
	r.SetTerminalResponse(http.StatusOK, armcompute.DisksClientRevokeAccessResponse{}, nil)
	return r, e
}

func (c *Cloud) deleteDisk(_ context.Context, _, name string, _ *armcompute.DisksClientBeginDeleteOptions) (r azfake.PollerResponder[armcompute.DisksClientDeleteResponse], e azfake.ErrorResponder) {
	key := strings.ToLower(name)
	if d, found := c.disks[key]; found && (d.ManagedBy != nil || *d.Properties.DiskState == armcompute.DiskStateActiveUpload) {
		e.SetResponseError(http.StatusConflict, "OperationNotAllowed")
		return r, e
	}
	delete(c.disks, key)
	delete(c.pages, key)
	r.SetTerminalResponse(http.StatusOK, armcompute.DisksClientDeleteResponse{}, nil)
	return r, e
}

func (c *Cloud) updateDisk(_ context.Context, _, name string, update armcompute.DiskUpdate, _ *armcompute.DisksClientBeginUpdateOptions) (r azfake.PollerResponder[armcompute.DisksClientUpdateResponse], e azfake.ErrorResponder) {
	d, found := c.disks[strings.ToLower(name)]
	if !found {
		missing(&e)
		return r, e
	}
	d.Tags = update.Tags
	r.SetTerminalResponse(http.StatusOK, armcompute.DisksClientUpdateResponse{Disk: *d}, nil)
	return r, e
}

func (c *Cloud) getDisk(_ context.Context, _, name string, _ *armcompute.DisksClientGetOptions) (r azfake.Responder[armcompute.DisksClientGetResponse], e azfake.ErrorResponder) {
	if d, found := c.disks[strings.ToLower(name)]; found {
		r.SetResponse(http.StatusOK, armcompute.DisksClientGetResponse{Disk: *d}, nil)
	} else {
		missing(&e)
	}
	return r, e
}

func (c *Cloud) listDisks(string, *armcompute.DisksClientListByResourceGroupOptions) (r azfake.PagerResponder[armcompute.DisksClientListByResourceGroupResponse]) {
	addPages(c, &r, c.disks, func(page []*armcompute.Disk) armcompute.DisksClientListByResourceGroupResponse {
		return armcompute.DisksClientListByResourceGroupResponse{DiskList: armcompute.DiskList{Value: page}}
	})
	return r
}

// AttachDisk makes a virtual machine use a disk, which it creates if necessary, as another user would. Without a machine it
// detaches the disk.
func (c *Cloud) AttachDisk(disk, vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, found := c.disks[strings.ToLower(disk)]
	if !found {
		d = &armcompute.Disk{ID: to.Ptr(ID("Microsoft.Compute/disks", disk)), Name: to.Ptr(disk), Location: to.Ptr(Location), Properties: &armcompute.DiskProperties{}}
		c.disks[strings.ToLower(disk)] = d
	}
	if vm == "" {
		d.ManagedBy, d.Properties.DiskState = nil, to.Ptr(armcompute.DiskStateUnattached)
		return
	}
	d.ManagedBy, d.Properties.DiskState = to.Ptr(ID("Microsoft.Compute/virtualMachines", vm)), to.Ptr(armcompute.DiskStateAttached)
}

// createImage makes an image of a disk with a complete fixed VHD.
func (c *Cloud) createImage(_ context.Context, _, name string, i armcompute.Image, _ *armcompute.ImagesClientBeginCreateOrUpdateOptions) (r azfake.PollerResponder[armcompute.ImagesClientCreateOrUpdateResponse], e azfake.ErrorResponder) {
	if source := i.Properties.StorageProfile.OSDisk.ManagedDisk; source != nil {
		disk := strings.ToLower((*source.ID)[strings.LastIndexByte(*source.ID, '/')+1:])
		pages, found := c.pages[disk]
		if !found || *c.disks[disk].Properties.DiskState != armcompute.DiskStateUnattached || !bytes.HasPrefix(pages[len(pages)-512:], []byte("conectix")) {
			e.SetResponseError(http.StatusConflict, "InvalidDiskState")
			return r, e
		}
		c.pages["image "+strings.ToLower(name)] = bytes.Clone(pages)
	}
	i.ID, i.Name, i.Properties.ProvisioningState = to.Ptr(strings.ToUpper(ID("Microsoft.Compute/images", name))), to.Ptr(name), to.Ptr("Succeeded")
	i.SystemData = &armcompute.SystemData{CreatedAt: to.Ptr(time.Now().UTC())}
	c.images[strings.ToLower(name)] = &i
	r.SetTerminalResponse(http.StatusCreated, armcompute.ImagesClientCreateOrUpdateResponse{Image: i}, nil)
	return r, e
}

func (c *Cloud) deleteImage(_ context.Context, _, name string, _ *armcompute.ImagesClientBeginDeleteOptions) (r azfake.PollerResponder[armcompute.ImagesClientDeleteResponse], e azfake.ErrorResponder) {
	delete(c.images, strings.ToLower(name))
	delete(c.pages, "image "+strings.ToLower(name))
	r.SetTerminalResponse(http.StatusOK, armcompute.ImagesClientDeleteResponse{}, nil)
	return r, e
}

func (c *Cloud) updateImage(_ context.Context, _, name string, update armcompute.ImageUpdate, _ *armcompute.ImagesClientBeginUpdateOptions) (r azfake.PollerResponder[armcompute.ImagesClientUpdateResponse], e azfake.ErrorResponder) {
	i, found := c.images[strings.ToLower(name)]
	if !found {
		missing(&e)
		return r, e
	}
	i.Tags = update.Tags
	r.SetTerminalResponse(http.StatusOK, armcompute.ImagesClientUpdateResponse{Image: *i}, nil)
	return r, e
}

func (c *Cloud) getImage(_ context.Context, _, name string, _ *armcompute.ImagesClientGetOptions) (r azfake.Responder[armcompute.ImagesClientGetResponse], e azfake.ErrorResponder) {
	if i, found := c.images[strings.ToLower(name)]; found {
		r.SetResponse(http.StatusOK, armcompute.ImagesClientGetResponse{Image: *i}, nil)
	} else {
		missing(&e)
	}
	return r, e
}

func (c *Cloud) listImages(string, *armcompute.ImagesClientListByResourceGroupOptions) (r azfake.PagerResponder[armcompute.ImagesClientListByResourceGroupResponse]) {
	addPages(c, &r, c.images, func(page []*armcompute.Image) armcompute.ImagesClientListByResourceGroupResponse {
		return armcompute.ImagesClientListByResourceGroupResponse{ImageListResult: armcompute.ImageListResult{Value: page}}
	})
	return r
}

func (c *Cloud) usages(string, *armcompute.UsageClientListOptions) (r azfake.PagerResponder[armcompute.UsageClientListResponse]) {
	used := map[string]int32{"virtualMachines": 0, "cores": 0, "lowPriorityCores": 0, "standardDSv5Family": 0, "standardBSFamily": 0, "standardNDFamily": 0}
	for _, m := range c.vms {
		s, _ := sizeOf(string(*m.vm.Properties.HardwareProfile.VMSize))
		used["virtualMachines"]++
		used["cores"] += int32(s.cores) //nolint:gosec // at most 96
		if family := s.family; m.vm.Properties.Priority != nil {
			used["lowPriorityCores"] += int32(s.cores) //nolint:gosec // at most 96
		} else {
			used[family] += int32(s.cores) //nolint:gosec // at most 96
		}
	}
	var page armcompute.UsageClientListResponse
	for _, name := range slices.Sorted(maps.Keys(used)) {
		page.Value = append(page.Value, &armcompute.Usage{Name: &armcompute.UsageName{Value: to.Ptr(name)}, CurrentValue: to.Ptr(used[name]), Limit: to.Ptr(c.maxCores), Unit: to.Ptr("Count")})
	}
	r.AddPage(http.StatusOK, page, nil)
	return r
}

func skus(options *armcompute.ResourceSKUsClientListOptions) (r azfake.PagerResponder[armcompute.ResourceSKUsClientListResponse]) {
	page := armcompute.ResourceSKUsClientListResponse{ResourceSKUsResult: armcompute.ResourceSKUsResult{Value: []*armcompute.ResourceSKU{}}}
	if options != nil && options.Filter != nil && *options.Filter == "location eq '"+Location+"'" {
		for _, s := range sizes {
			sku := &armcompute.ResourceSKU{Name: to.Ptr(s.name), Family: to.Ptr(s.family), ResourceType: to.Ptr("virtualMachines"), Locations: []*string{to.Ptr(Location)},
				LocationInfo: []*armcompute.ResourceSKULocationInfo{{Location: to.Ptr(Location), Zones: []*string{to.Ptr("1"), to.Ptr("2"), to.Ptr("3")}}},
				Capabilities: []*armcompute.ResourceSKUCapabilities{{Name: to.Ptr("vCPUs"), Value: to.Ptr(fmt.Sprint(s.cores))}, {Name: to.Ptr("MemoryGB"), Value: to.Ptr(s.ram)}}}
			if s.cores > 90 {
				sku.Restrictions = []*armcompute.ResourceSKURestrictions{{Type: to.Ptr(armcompute.ResourceSKURestrictionsTypeLocation), ReasonCode: to.Ptr(armcompute.ResourceSKURestrictionsReasonCodeNotAvailableForSubscription)}}
			}
			page.Value = append(page.Value, sku)
		}
	}
	r.AddPage(http.StatusOK, page, nil)
	return r
}

func named(names ...string) (list []*armcompute.VirtualMachineImageResource) {
	for _, name := range names {
		list = append(list, &armcompute.VirtualMachineImageResource{Name: to.Ptr(name), Location: to.Ptr(Location)})
	}
	return list
}

func marketplaceVersions(_ context.Context, _, publisher, offer, sku string, _ *armcompute.VirtualMachineImagesClientListOptions) (r azfake.Responder[armcompute.VirtualMachineImagesClientListResponse], e azfake.ErrorResponder) {
	if publisher+":"+offer+":"+sku+":latest" == Marketplace {
		r.SetResponse(http.StatusOK, armcompute.VirtualMachineImagesClientListResponse{VirtualMachineImageResourceArray: named("0.20260101.1", "0.20261101.1")}, nil)
	} else {
		e.SetResponseError(http.StatusNotFound, "NotFound")
	}
	return r, e
}

func marketplaceSKUs(_ context.Context, _, publisher, offer string, _ *armcompute.VirtualMachineImagesClientListSKUsOptions) (r azfake.Responder[armcompute.VirtualMachineImagesClientListSKUsResponse], e azfake.ErrorResponder) {
	if strings.HasPrefix(Marketplace, publisher+":"+offer+":") {
		r.SetResponse(http.StatusOK, armcompute.VirtualMachineImagesClientListSKUsResponse{VirtualMachineImageResourceArray: named("12", "12-gen2")}, nil)
	} else {
		e.SetResponseError(http.StatusNotFound, "NotFound")
	}
	return r, e
}

// Versions of the image debian in galleries with any name: 1.0.0 exists.
const galleryImage = "debian/1.0.0"

func galleryVersion(_ context.Context, _, _, image, version string, _ *armcompute.GalleryImageVersionsClientGetOptions) (r azfake.Responder[armcompute.GalleryImageVersionsClientGetResponse], e azfake.ErrorResponder) {
	if image+"/"+version == galleryImage {
		r.SetResponse(http.StatusOK, armcompute.GalleryImageVersionsClientGetResponse{}, nil)
	} else {
		missing(&e)
	}
	return r, e
}

func sharedVersion(_ context.Context, _, _, image, version string, _ *armcompute.SharedGalleryImageVersionsClientGetOptions) (r azfake.Responder[armcompute.SharedGalleryImageVersionsClientGetResponse], e azfake.ErrorResponder) {
	if image+"/"+version == galleryImage {
		r.SetResponse(http.StatusOK, armcompute.SharedGalleryImageVersionsClientGetResponse{}, nil)
	} else {
		missing(&e)
	}
	return r, e
}

func communityVersion(_ context.Context, _, _, image, version string, _ *armcompute.CommunityGalleryImageVersionsClientGetOptions) (r azfake.Responder[armcompute.CommunityGalleryImageVersionsClientGetResponse], e azfake.ErrorResponder) {
	if image+"/"+version == galleryImage {
		r.SetResponse(http.StatusOK, armcompute.CommunityGalleryImageVersionsClientGetResponse{}, nil)
	} else {
		missing(&e)
	}
	return r, e
}
