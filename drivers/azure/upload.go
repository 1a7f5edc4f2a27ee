package azure

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// cleanupLimit is the maximum duration of the cleanup after a failed upload.
const cleanupLimit = time.Minute

// UploadImage implements drivers.ImageStore: it writes the pages of a managed disk (see pages.go), and makes an image of it.
// Azure verifies the checksum of each range of pages.
func (st *imageStore) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	doing := "upload image " + spec.Name
	var settings imageSettings
	if err := cloudkit.Decode(spec.Config, &settings); err != nil {
		return resources.RemoteImage{}, err
	}
	tags, err := imageTags(spec)
	if err == nil {
		err = checkFormat(spec, content)
	}
	if err != nil {
		return resources.RemoteImage{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	if spec.MaybeCreated {
		if err := st.deleteEarlier(ctx, spec.Marks); err != nil {
			return resources.RemoteImage{}, fmt.Errorf("%s: delete the image of an earlier attempt: %w", doing, err)
		}
	}
	made, err := st.upload(ctx, spec, settings, tags, content)
	if err == nil {
		return made, nil
	}
	err = cloudkit.CleanUp(ctx, cleanupLimit, err, "its disk was not deleted", func(ctx context.Context) error { return st.deleteEarlier(ctx, spec.Marks) })
	return resources.RemoteImage{}, fmt.Errorf("%s: %w", doing, err)
}

// deleteEarlier deletes the images and disks with these ownership tags, and waits for the end of the deletions: the next
// attempt uses the same names.
func (st *imageStore) deleteEarlier(ctx context.Context, marks resources.OwnerTags) error {
	images, err := st.listImages(ctx)
	if err != nil {
		return err
	}
	for _, i := range images {
		if !st.remoteImage(i).Marks.SameRecord(marks) {
			continue
		}
		poller, err := st.startDeletion(ctx, st.id(imageKind, deref(i.Name)), marks)
		if poller != nil || err != nil {
			if _, err = await(ctx, "delete image "+deref(i.Name), poller, err); cloudkit.UnlessMissing(err) != nil {
				return err
			}
		}
	}
	disks, err := st.listDisks(ctx)
	if err != nil {
		return err
	}
	for _, d := range disks {
		if ownerOf(tagMap(d.Tags), drivers.OfAny, d.Name).SameRecord(marks) {
			if err := st.deleteDisk(ctx, deref(d.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteDisk deletes the disk of an upload, for which the permission to write has to end before.
func (a *account) deleteDisk(ctx context.Context, name string) error {
	revoking, err := a.disks.BeginRevokeAccess(ctx, a.group, name, nil)
	if _, err = await(ctx, "end the upload to disk "+name, revoking, err); err != nil && ctx.Err() != nil {
		return err
	}
	deleting, err := a.disks.BeginDelete(ctx, a.group, name, nil)
	_, err = await(ctx, "delete disk "+name, deleting, err)
	return cloudkit.UnlessMissing(err)
}

// imageTags returns the tags of the disk and the image.
func imageTags(spec drivers.ImageSpec) (map[string]string, error) {
	tags := cloudkit.ImageTags(spec, spec.Format)
	tags[tagName], tags[drivers.TagObject] = spec.Name, imageName(spec)
	tags[tagCreated] = time.Now().UTC().Format(time.RFC3339Nano)
	return tags, validateTags(tags)
}

// otherCharacters are the characters that the names of images and disks must not contain.
var otherCharacters = drivers.Pattern(`[^a-zA-Z0-9_.-]`)

// maxImageName is the length of the name of an image or a disk, without its hash.
const maxImageName = 70

// imageName returns the name of an image, which is unique in the resource group.
func imageName(spec drivers.ImageSpec) string {
	name := otherCharacters().ReplaceAllString(spec.Name, "-")
	return "i" + name[:min(len(name), maxImageName)] + "-" + shortHash(spec.Marks.Installation, string(spec.Marks.Kind), spec.Marks.ID)
}

// upload makes the disk, writes it, and makes the image.
func (st *imageStore) upload(ctx context.Context, spec drivers.ImageSpec, s imageSettings, tags map[string]string, content io.Reader) (resources.RemoteImage, error) {
	name, tail := imageName(spec), tailOf(spec)
	size := spec.Size + int64(len(tail))
	creating, err := st.disks.BeginCreateOrUpdate(ctx, st.group, name, armcompute.Disk{
		Location: to.Ptr(st.location), Tags: pointers(tags), SKU: &armcompute.DiskSKU{Name: to.Ptr(armcompute.DiskStorageAccountTypesStandardLRS)},
		Properties: &armcompute.DiskProperties{
			OSType: to.Ptr(armcompute.OperatingSystemTypes(s.OSType)), HyperVGeneration: to.Ptr(armcompute.HyperVGeneration(s.Generation)),
			CreationData: &armcompute.CreationData{CreateOption: to.Ptr(armcompute.DiskCreateOptionUpload), UploadSizeBytes: to.Ptr(size)},
		},
	}, nil)
	if _, err := await(ctx, "create disk "+name, creating, err); err != nil {
		return resources.RemoteImage{}, err
	}
	granting, err := st.disks.BeginGrantAccess(ctx, st.group, name, armcompute.GrantAccessData{Access: to.Ptr(armcompute.AccessLevelWrite), DurationInSeconds: to.Ptr(int32(uploadLimit / time.Second))}, nil)
	access, err := await(ctx, "start the upload to disk "+name, granting, err)
	if err != nil {
		return resources.RemoteImage{}, err
	}
	if err := writePages(ctx, st.http, deref(access.AccessSAS), name, spec, content, tail); err != nil {
		return resources.RemoteImage{}, err
	}
	revoking, err := st.disks.BeginRevokeAccess(ctx, st.group, name, nil)
	if _, err := await(ctx, "end the upload to disk "+name, revoking, err); err != nil {
		return resources.RemoteImage{}, err
	}
	made, err := st.register(ctx, name, s, tags)
	if err != nil {
		return resources.RemoteImage{}, err
	}
	return made, st.deleteDisk(ctx, name)
}

// uploadLimit is the validity of the address by which npctl writes a disk.
const uploadLimit = 24 * time.Hour

// register makes a generalized image of a disk: Azure configures each virtual machine of it.
func (st *imageStore) register(ctx context.Context, name string, s imageSettings, tags map[string]string) (resources.RemoteImage, error) {
	creating, err := st.images.BeginCreateOrUpdate(ctx, st.group, name, armcompute.Image{
		Location: to.Ptr(st.location), Tags: pointers(tags),
		Properties: &armcompute.ImageProperties{
			HyperVGeneration: to.Ptr(armcompute.HyperVGenerationTypes(s.Generation)),
			StorageProfile: &armcompute.ImageStorageProfile{ZoneResilient: to.Ptr(s.ZoneResilient), OSDisk: &armcompute.ImageOSDisk{
				OSState: to.Ptr(armcompute.OperatingSystemStateTypesGeneralized), OSType: to.Ptr(armcompute.OperatingSystemTypes(s.OSType)),
				ManagedDisk: &armcompute.SubResource{ID: to.Ptr(st.id("Microsoft.Compute/disks", name))},
			}},
		},
	}, nil)
	made, err := await(ctx, "create image "+name, creating, err)
	if err != nil {
		return resources.RemoteImage{}, err
	}
	r := st.remoteImage(&made.Image)
	if r.Status != resources.StatusReady {
		return r, fmt.Errorf("image %s is %s", name, deref(made.Properties.ProvisioningState))
	}
	return r, nil
}
