package emulator

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/npctl/npctl/internal/testutil"
)

// clock returns a clock that advances by one second with each call.
func clock() func() time.Time {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func TestEveryListHasPages(t *testing.T) {
	c := connect(t, Options{PageLimit: 3, Now: clock(), BuildTime: time.Millisecond})
	image := c.uploaded(t, "image-0", []byte("x")).ID
	var want struct{ servers, images, volumes []string }
	want.images = []string{"image-0"}
	for i := range 7 {
		name := fmt.Sprintf("node-%d", i)
		if _, err := c.asked(t, image, name); err != nil {
			t.Fatal(err)
		}
		want.servers = append([]string{name}, want.servers...)
		name = fmt.Sprintf("volume-%d", i)
		if _, err := volumes.Create(t.Context(), c.volume, volumes.CreateOpts{Size: 1, Name: name}, nil).Extract(); err != nil {
			t.Fatal(err)
		}
		want.volumes = append([]string{name}, want.volumes...)
		name = fmt.Sprintf("image-%d", i+1)
		c.uploaded(t, name, []byte("x"))
		want.images = append([]string{name}, want.images...)
	}
	c.cloud.ResetCalls()
	if diff := cmp.Diff(want.servers, c.listed(t)); diff != "" {
		t.Errorf("servers, newest first (-want +got):\n%s", diff)
	}
	if n := c.cloud.Calls()["server.list"]; n != 3 {
		t.Errorf("%d calls for 7 servers in pages of 3, want 3", n)
	}
	var got []string
	pages, err := images.List(c.image, images.ListOpts{}).AllPages(t.Context())
	testutil.Must(t, err)
	all, _ := images.ExtractImages(pages)
	for _, i := range all {
		got = append(got, i.Name)
	}
	if diff := cmp.Diff(want.images, got); diff != "" {
		t.Errorf("images, newest first (-want +got):\n%s", diff)
	}
	got = nil
	pages, err = volumes.List(c.volume, volumes.ListOpts{}).AllPages(t.Context())
	testutil.Must(t, err)
	vols, _ := volumes.ExtractVolumes(pages)
	for _, v := range vols {
		got = append(got, v.Name)
	}
	if diff := cmp.Diff(want.volumes, got); diff != "" {
		t.Errorf("volumes, newest first (-want +got):\n%s", diff)
	}
	pages, err = ports.List(c.network, ports.ListOpts{Limit: 2}).AllPages(t.Context())
	testutil.Must(t, err)
	if some, err := ports.ExtractPorts(pages); err != nil || len(some) != 7 {
		t.Errorf("%d ports in pages of 2, %v; want 7", len(some), err)
	}
	pages, err = flavors.ListDetail(c.compute, flavors.ListOpts{Limit: 1}).AllPages(t.Context())
	testutil.Must(t, err)
	if some, err := flavors.ExtractFlavors(pages); err != nil || len(some) != 4 {
		t.Errorf("%d flavors in pages of 1, %v; want 4", len(some), err)
	}
}

// The marker of a list of servers must exist.
func TestServerThatIsMarkerMayNotBeUnknown(t *testing.T) {
	c := connect(t, Options{})
	_, err := c.compute.Get(t.Context(), c.compute.ServiceURL("servers")+"?marker=nosuch", nil, nil)
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Errorf("%v, want 400", err)
	}
}

func TestServersAreFoundByFilters(t *testing.T) {
	c := connect(t, Options{Now: clock(), BuildTime: time.Nanosecond})
	c.compute.Microversion = "2.93"
	image := c.uploaded(t, "tiny", []byte("x")).ID
	for i, name := range []string{"web-1", "web-2", "db-1"} {
		_, err := servers.Create(t.Context(), c.compute, servers.CreateOpts{
			Name: name, ImageRef: image, FlavorRef: flavorID([]string{"small", "medium"}[i%2]), AvailabilityZone: []string{"az1", "az2"}[i%2],
			Networks: []servers.Network{{UUID: stableID("network/private")}}, Tags: []string{"ci", name},
		}, nil).Extract()
		testutil.Must(t, err)
	}
	for query, want := range map[string][]string{
		"name=web":                                   {"web-2", "web-1"},
		"name=^web-1$":                               {"web-1"},
		"status=active":                              {"db-1", "web-2", "web-1"},
		"status=ERROR":                               {},
		"flavor=" + flavorID("medium"):               {"web-2"},
		"tags=ci,db-1":                               {"db-1"},
		"tags-any=db-1,web-2":                        {"db-1", "web-2"},
		"not-tags=web-1":                             {"db-1", "web-2"},
		"not-tags-any=web-1,db-1":                    {"web-2"},
		"availability_zone=az2":                      {"web-2"},
		"ip=127.77.0.2$":                             {"web-1"},
		"sort_key=display_name&sort_dir=asc":         {"db-1", "web-1", "web-2"},
		"sort_key=display_name&sort_dir=asc&limit=2": {"db-1", "web-1"},
		"nosuchfilter=x":                             {"db-1", "web-2", "web-1"},
		"changes-since=2036-01-01":                   {},
	} {
		var body struct{ Servers []struct{ Name string } }
		_, err := c.compute.Get(t.Context(), c.compute.ServiceURL("servers", "detail")+"?"+query, &body, nil)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		got := []string{}
		for _, s := range body.Servers {
			got = append(got, s.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestImagesAreFoundByFilters(t *testing.T) {
	c := connect(t, Options{Now: clock()})
	for _, name := range []string{"a", "b", "c"} {
		c.uploaded(t, name, []byte("content of "+name))
	}
	for query, want := range map[string][]string{
		"name=b":                              {"b"},
		"name=in:a,c":                         {"c", "a"},
		"tag=test":                            {"c", "b", "a"},
		"tag=test&tag=nosuch":                 {},
		"os_distro=debian":                    {"c", "b", "a"},
		"os_distro=other":                     {},
		"status=active":                       {"c", "b", "a"},
		"visibility=public":                   {},
		"owner=" + hexID("project/"+User):     {"c", "b", "a"},
		"sort=name:asc":                       {"a", "b", "c"},
		"sort_key=name&sort_dir=desc&limit=2": {"c", "b"},
		"size_min=100":                        {},
		"created_at=gte:2026-01-01T00:00:00Z": {"c", "b", "a"},
	} {
		var body struct{ Images []struct{ Name string } }
		_, err := c.image.Get(t.Context(), c.image.ServiceURL("images")+"?"+query, &body, nil)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		got := []string{}
		for _, i := range body.Images {
			got = append(got, i.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}
