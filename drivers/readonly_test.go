package drivers_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

func TestReadOnlyCloudChangesNothing(t *testing.T) {
	inner := &store{}
	cloud := drivers.Decorate(drivers.Wrap(inner, drivers.ReadOnly()), drivers.DecorateOptions{})
	images, _ := drivers.ImagesOf(cloud)
	ctx := t.Context()
	_, create := cloud.Create(ctx, drivers.Spec{})
	_, advance := cloud.Advance(ctx, drivers.Spec{}, resources.Instance{})
	_, upload := images.UploadImage(ctx, drivers.ImageSpec{}, strings.NewReader(""))
	for name, err := range map[string]error{"create": create, "advance": advance, "upload": upload, "delete": cloud.Delete(ctx, "i", resources.OwnerTags{}),
		"delete image": images.DeleteImage(ctx, "i", resources.OwnerTags{})} {
		if !errors.Is(err, drivers.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(inner.calls) > 0 {
		t.Errorf("%d calls were made", len(inner.calls))
	}
	_, list := cloud.List(ctx)
	_, quota := cloud.Quota(ctx)
	_, listImages := images.ListImages(ctx)
	if err := errors.Join(list, quota, listImages); err != nil || len(inner.calls) != 3 {
		t.Errorf("looking ended with %v after %d calls", err, len(inner.calls))
	}
}
