package emulator

import (
	"crypto/md5"
	"encoding/hex"
	"io"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/npctl/npctl/internal/testutil"
)

func TestPublicImagesAreActiveAndStay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.json")
	o := Options{File: file, Images: []PublicImage{{Name: "debian-12", MinDisk: 4, MinRAM: 512, Properties: map[string]string{"os_distro": "debian"}}}}
	for _, options := range []Options{o, o, {File: file}} { // created once, and kept without the option
		c := connect(t, options)
		pages, err := images.List(c.image, images.ListOpts{}).AllPages(t.Context())
		testutil.Must(t, err)
		all, err := images.ExtractImages(pages)
		if err != nil || len(all) != 1 {
			t.Fatalf("the images are %v, %v", all, err)
		}
		i := all[0]
		if i.Name != "debian-12" || i.Status != images.ImageStatusActive || i.Visibility != images.ImageVisibilityPublic || i.MinDiskGigabytes != 4 ||
			i.MinRAMMegabytes != 512 || i.Properties["os_distro"] != "debian" {
			t.Errorf("the image is %+v", i)
		}
		content, err := imagedata.Download(t.Context(), c.image, i.ID).Extract()
		testutil.Must(t, err)
		got, err := io.ReadAll(content)
		sum := md5.Sum(got)
		if err != nil || int64(len(got)) != i.SizeBytes || hex.EncodeToString(sum[:]) != i.Checksum {
			t.Errorf("%d bytes are downloaded of %d, with checksum %x in place of %s, %v", len(got), i.SizeBytes, sum, i.Checksum, err)
		}
	}
}

func TestAddressRangesAreApart(t *testing.T) {
	seen := map[string]int{}
	for n := range MaxRange + 1 {
		private, public := ranges(n)
		for _, p := range []string{private.String(), public.String()} {
			if other, twice := seen[p]; twice || !private.IsValid() || !private.Addr().IsLoopback() || !public.Addr().IsLoopback() {
				t.Errorf("range %d has %s, as %d", n, p, other)
			}
			seen[p] = n
		}
	}
}
