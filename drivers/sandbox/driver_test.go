package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"path/filepath"
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
	"github.com/npctl/npctl/drivers/sandbox"
	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/internal/sandboxssh"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// driver returns the sandbox driver as cmd/npctl creates it.
func driver() *sandbox.Driver {
	return sandbox.New(openstack.SharedSchema(), func(ctx context.Context, env drivers.Env, at sandbox.Endpoint, config cty.Value) (drivers.Cloud, error) {
		return openstack.Connect(ctx, env, openstack.Endpoint(at), config)
	})
}

// object returns a body of the given schema type with some attributes set.
func object(body cty.Value, attributes map[string]cty.Value) cty.Value {
	values := body.AsValueMap()
	maps.Copy(values, attributes)
	return cty.ObjectVal(values)
}

func providerConfig(attributes map[string]cty.Value) cty.Value {
	return object(driver().Schema().Provider.Null(), attributes)
}

func offer(attributes map[string]cty.Value) cty.Value {
	return object(object(driver().Schema().Label.Null(), map[string]cty.Value{
		"flavor": cty.StringVal("small"), "networks": cty.ListVal([]cty.Value{cty.StringVal("private")}),
	}), attributes)
}

func open(t *testing.T, dir string, attributes map[string]cty.Value) drivers.Cloud {
	t.Helper()
	c, err := driver().Open(t.Context(), drivers.Env{Provider: "sandbox", Dir: dir}, providerConfig(attributes))
	testutil.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
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

// world is one sandbox on disk: the driver's cloud, and a second handle of the same file to prepare state.
type world struct {
	dir    string
	beside *sandboxcloud.Cloud
	calls  atomic.Int64
	wrap   func(http.RoundTripper) http.RoundTripper // nil: nothing
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	cloud, err := sandboxcloud.Open(sandboxcloud.Options{File: filepath.Join(w.dir, "sandbox.json")})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = cloud.Close() })
	w.beside = cloud
	return w
}

func setup(t *testing.T, provider, label map[string]cty.Value) drivertest.Setup {
	t.Helper()
	return newWorld(t).setup(t, provider, label)
}

func (w *world) setup(t *testing.T, provider, label map[string]cty.Value) drivertest.Setup {
	t.Helper()
	faults := filepath.Join(w.dir, "faults.json")
	attributes := map[string]cty.Value{"fault_file": cty.StringVal(faults), "build_time": cty.StringVal("20ms"), "delete_time": cty.StringVal("10ms")}
	maps.Copy(attributes, provider)
	config := providerConfig(attributes)
	env := drivers.Env{Provider: "sandbox", Dir: w.dir, WrapTransport: countCalls(&w.calls)}
	if w.wrap != nil {
		env.WrapTransport = w.wrap
	}
	openIt := func(t *testing.T) drivers.Cloud {
		t.Helper()
		c, err := driver().Open(t.Context(), env, config)
		testutil.Must(t, err)
		return c
	}
	c := openIt(t)
	t.Cleanup(func() { _ = c.Close() })
	_, floating := label["auto_floating_ip"]
	users := w.others(t)
	return drivertest.Setup{
		Lacks: []string{"access"}, Spoil: w.spoil(users, floating),
		Cloud: c, Reopen: openIt, Config: offer(label), ImageID: uploaded(t, c), Zone: "az2",
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
			rejected := sandboxcloud.Fault{Action: sandboxcloud.Answer, Status: http.StatusUnauthorized, Times: 1}
			create, list := rejected, rejected
			create.Operation, list.Operation = "server.create", "server.list"
			writeFaults(t, faults, create, list)
		},
		FillQuota:    func(t *testing.T) { w.fillQuota(t) },
		Foreign:      func(t *testing.T) string { return w.foreign(t) },
		ForeignImage: users.ForeignImage,
		Attach:       users.Attach,
		Copies: func(t *testing.T, kind resources.Kind, original string) []drivertest.Foreign {
			return users.Copies(t, kind == resources.KindUpload, original, "small")
		},
		LeaveBehind: func(t *testing.T, m resources.OwnerTags) resources.Leftover {
			id := users.LeaveVolume(t, map[string]string{"npctl_installation": m.Installation, "npctl_node_id": m.ID})
			return resources.Leftover{Type: "volume", ID: id, Marks: m}
		},
		Use: func(t *testing.T, l resources.Leftover) { users.UseVolume(t, l.ID, w.foreign(t)) },
		LoseNextAnswer: func(t *testing.T) {
			writeFaults(t, faults, sandboxcloud.Fault{Operation: "server.create", Action: sandboxcloud.LostAfter, Times: 1})
		},
		NoSnapshot: offer(map[string]cty.Value{"boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(20)}),
		Damage: func(t *testing.T, how string) {
			action := map[string]sandboxcloud.Action{"cut": sandboxcloud.Truncate, "changed": sandboxcloud.Corrupt}[how]
			writeFaults(t, faults, sandboxcloud.Fault{Operation: "image.download", Action: action, Times: 1})
		},
		Calls: func() int { return int(w.calls.Load()) }, Alone: true, Settle: 10 * time.Second,
		ImageSize: 1 << 18,
	}
}

func (w *world) foreign(t *testing.T) string {
	t.Helper()
	id, err := w.beside.AddServer(sandboxcloud.ForeignServer{Name: "somebody-elses"})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = w.beside.Remove(id) })
	return id
}

// others returns a project through which tests act like other users of the cloud.
func (w *world) others(t *testing.T) *openstacktest.Project {
	t.Helper()
	access := w.beside.Access()
	provider, err := gopheropenstack.NewClient(access.AuthURL)
	testutil.Must(t, err)
	provider.HTTPClient = http.Client{Transport: w.beside.Transport()}
	err = gopheropenstack.Authenticate(t.Context(), provider, gophercloud.AuthOptions{IdentityEndpoint: access.AuthURL, Username: access.Username,
		Password: access.Password, DomainName: access.Domain, TenantName: access.Project})
	p := &openstacktest.Project{Settle: 10 * time.Second}
	for _, one := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&p.Compute, gopheropenstack.NewComputeV2}, {&p.Image, gopheropenstack.NewImageV2}, {&p.Network, gopheropenstack.NewNetworkV2},
		{&p.Volume, gopheropenstack.NewBlockStorageV3},
	} {
		if err == nil {
			*one.to, err = one.make(provider, gophercloud.EndpointOpts{Region: access.Region})
		}
	}
	testutil.Must(t, err)
	return p
}

// spoil are the ways to make a server unusable.
func (w *world) spoil(users *openstacktest.Project, floating bool) map[string]func(*testing.T, resources.Instance) {
	all := users.Spoil(floating)
	for _, status := range []string{"PAUSED", "SUSPENDED", "SHELVED_OFFLOADED", "RESCUE", "ERROR", "REBOOT"} {
		all[status] = func(t *testing.T, i resources.Instance) { testutil.Must(t, w.beside.SetServerStatus(i.ID, status, "")) }
	}
	return all
}

func (w *world) fillQuota(t *testing.T) {
	t.Helper()
	q := sandboxcloud.DefaultQuota()
	q.Instances = 0
	testutil.Must(t, w.beside.SetQuota(q))
	t.Cleanup(func() { _ = w.beside.SetQuota(sandboxcloud.DefaultQuota()) })
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
			drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup { return setup(t, nil, one.label) }, one.groups...)
		})
	}
}

// Decorators affect a stream that outlives its call, so the snapshot tests also run on a decorated Cloud.
func TestSnapshotsWorkThroughDecorators(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		s := setup(t, nil, nil)
		s.Cloud = drivers.Decorate(s.Cloud, drivers.DecorateOptions{Attempts: 1})
		return s
	}, "Snapshots")
}

// The contract also holds on a slow cloud with stale lists and late addresses.
func TestContractOnSlowCloud(t *testing.T) {
	t.Parallel()
	lag := func(operation, action string) cty.Value {
		return faultBlock(map[string]cty.Value{
			"operation": cty.StringVal(operation), "action": cty.StringVal(action), "delay": cty.StringVal("15ms"),
		})
	}
	provider := map[string]cty.Value{
		"address_time": cty.StringVal("15ms"), "image_time": cty.StringVal("15ms"),
		"fault": cty.ListVal([]cty.Value{lag("server.create", "late_listing"), lag("server.delete", "late_listing"), lag("image.delete", "late_listing")}),
	}
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		return setup(t, provider, map[string]cty.Value{"auto_floating_ip": cty.True})
	})
}

// Filters of queries are an optimization: a cloud that ignores them shows objects of others, and none of these is deleted.
func TestContractOnCloudThatIgnoresFilters(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		w := newWorld(t)
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
		return w.setup(t, nil, map[string]cty.Value{"auto_floating_ip": cty.True, "create_ports": cty.True})
	}, "Instances", "Adopter", "Images", "Copies")
}

// A plan makes no changing call, also with floating IPs and ports.
func TestContractBesideNeighbours(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		w := newWorld(t)
		s := w.setup(t, nil, map[string]cty.Value{"auto_floating_ip": cty.True, "create_ports": cty.True})
		s.Kill = w.kill
		s.Neighbours = func(t *testing.T, node drivers.Spec, upload drivers.ImageSpec) []drivertest.Foreign {
			return w.others(t).Neighbours(t, node, upload, "small")
		}
		return s
	}, "Foreign")
}

// A launch or an upload that is interrupted at any call is completed or given up without a remainder, with every kind of object
// that a launch creates.
func TestKilledCallsAreRepeated(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		w := newWorld(t)
		s := w.setup(t, nil, map[string]cty.Value{"auto_floating_ip": cty.True, "create_ports": cty.True, "boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(20)})
		s.Kill, s.Foreign, s.Objects = w.kill, nil, w.others(t).Objects
		return s
	}, "Kills", "ImageKills")
}

// kill opens the driver for a client that k kills.
func (w *world) kill(t *testing.T, k *testutil.Killer) drivers.Cloud {
	t.Helper()
	env := drivers.Env{Provider: "sandbox", Dir: w.dir, WrapTransport: func(next http.RoundTripper) http.RoundTripper { return k.Transport(next, openstacktest.ChangeOf) }}
	c, err := driver().Open(t.Context(), env, providerConfig(nil))
	testutil.Must(t, err)
	return c
}

func faultBlock(attributes map[string]cty.Value) cty.Value {
	for _, b := range driver().Schema().Provider.Blocks {
		if b.Name == "fault" {
			return object(b.Schema.Null(), attributes)
		}
	}
	return cty.NilVal
}

func TestWrongConfigurationIsRejected(t *testing.T) {
	for name, attributes := range map[string]map[string]cty.Value{
		"unknown action": {"fault": cty.ListVal([]cty.Value{faultBlock(map[string]cty.Value{"action": cty.StringVal("explode")})})},
		"no delay":       {"fault": cty.ListVal([]cty.Value{faultBlock(map[string]cty.Value{"action": cty.StringVal("slow")})})},
		"bad duration":   {"build_time": cty.StringVal("soon")},
	} {
		_, err := driver().Open(t.Context(), drivers.Env{Provider: "x", Dir: t.TempDir()}, providerConfig(attributes))
		if !errors.Is(err, drivers.ErrRejected) {
			t.Errorf("%s: %v, want ErrRejected", name, err)
		}
	}
	if _, err := driver().Open(t.Context(), drivers.Env{Provider: "x"}, providerConfig(nil)); !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("without a directory: %v, want ErrRejected", err)
	}
}

func TestConfiguredObjectsExist(t *testing.T) {
	block := func(name string, attributes map[string]cty.Value) cty.Value {
		for _, b := range driver().Schema().Provider.Blocks {
			if b.Name == name {
				return object(b.Schema.Null(), attributes)
			}
		}
		t.Fatalf("no block %s", name)
		return cty.NilVal
	}
	dir := t.TempDir()
	c := open(t, dir, map[string]cty.Value{
		"build_time": cty.StringVal("0s"),
		"quota":      block("quota", map[string]cty.Value{"instances": cty.NumberIntVal(3)}),
		"flavor":     cty.MapVal(map[string]cty.Value{"huge": block("flavor", map[string]cty.Value{"vcpus": cty.NumberIntVal(64), "ram": cty.NumberIntVal(1 << 18)})}),
		"network": cty.MapVal(map[string]cty.Value{"dual": block("network", map[string]cty.Value{
			"cidrs": cty.ListVal([]cty.Value{cty.StringVal("127.80.0.0/16"), cty.StringVal("fd77::/64")})})}),
		"foreign_server": cty.MapVal(map[string]cty.Value{
			"theirs": block("foreign_server", nil),
			"beyond": block("foreign_server", map[string]cty.Value{"project": cty.StringVal("other")})}),
	})
	quota, err := c.Quota(t.Context())
	if err != nil || quota.Limit.Instances != 3 || quota.Used.Instances != 1 {
		t.Errorf("quota %+v, %v; want 3 servers of which 1 is used", quota, err)
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

func TestServersAnswerSSHWhileTheCloudIsOpen(t *testing.T) {
	free, err := sandboxssh.Listen(t.Context(), 0)
	testutil.Must(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	dir := t.TempDir()
	c := open(t, dir, map[string]cty.Value{"build_time": cty.StringVal("0s"), "ssh_port": cty.NumberIntVal(int64(port))})
	made, err := c.Create(t.Context(), drivers.Spec{Marks: resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "1"},
		Hostname: "np1", ImageID: uploaded(t, c), Config: offer(map[string]cty.Value{"auto_floating_ip": cty.True})})
	testutil.Must(t, err)
	seen, err := c.List(t.Context())
	if err != nil || len(seen) != 1 {
		t.Fatalf("instances %+v, %v", seen, err)
	}
	if _, err := c.Advance(t.Context(), drivers.Spec{Marks: seen[0].Marks, Config: offer(map[string]cty.Value{"auto_floating_ip": cty.True})}, seen[0]); err != nil {
		t.Fatal(err)
	}
	at := active(t, c, made.ID).Addresses
	var keys [2][]string
	for n, address := range []string{at.PublicIPv4, at.PrivateIPv4} {
		if keys[n], err = keyscan.Scan(t.Context(), net.JoinHostPort(address, strconv.Itoa(port)), 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(keys[0], keys[1]); diff != "" {
		t.Errorf("the floating address and the server's own show different keys (-floating +own):\n%s", diff)
	}
	// A second npctl on the same file cannot use the port, but works.
	second := open(t, dir, map[string]cty.Value{"ssh_port": cty.NumberIntVal(int64(port))})
	if _, err := second.List(t.Context()); err != nil {
		t.Errorf("without the port: %v", err)
	}
	testutil.Must(t, c.Close())
	answers := func(within time.Duration) ([]string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		for {
			found, err := keyscan.Scan(ctx, net.JoinHostPort(at.PublicIPv4, strconv.Itoa(port)), time.Second)
			if err == nil || ctx.Err() != nil {
				return found, err
			}
			time.Sleep(50 * time.Millisecond) // the port refuses connections immediately
		}
	}
	taken, err := answers(20 * time.Second)
	if err != nil {
		t.Fatalf("the other one does not take the port over: %v", err)
	}
	if diff := cmp.Diff(keys[0], taken); diff != "" {
		t.Errorf("there it shows other keys (-before +after):\n%s", diff)
	}
	testutil.Must(t, second.Close())
	if _, err := answers(time.Second); err == nil {
		t.Error("a server answers after the cloud was closed")
	}
}

func TestSchemaFulfilsTheContract(t *testing.T) {
	drivertest.Schema(t, sandbox.New(openstack.SharedSchema(), nil).Schema())
}
