package emulator

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/npctl/npctl/internal/testutil"
)

// uploaded uploads an active image.
func (c *client) uploaded(t testing.TB, name string, content []byte) *images.Image {
	t.Helper()
	i, err := images.Create(t.Context(), c.image, images.CreateOpts{
		Name: name, DiskFormat: "raw", ContainerFormat: "bare", Tags: []string{"test"}, Properties: map[string]string{"os_distro": "debian"},
	}).Extract()
	testutil.Must(t, err)
	testutil.Must(t, imagedata.Upload(t.Context(), c.image, i.ID, bytes.NewReader(content)).ExtractErr())
	if i, err = images.Get(t.Context(), c.image, i.ID).Extract(); err != nil {
		t.Fatal(err)
	}
	return i
}

func flavorID(name string) string { return stableID("flavor/" + name) }

// asked creates a server with the given name.
func (c *client) asked(t testing.TB, imageID, name string) (*servers.Server, error) {
	t.Helper()
	return servers.Create(t.Context(), c.compute, servers.CreateOpts{
		Name: name, ImageRef: imageID, FlavorRef: flavorID("small"), Metadata: map[string]string{"made": "by test"},
		Networks: []servers.Network{{UUID: stableID("network/private")}},
	}, nil).Extract()
}

func (c *client) server(t testing.TB, id string) *servers.Server {
	t.Helper()
	s, err := servers.Get(t.Context(), c.compute, id).Extract()
	testutil.Must(t, err)
	return s
}

func TestGophercloudRunsAServerOfAnUploadedImage(t *testing.T) {
	c := connect(t, Options{})
	ctx := t.Context()

	pages, err := flavors.ListDetail(c.compute, nil).AllPages(ctx)
	testutil.Must(t, err)
	if all, err := flavors.ExtractFlavors(pages); err != nil || len(all) != 4 || all[0].Name != "small" || all[0].RAM != 2048 {
		t.Errorf("flavors %v, %v", all, err)
	}
	pages, err = networks.List(c.network, nil).AllPages(ctx)
	testutil.Must(t, err)
	if all, err := networks.ExtractNetworks(pages); err != nil || len(all) != 2 {
		t.Errorf("networks %v, %v", all, err)
	}

	content := bytes.Repeat([]byte("image "), 1000)
	image := c.uploaded(t, "tiny", content)
	sum := md5.Sum(content)
	if image.Status != "active" || image.SizeBytes != int64(len(content)) || image.Checksum != hex.EncodeToString(sum[:]) {
		t.Errorf("image is %s with %d bytes and checksum %s", image.Status, image.SizeBytes, image.Checksum)
	}
	if image.Properties["os_distro"] != "debian" || image.Properties["os_hash_algo"] != "sha512" {
		t.Errorf("properties %v", image.Properties)
	}

	made, err := c.asked(t, image.ID, "node")
	testutil.Must(t, err)
	s := c.server(t, made.ID)
	if s.Status != "ACTIVE" || s.Metadata["made"] != "by test" {
		t.Errorf("server is %s with metadata %v", s.Status, s.Metadata)
	}
	addresses, ok := s.Addresses["private"].([]any)
	if !ok || len(addresses) != 1 || addresses[0].(map[string]any)["addr"] != "127.77.0.2" {
		t.Errorf("addresses %v", s.Addresses)
	}
	testutil.Must(t, servers.Delete(ctx, c.compute, s.ID).ExtractErr())
	if _, err := servers.Get(ctx, c.compute, s.ID).Extract(); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("after its delete: %v, want 404", err)
	}
	if err := images.Delete(ctx, c.image, image.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if left, err := c.cloud.Inventory(); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
