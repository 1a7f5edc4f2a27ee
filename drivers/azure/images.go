package azure

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/resources"
)

// imageStore implements drivers.ImageStore, and the image part of drivers.Resolver. An uploaded image is a managed image of
// the resource group.
type imageStore struct {
	*account
	format string
}

// The formats of files that the driver uploads. Azure boots fixed VHDs, which are raw images with a footer.
const (
	formatRaw = "raw"
	formatVHD = "vhd"
)

// ImageFormat implements drivers.ImageStore.
func (st *imageStore) ImageFormat() string { return st.format }

// The kinds of objects in IDs.
const (
	imageKind     = "Microsoft.Compute/images"
	interfaceKind = "networkInterfaces"
	addressKind   = "publicIPAddresses"
)

// ListImages implements drivers.ImageStore.
func (st *imageStore) ListImages(ctx context.Context) ([]resources.RemoteImage, error) {
	all, err := st.listImages(ctx)
	if err != nil {
		return nil, err
	}
	var owned []resources.RemoteImage
	for _, i := range all {
		if r := st.remoteImage(i); r.Marks != (resources.OwnerTags{}) {
			owned = append(owned, r)
		}
	}
	return owned, nil
}

func (st *imageStore) listImages(ctx context.Context) ([]*armcompute.Image, error) {
	found, err := collect(ctx, st.images.NewListByResourceGroupPager(st.group, nil), func(p armcompute.ImagesClientListByResourceGroupResponse) ([]*armcompute.Image, *string) {
		return p.Value, p.NextLink
	})
	return found, wrap("list images", err)
}

// ownName returns the name in the ID of an image of the resource group.
func (a *account) ownName(id string) (string, bool) {
	prefix := a.id(imageKind, "")
	if len(id) <= len(prefix) || !sameName(id[:len(prefix)], prefix) || strings.Contains(id[len(prefix):], "/") {
		return "", false
	}
	return id[len(prefix):], true
}

// image reads one image of the resource group by its ID; false means that it does not exist.
func (st *imageStore) image(ctx context.Context, id string) (*armcompute.Image, bool, error) {
	name, own := st.ownName(id)
	if !own {
		return nil, false, context.Cause(ctx)
	}
	answer, err := st.images.Get(ctx, st.group, name, nil)
	if err = wrap("read image "+name, err); cloudkit.IsMissing(err) {
		return nil, false, nil
	}
	return &answer.Image, err == nil, err
}

// remoteImage converts an image of the resource group.
func (st *imageStore) remoteImage(i *armcompute.Image) resources.RemoteImage {
	tags := tagMap(i.Tags)
	r := resources.RemoteImage{
		ID: st.id(imageKind, deref(i.Name)), Name: deref(i.Name), Marks: ownerOf(tags, drivers.OfImage, i.Name), Status: resources.StatusPending,
		Format: tags[cloudkit.TagFormat], SHA256: tags[cloudkit.TagSHA256], Properties: cloudkit.UserTags(tags),
	}
	if i.Properties != nil {
		r.Status = statusFrom(deref(i.Properties.ProvisioningState))
	}
	if name := tags[tagName]; name != "" && r.Marks.Installation != "" {
		r.Name = name
	}
	r.Size, _ = strconv.ParseInt(tags[cloudkit.TagSize], 10, 64)
	r.Created, _ = time.Parse(time.RFC3339Nano, tags[tagCreated])
	if i.SystemData != nil && r.Created.IsZero() {
		r.Created = deref(i.SystemData.CreatedAt)
	}
	return r
}

// DeleteImage implements drivers.ImageStore.
func (st *imageStore) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	_, err := st.startDeletion(ctx, id, expected)
	return err
}

// startDeletion requests the deletion of an image. Without an image the poller is nil.
func (st *imageStore) startDeletion(ctx context.Context, id string, expected resources.OwnerTags) (*runtime.Poller[armcompute.ImagesClientDeleteResponse], error) {
	i, found, err := st.image(ctx, id)
	if err != nil || !found {
		return nil, err
	}
	if err := drivers.CheckOwner("image", id, st.remoteImage(i).Marks, expected); err != nil {
		return nil, err
	}
	poller, err := st.images.BeginDelete(ctx, st.group, deref(i.Name), nil)
	return poller, cloudkit.UnlessMissing(wrap("delete image "+id, err))
}

// await polls a long-running operation to its end. Azure suggests pauses that only matter for minutes of work.
func await[T any](ctx context.Context, doing string, poller *runtime.Poller[T], err error) (result T, _ error) {
	for pause := cloudkit.FirstPause; err == nil && !poller.Done(); pause = min(pause*2, cloudkit.MaxPause) {
		if err := waits.Sleep(ctx, pause); err != nil {
			return result, wrap(doing, err)
		}
		var answered error
		if _, answered = poller.Poll(ctx); answered != nil { //nolint:bodyclose // the SDK has read and closed it
			if answered = wrap(doing, answered); drivers.IsNothingDone(answered) || ctx.Err() != nil {
				return result, answered
			}
		}
	}
	if err == nil {
		result, err = poller.Result(ctx)
	}
	return result, wrap(doing, err)
}
