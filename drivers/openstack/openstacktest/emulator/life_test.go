package emulator

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/npctl/npctl/internal/testutil"
)

// raw returns a server as JSON, including fields that gophercloud's type lacks.
func (c *client) raw(t testing.TB, id string) map[string]any {
	t.Helper()
	var body struct {
		Server map[string]any `json:"server"`
	}
	_, err := c.compute.Get(t.Context(), c.compute.ServiceURL("servers", id), &body, nil)
	testutil.Must(t, err)
	return body.Server
}

func (c *client) state(t testing.TB, id string) string {
	t.Helper()
	s := c.raw(t, id)
	task, _ := s["OS-EXT-STS:task_state"].(string)
	return s["status"].(string) + " " + task
}

func (c *client) gone(t testing.TB, id string) bool {
	t.Helper()
	_, err := servers.Get(t.Context(), c.compute, id).Extract()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Fatal(err)
	}
	return err != nil
}

// asleep calls fn in a synctest bubble, with fake time.
func asleep(t *testing.T, fn func(t *testing.T)) { synctest.Test(t, fn) }

func TestServerTakesItsTime(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{BuildTime: 20 * time.Second, DeleteTime: 4 * time.Second})
		s, err := c.asked(t, c.uploaded(t, "tiny", []byte("x")).ID, "node")
		testutil.Must(t, err)
		var got []string
		look := func(wait time.Duration) {
			time.Sleep(wait)
			got = append(got, c.state(t, s.ID))
		}
		look(0)
		if addresses := c.server(t, s.ID).Addresses; len(addresses) != 0 {
			t.Errorf("addresses %v before the server has a host", addresses)
		}
		look(6 * time.Second)
		look(13 * time.Second)
		look(time.Second)
		testutil.Must(t, servers.Delete(t.Context(), c.compute, s.ID).ExtractErr())
		look(3 * time.Second)
		time.Sleep(time.Second)
		want := []string{"BUILD scheduling", "BUILD spawning", "BUILD spawning", "ACTIVE ", "ACTIVE deleting"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		if !c.gone(t, s.ID) {
			t.Error("the server is still there")
		}
	})
}

func TestServerDeletedWhileItIsBuiltNeverBecomesActive(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{BuildTime: 10 * time.Second, DeleteTime: 30 * time.Second})
		s, err := c.asked(t, c.uploaded(t, "tiny", []byte("x")).ID, "node")
		testutil.Must(t, err)
		testutil.Must(t, servers.Delete(t.Context(), c.compute, s.ID).ExtractErr())
		time.Sleep(20 * time.Second)
		if got := c.state(t, s.ID); got != "BUILD deleting" {
			t.Errorf("state %q", got)
		}
		time.Sleep(10 * time.Second)
		if !c.gone(t, s.ID) {
			t.Error("the server is still there")
		}
	})
}

func TestServerWithoutHostHasFaultOfNova(t *testing.T) {
	c := connect(t, Options{})
	s, err := servers.Create(t.Context(), c.compute, servers.CreateOpts{
		Name: "x", ImageRef: c.uploaded(t, "tiny", []byte("x")).ID, FlavorRef: flavorID("toobig"),
		Networks: []servers.Network{{UUID: stableID("network/private")}},
	}, nil).Extract()
	testutil.Must(t, err)
	seen := c.raw(t, s.ID)
	fault, _ := seen["fault"].(map[string]any)
	if seen["status"] != "ERROR" || fault["message"] != "No valid host was found. " || fault["code"] != json.Number("500") {
		t.Errorf("server is %v with fault %#v", seen["status"], fault)
	}
	if all := c.things(t, "port"); len(all) != 0 {
		t.Errorf("ports %v of a server that never got any", all)
	}
}

// things lists the objects of a type.
func (c *client) things(t testing.TB, kind string) []Thing {
	t.Helper()
	all, err := c.cloud.Inventory()
	testutil.Must(t, err)
	var of []Thing
	for _, one := range all {
		if one.Type == kind {
			of = append(of, one)
		}
	}
	return of
}

func (c *client) portOf(t testing.TB, server string) ports.Port {
	t.Helper()
	pages, err := ports.List(c.network, ports.ListOpts{DeviceID: server}).AllPages(t.Context())
	testutil.Must(t, err)
	all, err := ports.ExtractPorts(pages)
	if err != nil || len(all) != 1 {
		t.Fatalf("ports of server: %v, %v", all, err)
	}
	return all[0]
}

func TestFloatingIPShowsInAddressesLaterAndOutlivesItsServer(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{AddressTime: 5 * time.Second})
		s, err := c.asked(t, c.uploaded(t, "tiny", []byte("x")).ID, "node")
		testutil.Must(t, err)
		ip, err := floatingips.Create(t.Context(), c.network, floatingips.CreateOpts{
			FloatingNetworkID: stableID("network/public"), PortID: c.portOf(t, s.ID).ID, Description: "mine",
		}).Extract()
		if err != nil || ip.Status != "ACTIVE" {
			t.Fatalf("floating IP %+v, %v", ip, err)
		}
		count := func() int { return len(c.server(t, s.ID).Addresses["private"].([]any)) }
		if n := count(); n != 1 {
			t.Errorf("%d addresses at once, want 1", n)
		}
		time.Sleep(5 * time.Second)
		if n := count(); n != 2 {
			t.Errorf("%d addresses later, want 2", n)
		}
		testutil.Must(t, servers.Delete(t.Context(), c.compute, s.ID).ExtractErr())
		if ip, err = floatingips.Get(t.Context(), c.network, ip.ID).Extract(); err != nil || ip.PortID != "" || ip.Status != "DOWN" {
			t.Errorf("after its server: %+v, %v", ip, err)
		}
	})
}

func TestImageIsSavedBeforeItIsActive(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{ImageTime: time.Minute})
		i := c.uploaded(t, "tiny", []byte("x"))
		if i.Status != images.ImageStatusSaving {
			t.Errorf("status %s", i.Status)
		}
		if _, err := c.asked(t, i.ID, "early"); !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
			t.Errorf("server of an image that is not active: %v, want 400", err)
		}
		time.Sleep(time.Minute)
		if i, err := images.Get(t.Context(), c.image, i.ID).Extract(); err != nil || i.Status != images.ImageStatusActive {
			t.Errorf("later: %v, %v", i, err)
		}
	})
}

func TestExpiredTokenIsRefusedAndRenewed(t *testing.T) {
	asleep(t, func(t *testing.T) {
		c := connect(t, Options{TokenTTL: time.Minute})
		old := c.provider.Token()
		time.Sleep(2 * time.Minute)
		if _, err := servers.List(c.compute, nil).AllPages(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.provider.Token() == old || c.cloud.Calls()["token.create"] != 2 {
			t.Errorf("%d logins", c.cloud.Calls()["token.create"])
		}
	})
}
