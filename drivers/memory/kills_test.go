package memory_test

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/memory"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// mortal is a client of the cloud that is killed at its calls.
type mortal struct {
	drivers.Cloud
	drivers.ImageStore
	kill *testutil.Killer
}

func (m mortal) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	return testutil.Around(m.kill, "Create", func() (resources.Instance, error) { return m.Cloud.Create(ctx, spec) })
}

func (m mortal) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	_, err := testutil.Around(m.kill, "Delete", func() (any, error) { return nil, m.Cloud.Delete(ctx, id, expected) })
	return err
}

func (m mortal) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	return testutil.Around(m.kill, "UploadImage", func() (resources.RemoteImage, error) { return m.ImageStore.UploadImage(ctx, spec, content) })
}

func (m mortal) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	_, err := testutil.Around(m.kill, "DeleteImage", func() (any, error) { return nil, m.ImageStore.DeleteImage(ctx, id, expected) })
	return err
}

func TestContractOfKills(t *testing.T) {
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		d := memory.Replace(unreachable{t})
		c := openMemory(t, d)
		return drivertest.Setup{
			Cloud: c, Reopen: func(t *testing.T) drivers.Cloud { return openMemory(t, d) },
			Lacks: []string{"adopter"},
			Kill: func(t *testing.T, k *testutil.Killer) drivers.Cloud {
				again := openMemory(t, d)
				return mortal{again, again.(drivers.ImageStore), k}
			},
			Objects: func(t *testing.T) (all []string) {
				instances, err := c.List(t.Context())
				testutil.Must(t, err)
				for _, i := range instances {
					all = append(all, "instance "+i.ID)
				}
				images, err := c.(drivers.ImageStore).ListImages(t.Context())
				testutil.Must(t, err)
				for _, i := range images {
					all = append(all, "image "+i.ID)
				}
				return slices.Sorted(slices.Values(all))
			},
		}
	}, "Foreign", "Kills", "ImageKills")
}
