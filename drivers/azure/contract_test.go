package azure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/azure/azuretest"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIiHhN2W0Xv5KsGcPDRNzJBnZmrkHpMpU2nSZHWIMhYU test"

func block(null cty.Value, attributes map[string]cty.Value) cty.Value {
	values := null.AsValueMap()
	for name, value := range attributes {
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func offerConfig(attributes map[string]cty.Value) cty.Value {
	all := map[string]cty.Value{"vm_sizes": words("Standard_D2s_v5"), "network": cty.StringVal(azuretest.Network), "ssh_public_key": cty.StringVal(publicKey)}
	for name, value := range attributes {
		all[name] = value
	}
	return block(New().Schema().Label.Null(), all)
}

func words(all ...string) cty.Value {
	var list []cty.Value
	for _, word := range all {
		list = append(list, cty.StringVal(word))
	}
	return cty.ListVal(list)
}

// logIn sets the credentials of the environment.
func logIn(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AZURE_TENANT_ID": azuretest.Tenant, "AZURE_CLIENT_ID": azuretest.Client, "AZURE_CLIENT_SECRET": azuretest.Secret,
		"AZURE_SUBSCRIPTION_ID": azuretest.Subscription, "AZURE_AUTHORITY_HOST": azuretest.Endpoint, "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
	} {
		t.Setenv(name, value)
	}
}

func openGroup(t *testing.T, a http.RoundTripper, attributes map[string]cty.Value) (*Cloud, error) {
	t.Helper()
	all := map[string]cty.Value{"resource_group": cty.StringVal(azuretest.Group), "endpoint": cty.StringVal(azuretest.Endpoint)}
	for name, value := range attributes {
		all[name] = value
	}
	env := drivers.Env{Provider: "drivertest", WrapTransport: func(http.RoundTripper) http.RoundTripper { return a }}
	c, err := New().Open(t.Context(), env, block(New().Schema().Provider.Null(), all))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c.(*Cloud), nil
}

func mustOpen(t *testing.T, a http.RoundTripper) *Cloud {
	t.Helper()
	c, err := openGroup(t, a, nil)
	testutil.Must(t, err)
	return c
}

func setup(t *testing.T, offer cty.Value) drivertest.Setup {
	t.Helper()
	logIn(t)
	a := azuretest.New()
	c := mustOpen(t, a)
	return drivertest.Setup{
		Cloud:   c,
		Reopen:  func(t *testing.T) drivers.Cloud { return mustOpen(t, a) },
		Config:  offer,
		ImageID: azuretest.Marketplace,
		Lacks:   []string{"access", "snapshots"},
		Rejected: map[string]func(*drivers.Spec){
			"unknown image": func(s *drivers.Spec) { s.ImageID = azuretest.ID("Microsoft.Compute/images", "none") },
			"no image ID":   func(s *drivers.Spec) { s.ImageID = "debian" },
			"unknown size": func(s *drivers.Spec) {
				s.Config = offerConfig(map[string]cty.Value{"vm_sizes": words("Standard_D2s_v9")})
			},
			"unknown subnet": func(s *drivers.Spec) { s.Config = offerConfig(map[string]cty.Value{"subnet": cty.StringVal("none")}) },
			"no network":     func(s *drivers.Spec) { s.Config = offerConfig(map[string]cty.Value{"network": cty.StringVal("")}) },
			"no login": func(s *drivers.Spec) {
				s.Config = offerConfig(map[string]cty.Value{"ssh_public_key": cty.StringVal("")})
			},
			"long key": func(s *drivers.Spec) { s.Properties = map[string]string{strings.Repeat("x", 600): "a"} },
		},
		BadOffers: badOffers(),
		OpenWrong: func(t *testing.T) error {
			t.Setenv("AZURE_CLIENT_SECRET", "wrong-secret-of-the-test")
			_, err := openGroup(t, a, nil)
			return err
		},
		Withdraw:  func(*testing.T) { a.Withdraw() },
		Secrets:   []string{azuretest.Secret, "wrong-secret-of-the-test", "token-of-the-test", "signature-of-the-test"},
		FillQuota: func(*testing.T) { a.MaxCores(0) },
		Exhaust: func(_ *testing.T, kind error) (cty.Value, func() int) {
			code := "SkuNotAvailable"
			if errors.Is(kind, drivers.ErrQuota) {
				code = "QuotaExceeded"
			}
			return offerConfig(map[string]cty.Value{"vm_sizes": words("Standard_D4s_v5", "Standard_D2s_v5")}), a.Refuse("Standard_D4s_v5", code)
		},
		Foreign: func(t *testing.T) string { return foreignVM(t, c) },
		ForeignImage: func(t *testing.T) drivertest.Foreign {
			id := foreignImage(t, c)
			return drivertest.Foreign{ID: id, Stays: func() error { return staysWithoutTags(a, "image "+nameOf(id)) }}
		},
		Attach: func(_ *testing.T, instance string) []drivertest.Foreign {
			a.AttachDisk("data-"+instance, instance)
			return []drivertest.Foreign{{ID: "data-" + instance, Stays: func() error { return staysWithoutTags(a, "disk data-"+instance) }}}
		},
		Copies: func(t *testing.T, kind resources.Kind, original string) []drivertest.Foreign {
			return copiesOf(t, a, c, kind, original)
		},
		Leftovers: leftovers(a, c),
		Omits:     drivertest.NotCreated(nil, resources.LeftoverSnapshot, resources.LeftoverObject, resources.LeftoverHost, resources.LeftoverLaunchTemplate),
		Kill:      func(t *testing.T, k *testutil.Killer) drivers.Cloud { return mustOpen(t, k.Transport(a, changes)) },
		Objects:   func(*testing.T) []string { return slices.Sorted(maps.Keys(a.Objects())) },
		Neighbours: func(t *testing.T, node drivers.Spec, upload drivers.ImageSpec) []drivertest.Foreign {
			return neighbours(t, a, c, vmName(node)+"-old", upload.Name+"-old")
		},
		LoseNextAnswer: func(*testing.T) { a.LoseNext("VirtualMachinesClient.BeginCreateOrUpdate") },
		Spoil:          spoil(a, c, offer),
		Calls: func() (total int) {
			for _, n := range a.Calls() {
				total += n
			}
			return total
		},
		Alone: true,
	}
}

// spoil are the ways to make a machine of an offer unusable.
func spoil(a *azuretest.Cloud, c *Cloud, offer cty.Value) map[string]func(*testing.T, resources.Instance) {
	all := map[string]func(*testing.T, resources.Instance){"deleted": func(t *testing.T, i resources.Instance) {
		_, err := c.vms.BeginDelete(t.Context(), azuretest.Group, i.ID, nil)
		testutil.Must(t, err)
	}}
	for _, state := range []string{"starting", "stopping", "stopped", "deallocating", "deallocated"} {
		all[state] = func(_ *testing.T, i resources.Instance) { a.Power(i.ID, state) }
	}
	if internal := offer.GetAttr("use_internal_ip"); internal.IsNull() || internal.False() {
		all["without its address"] = func(_ *testing.T, i resources.Instance) { a.TakeAddress(i.ID) }
	}
	return all
}

// changes describes a call that changes something.
func changes(r *http.Request) string {
	if api := azuretest.APIOf(r.Method, r.URL.Path); api == "storage.PutPage" || api == "network.Delete" || api == "network.UpdateTags" || strings.Contains(api, ".Begin") {
		return api
	}
	return ""
}

func badOffers() map[string]drivertest.BadOffer {
	bad := map[string]drivertest.BadOffer{}
	for attribute, b := range map[string]struct {
		value cty.Value
		near  string
	}{
		"vm_sizes":               {words("Standard_D2s_v4"), "Standard_D2s_v5"},
		"availability_zones":     {words("4"), ""},
		"network":                {cty.StringVal("lap"), azuretest.Network},
		"subnet":                 {cty.StringVal("defalt"), azuretest.Subnet},
		"network_resource_group": {cty.StringVal("none"), ""},
		"security_group_id":      {cty.StringVal(azuretest.ID("Microsoft.Network/networkSecurityGroups", "none")), ""},
		"ssh_public_key":         {cty.StringVal(""), ""},
	} {
		bad[attribute] = drivertest.BadOffer{Config: offerConfig(map[string]cty.Value{attribute: b.value}), Attribute: attribute, Near: b.near}
	}
	bad["restricted"] = drivertest.BadOffer{Config: offerConfig(map[string]cty.Value{"vm_sizes": words("Standard_ND96")}), Attribute: "vm_sizes"}
	return bad
}

// foreignVM creates a virtual machine as another user would, with the SDK.
func foreignVM(t *testing.T, c *Cloud) string {
	t.Helper()
	return foreignVMCalled(t, c, fmt.Sprint("foreign-", len(c.group), shortHash(t.Name())))
}

func foreignVMCalled(t *testing.T, c *Cloud, name string) string {
	t.Helper()
	s, err := decodeOffer(offerConfig(nil))
	testutil.Must(t, err)
	vm, err := c.request(drivers.Spec{Hostname: name, ImageID: azuretest.Marketplace, Config: offerConfig(nil)}, name, offer{settings: s})
	testutil.Must(t, err)
	vm.Tags = map[string]*string{"owner": to.Ptr("another")}
	vm.Properties.HardwareProfile = &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes("Standard_B1s"))}
	for _, n := range vm.Properties.NetworkProfile.NetworkInterfaceConfigurations {
		n.Tags = nil
		for _, ip := range n.Properties.IPConfigurations {
			ip.Properties.PublicIPAddressConfiguration = nil
		}
	}
	_, err = c.vms.BeginCreateOrUpdate(t.Context(), azuretest.Group, name, vm, nil)
	testutil.Must(t, err)
	t.Cleanup(func() { _, _ = c.vms.BeginDelete(context.WithoutCancel(t.Context()), azuretest.Group, name, nil) })
	return name
}

func foreignImage(t *testing.T, c *Cloud) (id string) {
	t.Helper()
	return foreignImageCalled(t, c, "foreign")
}

func foreignImageCalled(t *testing.T, c *Cloud, name string) (id string) {
	t.Helper()
	_, err := c.images.BeginCreateOrUpdate(t.Context(), azuretest.Group, name, armcompute.Image{Location: to.Ptr(azuretest.Location),
		Properties: &armcompute.ImageProperties{StorageProfile: &armcompute.ImageStorageProfile{OSDisk: &armcompute.ImageOSDisk{BlobURI: to.Ptr("https://storage.test/a.vhd")}}}}, nil)
	testutil.Must(t, err)
	return c.id(imageKind, name)
}

// neighbours are a virtual machine, a disk that no machine uses, and an image.
func neighbours(t *testing.T, a *azuretest.Cloud, c *Cloud, vm, image string) (all []drivertest.Foreign) {
	t.Helper()
	_, err := c.disks.BeginCreateOrUpdate(t.Context(), azuretest.Group, vm+"-disk", armcompute.Disk{Location: to.Ptr(azuretest.Location),
		Properties: &armcompute.DiskProperties{CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionEmpty)}}}, nil)
	testutil.Must(t, err)
	for object, id := range map[string]string{
		"vm " + vm: foreignVMCalled(t, c, vm), "disk " + vm + "-disk": vm + "-disk", "image " + image: foreignImageCalled(t, c, image),
	} {
		all = append(all, drivertest.Foreign{ID: id, Stays: func() error { return staysWithoutTags(a, object) }})
	}
	return all
}

// copiesOf makes a disk, an image, an interface and an address with the tags of an object, and another virtual machine, as a restored
// backup.
// leftovers are the types of objects that remain, which machines of others can use.
func leftovers(a *azuretest.Cloud, c *Cloud) map[string]drivertest.Leftover {
	uses := 0
	attach := func(to func(name, vm string)) func(*testing.T, resources.Leftover) func() {
		return func(_ *testing.T, l resources.Leftover) func() {
			uses++
			to(l.ID, fmt.Sprint("foreign-", uses))
			return func() { to(l.ID, "") }
		}
	}
	add := func(kind string, create func(map[string]string) string) func(*testing.T, resources.OwnerTags) resources.Leftover {
		return func(_ *testing.T, m resources.OwnerTags) resources.Leftover {
			return resources.Leftover{Type: kind, ID: create(drivers.EncodeTags(m)), Marks: m}
		}
	}
	disk := func(t *testing.T, m resources.OwnerTags) resources.Leftover {
		t.Helper()
		name := "disk-" + m.ID
		_, err := c.disks.BeginCreateOrUpdate(t.Context(), azuretest.Group, name, armcompute.Disk{Location: to.Ptr(azuretest.Location), Tags: pointers(drivers.EncodeTags(m)),
			Properties: &armcompute.DiskProperties{CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionEmpty)}}}, nil)
		testutil.Must(t, err)
		return resources.Leftover{Type: resources.LeftoverVolume, ID: name, Marks: m}
	}
	return map[string]drivertest.Leftover{
		resources.LeftoverVolume:     {Leave: disk, Use: attach(a.AttachDisk), OfAny: true},
		resources.LeftoverPort:       {Leave: add(resources.LeftoverPort, a.AddInterface), Use: attach(a.AttachInterface)},
		resources.LeftoverFloatingIP: {Leave: add(resources.LeftoverFloatingIP, a.AddAddress), Use: attach(a.AttachAddress)},
	}
}

func copiesOf(t *testing.T, a *azuretest.Cloud, c *Cloud, kind resources.Kind, original string) (copies []drivertest.Foreign) {
	t.Helper()
	source := "vm " + original
	if kind == resources.KindUpload {
		source = "image " + nameOf(original)
	}
	tags := pointers(a.Objects()[source])
	ofImage, ofVM := tags, pointers(drivertest.WithoutObject(a.Objects()[source]))
	if kind == resources.KindNode {
		ofImage, ofVM = ofVM, tags
	}
	if len(tags) == 0 {
		t.Fatalf("%s has no tags; there are %v", source, a.Objects())
	}
	add := func(object, id string) {
		copies = append(copies, drivertest.Foreign{ID: id, Stays: func() error {
			if _, found := a.Objects()[object]; !found {
				return errors.New(object + " was deleted")
			}
			return nil
		}})
	}
	_, err := c.disks.BeginCreateOrUpdate(t.Context(), azuretest.Group, "copied-disk", armcompute.Disk{Location: to.Ptr(azuretest.Location), Tags: tags,
		Properties: &armcompute.DiskProperties{CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionEmpty)}}}, nil)
	testutil.Must(t, err)
	add("disk copied-disk", "copied-disk")
	_, err = c.images.BeginCreateOrUpdate(t.Context(), azuretest.Group, "copied", armcompute.Image{Location: to.Ptr(azuretest.Location), Tags: ofImage,
		Properties: &armcompute.ImageProperties{StorageProfile: &armcompute.ImageStorageProfile{OSDisk: &armcompute.ImageOSDisk{BlobURI: to.Ptr("https://storage.test/a.vhd")}}}}, nil)
	testutil.Must(t, err)
	add("image copied", c.id(imageKind, "copied"))
	restored := foreignVM(t, c)
	_, err = c.vms.BeginUpdate(t.Context(), azuretest.Group, restored, armcompute.VirtualMachineUpdate{Tags: ofVM}, nil)
	testutil.Must(t, err)
	add("vm "+restored, restored)
	nic, ip := a.AddInterface(maps.Clone(a.Objects()[source])), a.AddAddress(maps.Clone(a.Objects()[source]))
	add("nic "+nic, nic)
	add("ip "+ip, ip)
	return copies
}

func staysWithoutTags(a *azuretest.Cloud, object string) error {
	tags, found := a.Objects()[object]
	if !found {
		return errors.New(object + " was deleted")
	}
	if drivers.DecodeTags(tags) != (resources.OwnerTags{}) {
		return errors.New(object + " has ownership tags")
	}
	return nil
}

func TestContract(t *testing.T) {
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup { return setup(t, offerConfig(nil)) })
}

func TestContractWithEveryAttribute(t *testing.T) {
	offer := offerConfig(map[string]cty.Value{
		"vm_sizes": words("Standard_D4s_v5", "Standard_D2s_v5"), "availability_zones": words("1", "2"), "network": cty.StringVal(""), "ipv6": cty.True, "public_ipv6": cty.True,
		"subnet": cty.StringVal(azuretest.ID("Microsoft.Network/virtualNetworks", azuretest.Network) + "/subnets/" + azuretest.Subnet), "use_internal_ip": cty.True,
		"admin_username": cty.StringVal("ci"), "admin_password": cty.StringVal("Password-of-the-test-1"), "volume_size": cty.NumberIntVal(64), "volume_type": cty.StringVal("Premium_LRS"),
		"userdata": cty.StringVal("#cloud-config\n"), "custom_data": cty.StringVal("#cloud-config\n"), "tags": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("ci")}),
		"market_type": cty.StringVal("spot"), "identities": words(azuretest.ID("Microsoft.ManagedIdentity/userAssignedIdentities", "ci")),
	})
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		s := setup(t, offer)
		s.Secrets = append(s.Secrets, "Password-of-the-test-1")
		return s
	}, "Instances", "Resolver", "Errors", "Kills")
}

func TestSchema(t *testing.T) { drivertest.Schema(t, New().Schema()) }
