//go:build integration

package share

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
)

// cloud is an OpenStack that all processes use through HTTP, and that outlives them.
type cloud struct {
	t    *testing.T
	name string
	*emulator.Cloud
	yaml string // file
}

// newCloud serves a cloud with an image called debian until the test ends.
func newCloud(t *testing.T, name string, options emulator.Options) *cloud {
	t.Helper()
	made, err := emulator.Open(options)
	testutil.Must(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := emulator.Serve(ctx, listener, made); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); _ = made.Close(); serving.Wait() })
	c := &cloud{t: t, name: name, Cloud: made, yaml: filepath.Join(t.TempDir(), "clouds.yaml")}
	text := emulator.CloudsYAML(emulator.AuthURL(listener.Addr()))
	testutil.WriteFile(t, c.yaml, text)
	c.addImage()
	return c
}

func (c *cloud) addImage() {
	c.t.Helper()
	ctx, account := c.t.Context(), c.account()
	client, err := openstack.NewImageV2(account, gophercloud.EndpointOpts{Region: c.Access().Region})
	c.must(err)
	made, err := images.Create(ctx, client, images.CreateOpts{Name: "debian", DiskFormat: "raw", ContainerFormat: "bare"}).Extract()
	c.must(err)
	c.must(imagedata.Upload(ctx, client, made.ID, bytes.NewReader([]byte("debian"))).ExtractErr())
}

// account returns an authenticated client of the cloud.
func (c *cloud) account() *gophercloud.ProviderClient {
	c.t.Helper()
	access := c.Access()
	account, err := openstack.NewClient(access.AuthURL)
	c.must(err)
	account.HTTPClient = http.Client{Transport: c.Transport()}
	c.must(openstack.Authenticate(c.t.Context(), account, gophercloud.AuthOptions{IdentityEndpoint: access.AuthURL, Username: access.Username,
		Password: access.Password, TenantName: access.Project, DomainName: access.Domain}))
	return account
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
