//go:build integration

package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestImportedServerServesZuul adopts a server with Nodepool's metadata. Zuul receives it as a node, and npctl deletes the
// server after the use.
func TestImportedServerServesZuul(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	theirs := c.addServer("np0000000012", map[string]string{"nodepool_provider_name": "one", "nodepool_node_id": "0000000012"})
	other := c.addServer("somebody", nil)
	m := newMachine(t, zk, "A", openstackProvider("one", 8, 100, "common")+fmt.Sprintf(`
import {
  to    = provider.one.pool.main.label.common
  id    = %q
  state = "ready"
}
`, theirs), c)
	if out, err := m.command("plan").CombinedOutput(); err != nil || !strings.Contains(string(out), "1 to import, 0 to delete.") ||
		!strings.Contains(string(out), "Nodepool, provider one, ID 0000000012") {
		t.Fatalf("plan: %v\n%s", err, out)
	}
	m.start()
	testutil.Await(t, "the server has our tags", func() bool { return c.servers()[theirs] != "" })
	l := newLoad(t, newZuul(t, zk.Env), 1, common, c)
	ctx := t.Context()
	id, err := l.request(ctx, wanted{labels: []string{"common"}})
	testutil.Must(t, err)
	a, err := l.wait(ctx, id)
	testutil.Must(t, err)
	held, err := l.accept(ctx, id, a.Nodes)
	testutil.Must(t, err)
	var external string
	testutil.Must(t, json.Unmarshal(held[0].ExternalID, &external))
	if len(held) != 1 || external != theirs {
		t.Fatalf("the request has the nodes %+v, want server %s", held, theirs)
	}
	testutil.Must(t, l.state(ctx, held[0], "in-use"))
	testutil.Must(t, errors.Join(l.state(ctx, held[0], "used"), l.unlock(ctx, held[0])))
	testutil.Await(t, "the imported server is deleted", func() bool { _, is := c.servers()[theirs]; return !is })
	if _, is := c.servers()[other]; !is {
		t.Error("a server that no import names was deleted")
	}
	if out, err := m.command("plan").CombinedOutput(); err != nil || !strings.Contains(string(out), "No changes.") {
		t.Errorf("plan after the use: %v\n%s", err, out)
	}
}

// addServer creates a server without npctl and waits until it runs.
func (c *cloud) addServer(name string, metadata map[string]string) string {
	c.t.Helper()
	ctx := c.t.Context()
	account, region := cloudlab.Account(c.t, c.Cloud)
	compute, err := openstack.NewComputeV2(account, region)
	c.must(err)
	image, err := openstack.NewImageV2(account, region)
	c.must(err)
	network, err := openstack.NewNetworkV2(account, region)
	c.must(err)
	page := func(pager pagination.Pager) pagination.Page {
		c.t.Helper()
		all, err := pager.AllPages(ctx)
		c.must(err)
		return all
	}
	debian, err := images.ExtractImages(page(images.List(image, images.ListOpts{Name: "debian"})))
	c.must(err)
	private, err := networks.ExtractNetworks(page(networks.List(network, networks.ListOpts{Name: "private"})))
	c.must(err)
	sizes, err := flavors.ExtractFlavors(page(flavors.ListDetail(compute, nil)))
	c.must(err)
	small := slices.IndexFunc(sizes, func(f flavors.Flavor) bool { return f.Name == "small" })
	made, err := servers.Create(ctx, compute, servers.CreateOpts{Name: name, ImageRef: debian[0].ID, FlavorRef: sizes[small].ID, Metadata: metadata,
		Networks: []servers.Network{{UUID: private[0].ID}}}, nil).Extract()
	c.must(err)
	testutil.Await(c.t, "server "+name+" runs", func() bool {
		s, err := servers.Get(ctx, compute, made.ID).Extract()
		return err == nil && s.Status == "ACTIVE"
	})
	return made.ID
}
