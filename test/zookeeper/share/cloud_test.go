//go:build integration

package share

import (
	"bytes"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/cloudlab"
)

// cloud is an OpenStack that all processes use through HTTP, and that outlives them.
type cloud struct {
	t    *testing.T
	name string
	*cloudlab.Served
}

// newCloud serves a cloud with an image called debian until the test ends.
func newCloud(t *testing.T, name string, options emulator.Options) *cloud {
	t.Helper()
	c := &cloud{t, name, cloudlab.Serve(t, emulator.Entry, options)}
	c.addImage()
	return c
}

func (c *cloud) addImage() {
	c.t.Helper()
	account, at := cloudlab.Account(c.t, c.Cloud)
	client, err := openstack.NewImageV2(account, at)
	c.must(err)
	made, err := images.Create(c.t.Context(), client, images.CreateOpts{Name: "debian", DiskFormat: "raw", ContainerFormat: "bare"}).Extract()
	c.must(err)
	c.must(imagedata.Upload(c.t.Context(), client, made.ID, bytes.NewReader([]byte("debian"))).ExtractErr())
}

func (c *cloud) must(err error) {
	c.t.Helper()
	testutil.Must(c.t, err)
}

// servers returns the servers by ID, each with the node in its ownership tags.
func (c *cloud) servers() map[string]string {
	things, err := c.Inventory()
	if err != nil {
		c.t.Error(err)
	}
	servers := map[string]string{}
	for _, thing := range things {
		if thing.Type == "server" {
			servers[thing.ID] = thing.Metadata["npctl_node_id"]
		}
	}
	return servers
}

// quick is a cloud with short delays.
var quick = emulator.Options{BuildTime: 300 * time.Millisecond, DeleteTime: 200 * time.Millisecond}
