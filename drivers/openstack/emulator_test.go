package openstack_test

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	gopheropenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/test/sshserver"
)

// offer returns the attributes of a small server in the network private, with some attributes set.
func offer(attributes map[string]cty.Value) cty.Value {
	values := openstack.SharedSchema().Label.Null().AsValueMap()
	values["flavor"], values["networks"] = cty.StringVal("small"), cty.ListVal([]cty.Value{cty.StringVal("private")})
	maps.Copy(values, attributes)
	return cty.ObjectVal(values)
}

// uploaded uploads a bootable image and returns its ID.
func uploaded(t *testing.T, c drivers.Cloud) string {
	t.Helper()
	store, _ := drivers.ImagesOf(c)
	content := []byte("an image")
	image, err := store.UploadImage(t.Context(), drivers.ImageSpec{
		Marks: resources.OwnerTags{Installation: "setup", Kind: resources.KindUpload, ID: "1"}, Name: "setup", Format: "raw", Size: int64(len(content)),
	}, bytes.NewReader(content))
	testutil.Must(t, err)
	return image.ID
}

// world is an emulator with the openstack driver.
type world struct {
	*emulator.Cloud
	lasting []emulator.Fault // for the whole test
	calls   atomic.Int64
	wrap    func(http.RoundTripper) http.RoundTripper
}

func newWorld(t *testing.T, o emulator.Options) *world {
	t.Helper()
	w := &world{lasting: o.Faults}
	w.Cloud = cloudlab.New(t, o, "emulator").Clouds["emulator"]
	w.wrap = func(next http.RoundTripper) http.RoundTripper {
		return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
			w.calls.Add(1)
			return next.RoundTrip(r)
		})
	}
	return w
}

// brisk is a cloud with short delays.
func brisk() emulator.Options {
	return emulator.Options{BuildTime: 20 * time.Millisecond, DeleteTime: 10 * time.Millisecond}
}

// open opens the driver. wrap may intercept its calls.
func (w *world) open(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
	t.Helper()
	lab := cloudlab.Driver{Clouds: map[string]*emulator.Cloud{"emulator": w.Cloud}}
	c, err := lab.Open(t.Context(), drivers.Env{Provider: "emulator", WrapTransport: wrap}, cty.NilVal)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// fail injects faults beside the lasting ones.
func (w *world) fail(t *testing.T, faults ...emulator.Fault) {
	t.Helper()
	testutil.Must(t, w.SetFaults(append(w.lasting[:len(w.lasting):len(w.lasting)], faults...)...))
}

func (w *world) setup(t *testing.T, label map[string]cty.Value) drivertest.Setup {
	t.Helper()
	c := w.open(t, w.wrap)
	_, floating := label["auto_floating_ip"]
	users := w.others(t)
	return drivertest.Setup{
		Lacks: []string{"access"}, Spoil: w.spoil(users, floating),
		Kill: w.kill, Objects: users.Objects,
		Neighbours: func(t *testing.T, node drivers.Spec, upload drivers.ImageSpec) []drivertest.Foreign {
			return users.Neighbours(t, node, upload, "small")
		},
		Omits: drivertest.NotCreated(map[string]string{"Exhaust": "an offer has one flavor"}, openstacktest.NoLeftovers...), Secrets: []string{"a-wrong-password"},
		OpenWrong: func(t *testing.T) error {
			lab := cloudlab.Driver{Clouds: map[string]*emulator.Cloud{"emulator": w.Cloud}}
			lab.Connecting = func(_ string, at *openstack.Endpoint) { at.Password = "a-wrong-password" }
			_, err := lab.Open(t.Context(), drivers.Env{Provider: "emulator"}, cty.NilVal)
			return err
		},
		FromCatalogue: func(names resources.Catalogue) (drivers.Resolver, error) {
			return openstack.New().ResolverOf(cty.NilVal, names)
		},
		Cloud: c, Reopen: func(t *testing.T) drivers.Cloud { return w.open(t, w.wrap) }, Config: offer(label), ImageID: uploaded(t, c), Zone: "az2",
		Rejected: map[string]func(*drivers.Spec){
			"unknown image": func(s *drivers.Spec) { s.ImageID = "00000000-0000-4000-8000-00000000dead" },
			"unknown zone":  func(s *drivers.Spec) { s.Zone = "mars" },
			"unknown flavor": func(s *drivers.Spec) {
				s.Config = offer(map[string]cty.Value{"flavor": cty.StringVal("smal")})
			},
			"unknown key": func(s *drivers.Spec) { s.Config = offer(map[string]cty.Value{"key_name": cty.StringVal("nokey")}) },
			"long key":    func(s *drivers.Spec) { s.Properties = map[string]string{strings.Repeat("x", 256): "a"} },
		},
		BadOffers: map[string]drivertest.BadOffer{
			"flavor":  {Config: offer(map[string]cty.Value{"flavor": cty.StringVal("smal")}), Attribute: "flavor", Near: "small"},
			"network": {Config: offer(map[string]cty.Value{"networks": cty.ListVal([]cty.Value{cty.StringVal("privat")})}), Attribute: "networks", Near: "private"},
			"zone": {Config: offer(map[string]cty.Value{"availability_zones": cty.ListVal([]cty.Value{cty.StringVal("az3")})}),
				Attribute: "availability_zones", Near: "az1"},
		},
		Withdraw: func(t *testing.T) {
			rejected := emulator.Fault{Action: emulator.Answer, Status: http.StatusUnauthorized, Times: 1}
			create, list := rejected, rejected
			create.Operation, list.Operation = "server.create", "server.list"
			w.fail(t, create, list)
		},
		FillQuota:    w.fillQuota,
		Foreign:      w.foreign,
		ForeignImage: users.ForeignImage,
		Attach:       users.Attach,
		Copies: func(t *testing.T, kind resources.Kind, original string) []drivertest.Foreign {
			return users.Copies(t, kind == resources.KindUpload, original, "small")
		},
		Leftovers: users.Leftovers(w.foreign),
		LoseNextAnswer: func(t *testing.T) {
			w.fail(t, emulator.Fault{Operation: "server.create", Action: emulator.LostAfter, Times: 1})
		},
		NoSnapshot: offer(map[string]cty.Value{"boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(20)}),
		Damage: func(t *testing.T, how string) {
			action := map[string]emulator.Action{"cut": emulator.Truncate, "changed": emulator.Corrupt}[how]
			w.fail(t, emulator.Fault{Operation: "image.download", Action: action, Times: 1})
		},
		Calls: func() int { return int(w.calls.Load()) }, Alone: true, Settle: 10 * time.Second,
		ImageSize: 1 << 18,
	}
}

func (w *world) foreign(t *testing.T) string {
	t.Helper()
	id, err := w.AddServer(emulator.ForeignServer{Name: "somebody-elses"})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = w.Remove(id) })
	return id
}

// others returns a project through which tests act like other users of the cloud.
func (w *world) others(t *testing.T) *openstacktest.Project {
	t.Helper()
	account, at := cloudlab.Account(t, w.Cloud)
	p := &openstacktest.Project{Settle: 10 * time.Second}
	for _, one := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&p.Compute, gopheropenstack.NewComputeV2}, {&p.Image, gopheropenstack.NewImageV2}, {&p.Network, gopheropenstack.NewNetworkV2},
		{&p.Volume, gopheropenstack.NewBlockStorageV3},
	} {
		client, err := one.make(account, at)
		testutil.Must(t, err)
		*one.to = client
	}
	return p
}

// spoil are the ways to make a server unusable.
func (w *world) spoil(users *openstacktest.Project, floating bool) map[string]func(*testing.T, resources.Instance) {
	all := users.Spoil(floating)
	for _, status := range []string{"PAUSED", "SUSPENDED", "SHELVED_OFFLOADED", "RESCUE", "ERROR", "REBOOT"} {
		all[status] = func(t *testing.T, i resources.Instance) { testutil.Must(t, w.SetServerStatus(i.ID, status, "")) }
	}
	return all
}

func (w *world) fillQuota(t *testing.T) {
	t.Helper()
	q := emulator.DefaultQuota()
	q.Instances = 0
	testutil.Must(t, w.SetQuota(q))
	t.Cleanup(func() { _ = w.SetQuota(emulator.DefaultQuota()) })
}

func TestContract(t *testing.T) {
	t.Parallel()
	everything := map[string]cty.Value{
		"auto_floating_ip": cty.True, "create_ports": cty.True,
		"config_drive": cty.True, "userdata": cty.StringVal("#cloud-config"), "tags": cty.ListVal([]cty.Value{cty.StringVal("ci")}),
	}
	onVolume := maps.Clone(everything)
	byItself := []string{"Instances", "Adopter"}
	maps.Copy(onVolume, map[string]cty.Value{"boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(20)})
	for name, one := range map[string]struct {
		label  map[string]cty.Value
		groups []string
	}{
		"Plain":      {},
		"Everything": {onVolume, []string{"Instances", "Images", "Resolver", "Sweeper", "Console", "Errors", "Adopter"}},
		"Snapshots":  {everything, []string{"Snapshots"}},
		"FloatingIP": {map[string]cty.Value{"auto_floating_ip": cty.True}, byItself},
		"Ports":      {map[string]cty.Value{"create_ports": cty.True}, byItself},
		"Volume":     {map[string]cty.Value{"boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(20)}, byItself},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup { return newWorld(t, brisk()).setup(t, one.label) }, one.groups...)
		})
	}
}

// Decorators affect a stream that outlives its call, so the snapshot tests also run on a decorated Cloud.
func TestSnapshotsWorkThroughDecorators(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		s := newWorld(t, brisk()).setup(t, nil)
		s.Cloud = drivers.Decorate(s.Cloud, drivers.DecorateOptions{Attempts: 1})
		return s
	}, "Snapshots")
}

// The contract also holds on a slow cloud with stale lists and late addresses.
func TestContractOnSlowCloud(t *testing.T) {
	t.Parallel()
	o := brisk()
	o.AddressTime, o.ImageTime = 15*time.Millisecond, 15*time.Millisecond
	for _, operation := range []string{"server.create", "server.delete", "image.delete"} {
		o.Faults = append(o.Faults, emulator.Fault{Operation: operation, Action: emulator.LateListing, Delay: 15 * time.Millisecond})
	}
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		s := newWorld(t, o).setup(t, map[string]cty.Value{"auto_floating_ip": cty.True})
		s.Kill, s.Omits["Kill"] = nil, "a killed client waits for no list; TestKilledCallsAreRepeated"
		return s
	})
}

// Filters of queries are an optimization: a cloud that ignores them shows objects of others, and none of these is deleted.
func TestContractOnCloudThatIgnoresFilters(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		w := newWorld(t, brisk())
		w.wrap = func(next http.RoundTripper) http.RoundTripper {
			return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				query := r.URL.Query()
				for _, filter := range []string{"description", "device_id", "name", "tag"} {
					query.Del(filter)
				}
				r.URL.RawQuery = query.Encode()
				return next.RoundTrip(r)
			})
		}
		return w.setup(t, map[string]cty.Value{"auto_floating_ip": cty.True, "create_ports": cty.True})
	}, "Instances", "Adopter", "Images", "Copies")
}

// A plan makes no changing call, also with floating IPs and ports.
func TestContractBesideNeighbours(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		return newWorld(t, brisk()).setup(t, map[string]cty.Value{"auto_floating_ip": cty.True, "create_ports": cty.True})
	}, "Foreign")
}

// A launch or an upload that is interrupted at any call is completed or given up without a remainder, with every kind of object
// that a launch creates.
func TestKilledCallsAreRepeated(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		w := newWorld(t, emulator.Options{BuildTime: 2 * time.Second, DeleteTime: time.Second})
		s := w.setup(t, map[string]cty.Value{"auto_floating_ip": cty.True, "create_ports": cty.True, "boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(20)})
		s.Foreign, s.Omits["Foreign"] = nil, "a released server keeps its port and its floating IP, which are nobody's then; TestContract adopts plain ones"
		return s
	}, "Kills", "ImageKills")
}

// kill opens the driver for a client that k kills.
func (w *world) kill(t *testing.T, k *testutil.Killer) drivers.Cloud {
	t.Helper()
	return w.open(t, func(next http.RoundTripper) http.RoundTripper { return k.Transport(next, openstacktest.ChangeOf) })
}

func TestObjectsOfTheCloudAreUsed(t *testing.T) {
	quota := emulator.DefaultQuota()
	quota.Instances = 3
	w := newWorld(t, emulator.Options{
		Quota: &quota, Flavors: []emulator.Flavor{{Name: "huge", VCPUs: 64, RAM: 1 << 18}},
		Networks: []emulator.Network{{Name: "dual", CIDRs: []string{"127.80.0.0/16", "fd77::/64"}}},
		Foreign:  []emulator.ForeignServer{{Name: "theirs"}, {Name: "beyond", Project: emulator.Other}},
	})
	c := w.open(t, nil)
	found, err := c.Quota(t.Context())
	if err != nil || found.Limit.Instances != 3 || found.Used.Instances != 1 {
		t.Errorf("quota %+v, %v; want 3 servers of which 1 is used", found, err)
	}
	seen, err := c.List(t.Context())
	if err != nil || len(seen) != 1 || seen[0].Name != "theirs" || seen[0].Marks != (resources.OwnerTags{}) {
		t.Errorf("instances %+v, %v; want theirs without marks", seen, err)
	}
	made, err := c.Create(t.Context(), drivers.Spec{
		Marks:    resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "1"},
		Hostname: "np1", ImageID: uploaded(t, c),
		Config: offer(map[string]cty.Value{"flavor": cty.StringVal("huge"), "networks": cty.ListVal([]cty.Value{cty.StringVal("dual")})}),
	})
	testutil.Must(t, err)
	seen, err = c.List(t.Context())
	if err != nil || len(seen) != 2 {
		t.Fatalf("instances %+v, %v", seen, err)
	}
	for _, i := range seen {
		if i.ID == made.ID && (i.Status != resources.StatusReady || i.Addresses.PrivateIPv4 == "" && i.Addresses.PublicIPv4 == "") {
			t.Errorf("instance %+v", i)
		}
	}
}

// active returns a server from List.
func active(t *testing.T, c drivers.Cloud, id string) resources.Instance {
	t.Helper()
	seen, err := c.List(t.Context())
	testutil.Must(t, err)
	for _, i := range seen {
		if i.ID == id && i.Status == resources.StatusReady {
			return i
		}
	}
	t.Fatalf("server %s is not ready among %+v", id, seen)
	return resources.Instance{}
}

func TestFloatingAddressReachesTheServer(t *testing.T) {
	w := newWorld(t, emulator.Options{})
	listener, err := sshserver.Listen(t.Context(), 0)
	testutil.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- emulator.ServeSSH(ctx, listener, w.Cloud) }()
	c := w.open(t, nil)
	floating := offer(map[string]cty.Value{"auto_floating_ip": cty.True})
	made, err := c.Create(t.Context(), drivers.Spec{Marks: resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "1"},
		Hostname: "np1", ImageID: uploaded(t, c), Config: floating})
	testutil.Must(t, err)
	seen, err := c.List(t.Context())
	if err != nil || len(seen) != 1 {
		t.Fatalf("instances %+v, %v", seen, err)
	}
	if _, err := c.Advance(t.Context(), drivers.Spec{Marks: seen[0].Marks, Config: floating}, seen[0]); err != nil {
		t.Fatal(err)
	}
	at := active(t, c, made.ID).Addresses
	scan := func(address string) ([]string, error) {
		port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
		return keyscan.Scan(t.Context(), net.JoinHostPort(address, port), 5*time.Second)
	}
	public, err := scan(at.PublicIPv4)
	testutil.Must(t, err)
	private, err := scan(at.PrivateIPv4)
	testutil.Must(t, err)
	if diff := cmp.Diff(public, private); diff != "" {
		t.Errorf("the floating address and the server's own show different keys (-floating +own):\n%s", diff)
	}
	stop()
	testutil.Must(t, <-ended)
	if _, err := scan(at.PublicIPv4); err == nil {
		t.Error("a server answers although SSH is not served")
	}
}
