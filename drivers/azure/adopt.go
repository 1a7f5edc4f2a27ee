package azure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// LookUp implements drivers.Adopter.
func (c *Cloud) LookUp(ctx context.Context, kind resources.Kind, id string) (resources.ExistingObject, bool, error) {
	if kind == resources.KindUpload {
		i, found, err := c.image(ctx, id)
		if err != nil || !found {
			return resources.ExistingObject{}, false, err
		}
		return c.existingImage(i), true, nil
	}
	vm, found, err := c.vm(ctx, id)
	if err != nil || !found {
		return resources.ExistingObject{}, false, err
	}
	object, err := c.existing(ctx, vm)
	return object, err == nil, err
}

func (c *Cloud) existing(ctx context.Context, vm *armcompute.VirtualMachine) (resources.ExistingObject, error) {
	one, err := c.convert(ctx, vm)
	if err != nil {
		return resources.ExistingObject{}, err
	}
	object := resources.ExistingObject{Instance: one, Program: cloudkit.NodepoolText(tagMap(vm.Tags)), Settings: map[string][]string{"vm_sizes": {one.Flavor}}}
	if one.Zone != "" {
		object.Settings["availability_zones"] = []string{one.Zone}
	}
	if p := vm.Properties; p != nil && p.StorageProfile != nil && p.StorageProfile.ImageReference != nil {
		r := p.StorageProfile.ImageReference
		object.BootedOf = cmp.Or(deref(r.ID), deref(r.SharedGalleryImageID), deref(r.CommunityGalleryImageID))
	}
	if name, own := c.ownName(object.BootedOf); own {
		object.BootedOf = c.id(imageKind, name)
	}
	return object, nil
}

func (c *Cloud) existingImage(i *armcompute.Image) resources.ExistingObject {
	return resources.ExistingObject{Image: c.remoteImage(i), Program: cloudkit.NodepoolText(tagMap(i.Tags))}
}

// ListOthers implements drivers.Adopter.
func (c *Cloud) ListOthers(ctx context.Context) (others []resources.ExistingObject, err error) {
	all, err := c.inventory(ctx)
	if err != nil {
		return nil, err
	}
	for _, vm := range all.vms {
		if ownerOf(tagMap(vm.Tags), drivers.OfServer, vm.Name) == (resources.OwnerTags{}) {
			one, err := c.convert(ctx, vm)
			if err != nil {
				return nil, err
			}
			others = append(others, resources.ExistingObject{Instance: one, Program: cloudkit.NodepoolText(tagMap(vm.Tags))})
		}
	}
	images, err := c.listImages(ctx)
	for _, i := range images {
		if object := c.existingImage(i); object.Image.Marks == (resources.OwnerTags{}) {
			others = append(others, object)
		}
	}
	return others, err
}

// tagged is a virtual machine or image with any tags.
type tagged struct {
	what, name string
	tags       map[string]string
}

// requestedNames returns the names of an object that Azure created with a virtual machine: it may add a suffix to the requested one.
func requestedNames(name string) []string {
	names := []string{name}
	for i, c := range name {
		if c == '-' {
			names = append(names, name[:i])
		}
	}
	return names
}

func (t tagged) owner() resources.OwnerTags {
	switch t.what {
	case "image":
		return ownerOf(t.tags, drivers.OfImage, &t.name)
	case resources.LeftoverVolume:
		return ownerOf(t.tags, drivers.OfAny, &t.name)
	case resources.LeftoverPort, resources.LeftoverFloatingIP:
		return drivers.OwnerOf(t.tags, drivers.OfServer, requestedNames(t.name)...)
	default:
		return ownerOf(t.tags, drivers.OfServer, &t.name)
	}
}

// lookUpTagged reads the object of ownership tags.
func (c *Cloud) lookUpTagged(ctx context.Context, id string, kind resources.Kind) (tagged, bool, error) {
	if kind == resources.KindUpload {
		i, found, err := c.image(ctx, id)
		if err != nil || !found {
			return tagged{}, false, err
		}
		return tagged{what: "image", name: deref(i.Name), tags: tagMap(i.Tags)}, true, nil
	}
	vm, found, err := c.vm(ctx, id)
	if err != nil || !found {
		return tagged{}, false, err
	}
	return tagged{what: "virtual machine", name: id, tags: tagMap(vm.Tags)}, true, nil
}

// setTags replaces all tags of the object.
func (c *Cloud) setTags(ctx context.Context, t tagged, tags map[string]string) (err error) {
	if maps.Equal(t.tags, tags) {
		return nil
	}
	switch t.what {
	case "image":
		_, err = c.images.BeginUpdate(ctx, c.group, t.name, armcompute.ImageUpdate{Tags: pointers(tags)}, nil)
	case resources.LeftoverVolume:
		_, err = c.disks.BeginUpdate(ctx, c.group, t.name, armcompute.DiskUpdate{Tags: pointers(tags)}, nil)
	case resources.LeftoverPort:
		err = c.rest.send(ctx, http.MethodPatch, c.network(c.group, interfaceKind)+"/"+t.name, networkVersion, tagsBody{tags}, nil)
	case resources.LeftoverFloatingIP:
		err = c.rest.send(ctx, http.MethodPatch, c.network(c.group, addressKind)+"/"+t.name, networkVersion, tagsBody{tags}, nil)
	default:
		_, err = c.vms.BeginUpdate(ctx, c.group, t.name, armcompute.VirtualMachineUpdate{Tags: pointers(tags)}, nil)
	}
	return cloudkit.UnlessMissing(wrap("tag "+t.what+" "+t.name, err))
}

// tagsBody replaces the tags of an object of Microsoft.Network.
type tagsBody struct {
	Tags map[string]string `json:"tags"`
}

// Adopt implements drivers.Adopter with one call, which also removes Nodepool's tags.
func (c *Cloud) Adopt(ctx context.Context, id string, marks, replaced resources.OwnerTags) error {
	t, exists, err := c.lookUpTagged(ctx, id, marks.Kind)
	if err == nil && !exists {
		err = fmt.Errorf("%w: %s %s does not exist", drivers.ErrRejected, marks.Kind, id)
	}
	if err != nil {
		return err
	}
	if err := cloudkit.CheckAdoptable(t.what, t.name, t.owner(), marks, replaced); err != nil {
		return err
	}
	tags := withObject(withoutOwner(t.tags), t.name)
	maps.Copy(tags, drivers.EncodeTags(marks))
	if err := validateTags(tags); err != nil {
		return err
	}
	return c.setTags(ctx, t, tags)
}

// Release implements drivers.Adopter. The disk, interface and addresses of the machine lose their tags before it.
func (c *Cloud) Release(ctx context.Context, id string, marks resources.OwnerTags) error {
	t, exists, err := c.lookUpTagged(ctx, id, marks.Kind)
	if err != nil || !exists {
		return err
	}
	if err := cloudkit.CheckAdoptable(t.what, t.name, t.owner(), marks, resources.OwnerTags{}); err != nil {
		return err
	}
	if marks.Kind != resources.KindUpload && t.owner().Installation != "" {
		if err := c.releaseParts(ctx, marks); err != nil {
			return err
		}
	}
	return c.setTags(ctx, t, withoutOwner(t.tags))
}

// releaseParts removes the ownership tags of the objects that npctl created with a virtual machine.
func (c *Cloud) releaseParts(ctx context.Context, marks resources.OwnerTags) error {
	all, err := c.inventory(ctx)
	if err != nil {
		return err
	}
	var parts []tagged
	for _, d := range all.disks {
		parts = append(parts, tagged{resources.LeftoverVolume, deref(d.Name), tagMap(d.Tags)})
	}
	for _, n := range all.interfaces {
		parts = append(parts, tagged{resources.LeftoverPort, n.Name, n.Tags})
	}
	for _, ip := range all.addresses {
		parts = append(parts, tagged{resources.LeftoverFloatingIP, ip.Name, ip.Tags})
	}
	for _, part := range parts {
		if part.owner().SameRecord(marks) {
			if err := c.setTags(ctx, part, withoutOwner(part.tags)); err != nil {
				return err
			}
		}
	}
	return nil
}

// withoutOwner returns the tags that name no owner.
func withoutOwner(tags map[string]string) map[string]string {
	result := map[string]string{}
	for name, value := range tags {
		if !strings.HasPrefix(name, cloudkit.NodepoolPrefix) && (describing[name] || !strings.HasPrefix(name, tagPrefix)) {
			result[name] = value
		}
	}
	return result
}
