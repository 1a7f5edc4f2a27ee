//go:build integration

package lab

// These tests verify that the lab produces the faults that other tests rely on.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/npctl/npctl/internal/testutil"
)

// user is the view of the project npctl on the lab.
type user struct {
	t                         *testing.T
	lab                       *Lab
	compute, network, storage *gophercloud.ServiceClient
	image, flavor             string
	private, public           string
	prefix                    string
}

func connect(t *testing.T) *user {
	t.Helper()
	l, err := Find()
	testutil.Must(t, err)
	t.Cleanup(func() { check(t, l.Clear()) })
	auth, endpoint, tls, err := clouds.Parse(clouds.WithLocations(l.CloudsYAML()), clouds.WithCloudName("npctl"))
	check(t, err)
	p, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
	check(t, err)
	u := &user{t: t, lab: l, prefix: fmt.Sprintf("lab-%d-", time.Now().UnixNano())}
	u.compute, err = openstack.NewComputeV2(p, endpoint)
	check(t, err)
	u.network, err = openstack.NewNetworkV2(p, endpoint)
	check(t, err)
	u.storage, err = openstack.NewBlockStorageV3(p, endpoint)
	check(t, err)
	image, err := openstack.NewImageV2(p, endpoint)
	check(t, err)
	u.image = u.find(image, "images", "images", "tiny")
	u.flavor = u.find(u.compute, "flavors", "flavors", "small")
	u.private = u.find(u.network, "networks", "networks", "private")
	u.public = u.find(u.network, "networks", "networks", "public")
	return u
}

// find returns the ID of the object with the given name in a listing.
func (u *user) find(c *gophercloud.ServiceClient, path, key, name string) string {
	u.t.Helper()
	var body map[string]any
	_, err := c.Get(u.t.Context(), c.ServiceURL(path), &body, nil)
	check(u.t, err)
	objects, _ := body[key].([]any)
	for _, object := range objects {
		if o := object.(map[string]any); o["name"] == name {
			return o["id"].(string)
		}
	}
	u.t.Fatalf("%s: there is no %q", path, name)
	return ""
}

func check(t *testing.T, err error) {
	t.Helper()
	testutil.Must(t, err)
}

func (u *user) create(ctx context.Context, name string) (*servers.Server, error) {
	u.t.Cleanup(func() { u.remove(u.prefix + name) })
	return servers.Create(ctx, u.compute, servers.CreateOpts{
		Name: u.prefix + name, ImageRef: u.image, FlavorRef: u.flavor,
		Networks: []servers.Network{{UUID: u.private}},
	}, nil).Extract()
}

func (u *user) mustCreate(name string) *servers.Server {
	u.t.Helper()
	s, err := u.create(u.t.Context(), name)
	check(u.t, err)
	return s
}

// byName returns all servers with a name.
func (u *user) byName(ctx context.Context, name string) []servers.Server {
	page, err := servers.List(u.compute, servers.ListOpts{Name: name}).AllPages(ctx)
	check(u.t, err)
	all, err := servers.ExtractServers(page)
	check(u.t, err)
	return all
}

func (u *user) remove(name string) {
	ctx := context.Background()
	testutil.Await(u.t, "server "+name+" is gone", func() bool {
		all := u.byName(ctx, name)
		for _, s := range all {
			_ = servers.Delete(ctx, u.compute, s.ID).ExtractErr()
		}
		return len(all) == 0
	})
}

// wait polls a server until as returns true. as receives nil if the server does not exist.
func (u *user) wait(id, what string, as func(*servers.Server) bool) {
	u.t.Helper()
	var s *servers.Server
	testutil.Await(u.t, "the server is "+what, func() bool {
		var err error
		s, err = servers.Get(u.t.Context(), u.compute, id).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			s, err = nil, nil
		}
		check(u.t, err)
		return as(s)
	}, func() string { return fmt.Sprintf("it is %+v", s) })
}

func is(status string) func(*servers.Server) bool {
	return func(s *servers.Server) bool { return s != nil && s.Status == status }
}

func isGone(s *servers.Server) bool { return s == nil }

// unused fails the test unless so many rules have not applied yet.
func (u *user) unused(want int) {
	u.t.Helper()
	if rules, err := u.lab.Unused(); err != nil || len(rules) != want {
		u.t.Errorf("unused rules are %+v, %v, want %d", rules, err, want)
	}
}

func addresses(s *servers.Server) int {
	n := 0
	for _, network := range s.Addresses {
		n += len(network.([]any))
	}
	return n
}

func TestTimedOutCreateCompletesLater(t *testing.T) {
	u := connect(t)
	resume, err := u.lab.Pause("neutron")
	check(t, err)
	defer func() { check(t, resume()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := u.create(ctx, "late"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("create with neutron paused = %v, want a timeout", err)
	}
	if found := u.byName(t.Context(), u.prefix+"late"); len(found) != 0 {
		t.Fatalf("server exists already: %+v", found)
	}
	check(t, resume())
	testutil.Await(t, "the server exists", func() bool { return len(u.byName(t.Context(), u.prefix+"late")) > 0 })
}

func TestAcceptedDeleteFails(t *testing.T) {
	u := connect(t)
	s := u.mustCreate("undead")
	u.wait(s.ID, "ACTIVE", is("ACTIVE"))
	check(t, u.lab.Faults(Rule{On: Destroy, Name: u.prefix + "undead", Times: 1}))
	u.unused(1)
	check(t, servers.Delete(t.Context(), u.compute, s.ID).ExtractErr())
	u.wait(s.ID, "ERROR", is("ERROR"))
	u.unused(0)
	check(t, servers.Delete(t.Context(), u.compute, s.ID).ExtractErr())
	u.wait(s.ID, "gone", isGone)
}

func TestAddressAppearsLate(t *testing.T) {
	u := connect(t)
	check(t, u.lab.Faults(Rule{On: Address, Action: Hang, Name: u.prefix + "*"}))
	s := u.mustCreate("shy")
	u.wait(s.ID, "ACTIVE without an address", func(s *servers.Server) bool {
		return s.Status == "ACTIVE" && addresses(s) == 0
	})
	check(t, u.lab.Clear())
	u.wait(s.ID, "with an address", func(s *servers.Server) bool { return addresses(s) == 1 })
}

func TestFloatingIPAppearsLate(t *testing.T) {
	u := connect(t)
	s := u.mustCreate("float")
	u.wait(s.ID, "with an address", func(s *servers.Server) bool { return s.Status == "ACTIVE" && addresses(s) == 1 })
	check(t, u.lab.Faults(Rule{On: FloatingIP, Action: Hang, Name: u.prefix + "*"}))
	port := u.find(u.network, "ports?device_id="+s.ID, "ports", "")
	ip, err := floatingips.Create(t.Context(), u.network,
		floatingips.CreateOpts{FloatingNetworkID: u.public, PortID: port}).Extract()
	check(t, err)
	defer func() { check(t, floatingips.Delete(context.Background(), u.network, ip.ID).ExtractErr()) }()
	if ip.Status != "ACTIVE" {
		t.Errorf("neutron reports %s, want ACTIVE", ip.Status)
	}
	time.Sleep(time.Second) // without the rule nova has it within half a second
	now, err := servers.Get(t.Context(), u.compute, s.ID).Extract()
	check(t, err)
	if addresses(now) != 1 {
		t.Errorf("addresses = %v, want the floating IP hidden", now.Addresses)
	}
	check(t, u.lab.Clear())
	u.wait(s.ID, "with a floating IP", func(s *servers.Server) bool { return addresses(s) == 2 })
}

func TestSpawnFailsOrHangs(t *testing.T) {
	u := connect(t)
	check(t, u.lab.Faults(
		Rule{On: Spawn, Action: Abort, Name: u.prefix + "broken"},
		Rule{On: Spawn, Action: Hang, Name: u.prefix + "stuck"}))
	broken, stuck := u.mustCreate("broken"), u.mustCreate("stuck")
	u.wait(broken.ID, "ERROR", is("ERROR"))
	if s, err := servers.Get(t.Context(), u.compute, stuck.ID).Extract(); err != nil || s.Status != "BUILD" {
		t.Errorf("stuck server is %+v, %v, want BUILD", s, err)
	}
	check(t, u.lab.Clear())
	u.wait(stuck.ID, "ACTIVE", is("ACTIVE"))
}

func TestQuotaRefusesAndIsRestored(t *testing.T) {
	u := connect(t)
	restore, err := u.lab.Quota(t.Context(), "npctl", map[string]int{Instances: 0})
	check(t, err)
	_, err = u.create(t.Context(), "one-too-many")
	check(t, restore())
	if !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("create above quota = %v, want 403", err)
	}
	s := u.mustCreate("fits")
	u.wait(s.ID, "ACTIVE", is("ACTIVE"))
}

func TestFailedVolumes(t *testing.T) {
	u := connect(t)
	name := u.prefix + "volume"
	check(t, u.lab.Faults(Rule{On: VolumeCreate, Name: name}))
	v, err := volumes.Create(t.Context(), u.storage, volumes.CreateOpts{Name: name, Size: 1}, nil).Extract()
	check(t, err)
	defer func() { check(t, volumes.Delete(context.Background(), u.storage, v.ID, nil).ExtractErr()) }()
	testutil.Await(t, "the volume has failed", func() bool {
		v, err = volumes.Get(t.Context(), u.storage, v.ID).Extract()
		check(t, err)
		return v.Status == "error"
	})
}

func TestPausedComputeDelaysDelete(t *testing.T) {
	u := connect(t)
	s := u.mustCreate("waiting")
	u.wait(s.ID, "ACTIVE", is("ACTIVE"))
	resume, err := u.lab.Pause("nova-compute1", "nova-compute2")
	check(t, err)
	defer func() { check(t, resume()) }()
	check(t, servers.Delete(t.Context(), u.compute, s.ID).ExtractErr())
	u.wait(s.ID, "still there, being deleted", func(s *servers.Server) bool {
		return s != nil && s.TaskState == "deleting"
	})
	check(t, resume())
	u.wait(s.ID, "gone", isGone)
	left, err := ports.List(u.network, ports.ListOpts{DeviceID: s.ID}).AllPages(t.Context())
	check(t, err)
	if found, err := ports.ExtractPorts(left); err != nil || len(found) != 0 {
		t.Errorf("ports left: %v, %v", found, err)
	}
}
