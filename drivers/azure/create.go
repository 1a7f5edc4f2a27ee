package azure

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Create implements drivers.Cloud with one PUT per size that it tries. Azure creates the network interface, the public
// addresses and the OS disk with the virtual machine, and deletes them with it. The name of the machine follows from the
// ownership tags and the PUT never changes an existing machine, so a repetition finds the same one.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	name := vmName(spec)
	if found, done, err := cloudkit.Earlier(spec, func() (resources.Instance, bool, error) { return c.find(ctx, name, spec) }); done {
		return found, err
	}
	o, err := c.offer(ctx, spec.Config)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create virtual machine %s: %w", spec.Hostname, err))
	}
	request, err := c.request(spec, name, o)
	if err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("create virtual machine %s: %w", spec.Hostname, err))
	}
	return drivers.CreateFirst(&c.shortages, scopeOf(spec.Zone, request.Properties), o.sizes, func(s size) string { return s.name }, func(s size) (resources.Instance, error) {
		return c.put(ctx, spec, name, request, s)
	})
}

// scopeOf returns the scope of shortages: Azure has other capacity for spot machines.
func scopeOf(zone string, p *armcompute.VirtualMachineProperties) string {
	return fmt.Sprint(zone, " ", deref(p.Priority) == armcompute.VirtualMachinePriorityTypesSpot)
}

// vmName returns the name of a virtual machine, which is unique in the resource group: installations may share one.
func vmName(spec drivers.Spec) string {
	return spec.Hostname + "-" + shortHash(spec.Marks.Installation, string(spec.Marks.Kind), spec.Marks.ID)
}

func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:4])
}

// find reads the virtual machine that an earlier Create with this ID may have created.
func (c *Cloud) find(ctx context.Context, name string, spec drivers.Spec) (resources.Instance, bool, error) {
	vm, found, err := c.vm(ctx, name)
	if err != nil || !found {
		return resources.Instance{}, false, err
	}
	if marks := ownerOf(tagMap(vm.Tags), drivers.OfServer, vm.Name); !marks.SameRecord(spec.Marks) {
		return resources.Instance{}, false, fmt.Errorf("create virtual machine %s: %w: %s exists with %s", spec.Hostname, drivers.ErrNotOurs, name, drivers.DescribeOwner(marks))
	}
	if vm.Properties != nil && deref(vm.Properties.ProvisioningState) == stateDeleting {
		return resources.Instance{}, false, fmt.Errorf("create virtual machine %s: %s of an earlier attempt is being deleted", spec.Hostname, name)
	}
	made, err := c.convert(ctx, vm)
	return made, err == nil, err
}

// vm reads one virtual machine; false means that it does not exist.
func (c *Cloud) vm(ctx context.Context, name string) (*armcompute.VirtualMachine, bool, error) {
	answer, err := c.vms.Get(ctx, c.group, name, nil)
	if err = wrap("read virtual machine "+name, err); cloudkit.IsMissing(err) {
		return nil, false, nil
	}
	return &answer.VirtualMachine, err == nil, err
}

// request returns the virtual machine to create, without its size.
func (c *Cloud) request(spec drivers.Spec, name string, o offer) (armcompute.VirtualMachine, error) {
	tags := cloudkit.ServerTags(spec, o.settings.Tags, o.settings.UseInternalIP, maxTagValue)
	tags[tagName], tags[tagTagDisk], tags[drivers.TagObject] = spec.Hostname, "true", name
	if err := validateTags(tags); err != nil {
		return armcompute.VirtualMachine{}, err
	}
	image, err := imageReference(spec.ImageID)
	if err != nil {
		return armcompute.VirtualMachine{}, err
	}
	profile, err := osProfile(spec, o.settings.poolSettings)
	if err != nil {
		return armcompute.VirtualMachine{}, err
	}
	s := o.settings
	vm := armcompute.VirtualMachine{
		Location: to.Ptr(c.location), Tags: pointers(tags),
		Properties: &armcompute.VirtualMachineProperties{
			StorageProfile: &armcompute.StorageProfile{ImageReference: image, OSDisk: osDisk(name, s.poolSettings)},
			OSProfile:      profile, UserData: encoded(s.UserData),
			NetworkProfile:     c.networkProfile(name, tags, s.poolSettings),
			DiagnosticsProfile: &armcompute.DiagnosticsProfile{BootDiagnostics: &armcompute.BootDiagnostics{Enabled: to.Ptr(true)}},
		},
	}
	if spec.Zone != "" {
		vm.Zones = []*string{to.Ptr(spec.Zone)}
	}
	if s.isSpot() {
		vm.Properties.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
		vm.Properties.EvictionPolicy = to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDelete)
	}
	if len(s.Identities) > 0 {
		vm.Identity = &armcompute.VirtualMachineIdentity{Type: to.Ptr(armcompute.ResourceIdentityTypeUserAssigned), UserAssignedIdentities: map[string]*armcompute.UserAssignedIdentitiesValue{}}
		for _, id := range s.Identities {
			vm.Identity.UserAssignedIdentities[id] = &armcompute.UserAssignedIdentitiesValue{}
		}
	}
	return vm, nil
}

func osDisk(name string, s poolSettings) *armcompute.OSDisk {
	disk := &armcompute.OSDisk{Name: to.Ptr(name + "-os"), CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage), DeleteOption: to.Ptr(armcompute.DiskDeleteOptionTypesDelete)}
	if s.VolumeSize > 0 {
		disk.DiskSizeGB = to.Ptr(int32(s.VolumeSize)) //nolint:gosec // GiB
	}
	if s.VolumeType != "" {
		disk.ManagedDisk = &armcompute.ManagedDiskParameters{StorageAccountType: to.Ptr(armcompute.StorageAccountTypes(s.VolumeType))}
	}
	return disk
}

// osProfile describes the user that Azure creates. Azure requires a key or a password.
func osProfile(spec drivers.Spec, s poolSettings) (*armcompute.OSProfile, error) {
	p := &armcompute.OSProfile{ComputerName: to.Ptr(spec.Hostname), AdminUsername: to.Ptr(s.AdminUsername), CustomData: encoded(s.CustomData)}
	switch {
	case s.AdminPassword != "":
		p.AdminPassword = to.Ptr(s.AdminPassword)
	case s.GeneratePassword:
		p.AdminPassword = to.Ptr(randomPassword())
	case s.SSHPublicKey == "":
		return nil, missingLogin()
	}
	if s.SSHPublicKey != "" {
		p.LinuxConfiguration = &armcompute.LinuxConfiguration{
			DisablePasswordAuthentication: to.Ptr(p.AdminPassword == nil),
			SSH: &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{
				KeyData: to.Ptr(s.SSHPublicKey), Path: to.Ptr("/home/" + s.AdminUsername + "/.ssh/authorized_keys")}}},
		}
	}
	return p, nil
}

func missingLogin() error {
	return &drivers.UnknownName{Attribute: "ssh_public_key", Detail: "Azure requires a login; set ssh_public_key, admin_password or generate_password"}
}

// randomPassword has characters of all four classes that Azure counts.
func randomPassword() string {
	b := make([]byte, 24)
	rand.Read(b)
	return "aA1!" + base64.RawURLEncoding.EncodeToString(b)
}

// networkProfile describes the only network interface with its addresses.
func (c *Cloud) networkProfile(name string, tags map[string]string, s poolSettings) *armcompute.NetworkProfile {
	subnet := &armcompute.SubResource{ID: to.Ptr(c.names.subnetID(s))}
	address := func(suffix string, version armcompute.IPVersions, public bool) *armcompute.VirtualMachineNetworkInterfaceIPConfiguration {
		p := &armcompute.VirtualMachineNetworkInterfaceIPConfigurationProperties{Subnet: subnet, PrivateIPAddressVersion: to.Ptr(version), Primary: to.Ptr(version == armcompute.IPVersionsIPv4)}
		if public {
			p.PublicIPAddressConfiguration = &armcompute.VirtualMachinePublicIPAddressConfiguration{
				Name: to.Ptr(name + suffix), Tags: pointers(withObject(tags, name+suffix)),
				SKU: &armcompute.PublicIPAddressSKU{Name: to.Ptr(armcompute.PublicIPAddressSKUNameStandard)},
				Properties: &armcompute.VirtualMachinePublicIPAddressConfigurationProperties{
					DeleteOption: to.Ptr(armcompute.DeleteOptionsDelete), PublicIPAddressVersion: to.Ptr(version), PublicIPAllocationMethod: to.Ptr(armcompute.PublicIPAllocationMethodStatic)},
			}
		}
		return &armcompute.VirtualMachineNetworkInterfaceIPConfiguration{Name: to.Ptr(name + suffix), Properties: p}
	}
	addresses := []*armcompute.VirtualMachineNetworkInterfaceIPConfiguration{address("-ipv4", armcompute.IPVersionsIPv4, s.PublicIPv4)}
	if s.IPv6 || s.PublicIPv6 {
		addresses = append(addresses, address("-ipv6", armcompute.IPVersionsIPv6, s.PublicIPv6))
	}
	n := &armcompute.VirtualMachineNetworkInterfaceConfigurationProperties{IPConfigurations: addresses, Primary: to.Ptr(true), DeleteOption: to.Ptr(armcompute.DeleteOptionsDelete)}
	if s.SecurityGroupID != "" {
		n.NetworkSecurityGroup = &armcompute.SubResource{ID: to.Ptr(s.SecurityGroupID)}
	}
	return &armcompute.NetworkProfile{
		NetworkAPIVersion:              to.Ptr(armcompute.NetworkAPIVersionTwoThousandTwentyTwo1101),
		NetworkInterfaceConfigurations: []*armcompute.VirtualMachineNetworkInterfaceConfiguration{{Name: to.Ptr(name + "-nic"), Properties: n, Tags: pointers(withObject(tags, name+"-nic"))}},
	}
}

// put requests a virtual machine of one size.
func (c *Cloud) put(ctx context.Context, spec drivers.Spec, name string, vm armcompute.VirtualMachine, s size) (resources.Instance, error) {
	vm.Properties.HardwareProfile = &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes(s.name))}
	doing := fmt.Sprintf("create virtual machine %s (%s)", spec.Hostname, s.name)
	_, err := c.vms.BeginCreateOrUpdate(ctx, c.group, name, vm, &armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")})
	if err = wrap(doing, err); err == nil {
		return resources.Instance{
			ID: name, Name: spec.Hostname, Marks: spec.Marks, Status: resources.StatusPending, Zone: spec.Zone, Region: c.location, Cloud: "azure",
			Flavor: s.name, Resources: s.amounts(deref(vm.Properties.Priority) == armcompute.VirtualMachinePriorityTypesSpot),
		}, nil
	}
	if cloudkit.StatusOf(err) != http.StatusPreconditionFailed {
		return resources.Instance{}, err
	}
	found, ok, findErr := c.find(ctx, name, spec) // of an earlier call
	if findErr != nil || !ok {
		return resources.Instance{}, errors.Join(err, findErr)
	}
	return found, nil
}

// Advance implements drivers.Cloud: it copies the tags of a new virtual machine to its OS disk.
func (c *Cloud) Advance(ctx context.Context, _ drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	if seen.Status != resources.StatusPending {
		return seen, nil
	}
	return seen, c.recent.tagDisk(seen.ID, func(d diskTags) error {
		_, err := c.disks.BeginUpdate(ctx, c.group, d.disk, armcompute.DiskUpdate{Tags: pointers(d.tags)}, nil)
		return wrap("tag disk "+d.disk, err)
	})
}
