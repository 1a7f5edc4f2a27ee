//go:build integration

package watch

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/cloudlab"
)

// project is the cloud of the provider of the same name. Tests see its objects without the faults that affect listings.
type project struct {
	*cloudlab.Served
	t       *testing.T
	foreign map[string]emulator.Thing // foreign objects, by ID
}

// newProject serves the cloud of a provider until the end of the test.
func newProject(t *testing.T, provider string, o emulator.Options) *project {
	t.Helper()
	return &project{Served: cloudlab.Serve(t, provider, o), t: t}
}

func (p *project) things() []emulator.Thing {
	p.t.Helper()
	things, err := p.Inventory()
	if err != nil {
		p.t.Error(err)
	}
	return things
}

// mark identifies the owner of an object.
type mark struct{ installation, kind, id, pool string }

func markOf(t emulator.Thing) mark {
	m := mark{installation: t.Metadata["npctl_installation"], pool: t.Metadata["npctl_pool"]}
	for _, kind := range []string{"node", "upload", "build"} { // a snapshot has the ownership tags of its build besides those of its base
		if id := t.Metadata["npctl_"+kind+"_id"]; id != "" {
			m.kind, m.id = kind, id
		}
	}
	if query, ok := strings.CutPrefix(t.Text, "npctl:"); ok {
		if values, err := url.ParseQuery(query); err == nil {
			m = mark{values.Get("installation"), values.Get("kind"), values.Get("id"), values.Get("pool")}
		}
	}
	return m
}

// ours lists the objects of an installation.
func (p *project) ours(installation string) (list []emulator.Thing) {
	p.t.Helper()
	for _, thing := range p.things() {
		if markOf(thing).installation == installation {
			list = append(list, thing)
		}
	}
	return list
}

// plant creates foreign objects of every type, some of which resemble npctl's.
func (p *project) plant() {
	p.t.Helper()
	before := map[string]bool{}
	for _, thing := range p.things() {
		before[thing.ID] = true
	}
	another := map[string]string{"npctl_installation": "00000000-0000-4000-8000-000000000000", "npctl_node_id": "0000000001"}
	for _, server := range []emulator.ForeignServer{{Name: "np0000000001"}, {Name: "np0000000002", Metadata: another}} {
		if _, err := p.AddServer(server); err != nil {
			p.t.Fatal(err)
		}
	}
	p.plantByHand("npctl:" + url.Values{"installation": {another["npctl_installation"]}, "kind": {"node"}, "id": {"0000000001"}}.Encode())
	p.foreign = map[string]emulator.Thing{}
	for _, thing := range p.things() {
		if !before[thing.ID] {
			p.foreign[thing.ID] = thing
		}
	}
	if len(p.foreign) < 8 {
		p.t.Fatalf("planted are only %v", p.foreign)
	}
}

// plantByHand creates objects as a person with an OpenStack client does.
func (p *project) plantByHand(text string) {
	p.t.Helper()
	ctx := p.t.Context()
	account, in := cloudlab.Account(p.t, p.Cloud)
	network, err := openstack.NewNetworkV2(account, in)
	p.must(err)
	page, err := networks.List(network, nil).AllPages(ctx)
	p.must(err)
	known, err := networks.ExtractNetworks(page)
	p.must(err)
	for _, n := range known {
		switch n.Name {
		case "private":
			for _, description := range []string{text, ""} {
				_, err := ports.Create(ctx, network, ports.CreateOpts{NetworkID: n.ID, Name: "np0000000001", Description: description}).Extract()
				p.must(err)
			}
		case "public":
			_, err := floatingips.Create(ctx, network, floatingips.CreateOpts{FloatingNetworkID: n.ID, Description: text}).Extract()
			p.must(err)
		}
	}
	image, err := openstack.NewImageV2(account, in)
	p.must(err)
	made, err := images.Create(ctx, image, images.CreateOpts{Name: "debian-1700000000", DiskFormat: "raw", ContainerFormat: "bare", Tags: []string{"npctl"},
		Properties: map[string]string{"npctl_installation": "00000000-0000-4000-8000-000000000000", "npctl_upload_id": "0000000001"}}).Extract()
	p.must(err)
	p.must(imagedata.Upload(ctx, image, made.ID, strings.NewReader("theirs")).ExtractErr())
	volume, err := openstack.NewBlockStorageV3(account, in)
	p.must(err)
	_, err = volumes.Create(ctx, volume, volumes.CreateOpts{Size: 1, Name: "theirs", Metadata: map[string]string{"npctl_node_id": "0000000001"}}, nil).Extract()
	p.must(err)
}

func (p *project) must(err error) {
	p.t.Helper()
	testutil.Must(p.t, err)
}

// changed describes how the foreign objects differ from their original state.
func (p *project) changed() string {
	p.t.Helper()
	now := map[string]emulator.Thing{}
	for _, thing := range p.things() {
		if _, theirs := p.foreign[thing.ID]; theirs {
			now[thing.ID] = thing
		}
	}
	return cmp.Diff(p.foreign, now)
}
