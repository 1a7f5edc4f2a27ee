//go:build integration

package openstack

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/openstack/openstacktest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// These tests run against the OpenStack that test/openstack/up.sh starts: OS_CLIENT_CONFIG_FILE and OS_CLOUD say where
// it is, and the names below are those it is filled with.

// wire counts calls and drops responses.
type wire struct {
	calls atomic.Int64
	lose  atomic.Bool
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		w.calls.Add(1)
		resp, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/servers") && w.lose.Swap(false) {
			resp.Body.Close()
			return nil, errors.New("connection reset by test")
		}
		return resp, err
	})
}

// contextFor returns a context for cleanup after the test's own context has ended.
func contextFor(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

func openCloud(t *testing.T, name string, wrap func(http.RoundTripper) http.RoundTripper) (*Cloud, error) {
	t.Helper()
	config := cty.ObjectVal(map[string]cty.Value{"cloud": cty.StringVal(name)})
	c, err := New().Open(t.Context(), drivers.Env{Provider: "drivertest", WrapTransport: wrap}, config)
	if err != nil {
		return nil, err
	}
	return c.(*Cloud), nil
}

func mustOpen(t *testing.T, name string, wrap func(http.RoundTripper) http.RoundTripper) *Cloud {
	t.Helper()
	c, err := openCloud(t, name, wrap)
	testutil.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func realSetup(t *testing.T, name string, config cty.Value) drivertest.Setup {
	t.Helper()
	w := &wire{}
	c := mustOpen(t, name, w.wrap)
	tiny, problems, err := c.ResolveImage(t.Context(), resources.CloudImageSpec{Name: "tiny"})
	if err != nil || len(problems) > 0 {
		t.Fatalf("image tiny: %v %v", problems, err)
	}
	users := others(t, c)
	return drivertest.Setup{
		Lacks:   []string{"access"},
		Cloud:   c,
		Reopen:  func(t *testing.T) drivers.Cloud { return mustOpen(t, name, nil) },
		Config:  config,
		ImageID: tiny.ID,
		FromCatalogue: func(names resources.Catalogue) (drivers.Resolver, error) {
			return New().ResolverOf(cty.NilVal, names)
		},
		Rejected: map[string]func(*drivers.Spec){
			"unknown image": func(s *drivers.Spec) { s.ImageID = "00000000-0000-4000-8000-00000000dead" },
			"unknown zone":  func(s *drivers.Spec) { s.Zone = "mars" },
			"unknown flavor": func(s *drivers.Spec) {
				s.Config = offerConfig(map[string]cty.Value{"flavor": cty.StringVal("smal")})
			},
			"unknown key": func(s *drivers.Spec) {
				s.Config = offerConfig(map[string]cty.Value{"key_name": cty.StringVal("nokey")})
			},
			"long key": func(s *drivers.Spec) {
				s.Properties = map[string]string{strings.Repeat("x", 256): "a"}
			},
		},
		BadOffers:    badOffers(),
		OpenWrong:    func(t *testing.T) error { _, err := openCloud(t, "wrong-password", nil); return err },
		Secrets:      []string{c.provider.Token()},
		Foreign:      func(t *testing.T) string { return foreignServer(t, c, tiny.ID) },
		ForeignImage: users.ForeignImage,
		Attach:       users.Attach,
		Kill: func(t *testing.T, k *testutil.Killer) drivers.Cloud {
			return mustOpen(t, name, func(next http.RoundTripper) http.RoundTripper { return k.Transport(next, openstacktest.ChangeOf) })
		},
		Objects: users.Objects,
		Neighbours: func(t *testing.T, node drivers.Spec, upload drivers.ImageSpec) []drivertest.Foreign {
			return users.Neighbours(t, node, upload, "small")
		},
		Copies: func(t *testing.T, kind resources.Kind, original string) []drivertest.Foreign {
			return users.Copies(t, kind == resources.KindUpload, original, "small")
		},
		Leftovers:      users.Leftovers(nil),
		LoseNextAnswer: func(*testing.T) { w.lose.Store(true) },
		FillQuota:      func(t *testing.T) { setQuota(t, "npctl", "instances=0") },
		Spoil:          users.Spoil(!config.GetAttr("auto_floating_ip").IsNull()),
		NoSnapshot:     offerConfig(map[string]cty.Value{"boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(1)}),
		Calls:          func() int { return int(w.calls.Load()) },
		Omits: drivertest.NotCreated(map[string]string{
			"Exhaust":                "an offer has one flavor",
			"Withdraw":               "TestContract withdraws the token of the emulator",
			"Damage":                 "TestContract damages images of the emulator",
			resources.LeftoverVolume: "TestContract has servers of others that use volumes",
		}, openstacktest.NoLeftovers...),
		Alone:  true,
		Settle: 2 * time.Minute,
		Many:   2,
	}
}

func badOffers() map[string]drivertest.BadOffer {
	list := func(s string) cty.Value { return cty.ListVal([]cty.Value{cty.StringVal(s)}) }
	bad := map[string]drivertest.BadOffer{}
	for attribute, b := range map[string]struct {
		value cty.Value
		near  string
	}{
		"flavor":             {cty.StringVal("smal"), "small"},
		"networks":           {list("privat"), "private"},
		"security_groups":    {list("shh"), "ssh"},
		"key_name":           {cty.StringVal("labs"), "lab"},
		"availability_zones": {list("az3"), "az1"},
	} {
		bad[attribute] = drivertest.BadOffer{Config: offerConfig(map[string]cty.Value{attribute: b.value}), Attribute: attribute, Near: b.near}
	}
	bad["too much RAM"] = drivertest.BadOffer{Attribute: "min_ram",
		Config: offerConfig(map[string]cty.Value{"flavor": cty.NullVal(cty.String), "min_ram": cty.NumberIntVal(1 << 30)})}
	return bad
}

func foreignServer(t *testing.T, c *Cloud, image string) string {
	t.Helper()
	o, err := c.offers.resolve(t.Context(), offerConfig(nil))
	testutil.Must(t, err)
	body := map[string]any{"server": map[string]any{"name": "somebody-elses", "imageRef": image, "flavorRef": o.flavor.ID, "networks": "none"}}
	var answer struct {
		Server server `json:"server"`
	}
	if _, err := c.compute.Post(t.Context(), c.compute.ServiceURL("servers"), body, &answer, nil); err != nil {
		t.Fatal(err)
	}
	id := answer.Server.ID
	t.Cleanup(func() {
		if _, err := c.compute.Delete(t.Context(), c.compute.ServiceURL("servers", id), nil); err != nil {
			_, _ = c.compute.Delete(contextFor(t), c.compute.ServiceURL("servers", id), nil)
		}
	})
	return id
}

// others returns a project through which tests act like other users of the cloud.
func others(t *testing.T, c *Cloud) *openstacktest.Project {
	t.Helper()
	p := &openstacktest.Project{Compute: c.compute, Settle: 2 * time.Minute}
	for kind, to := range map[string]**gophercloud.ServiceClient{serviceNetwork: &p.Network, serviceVolume: &p.Volume, serviceImage: &p.Image} {
		var err error
		if *to, err = c.service(kind); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// misbehave makes the lab inject faults until the test ends; the lab holds the rules of one test at a time.
func misbehave(t *testing.T, rules string) {
	t.Helper()
	script := "../../test/openstack/faults.sh"
	if out, err := exec.Command(script, "set", rules).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	t.Cleanup(func() { _ = exec.Command(script, "clear").Run() })
}

// listedAs waits until the server is listed with that status.
func listedAs(t *testing.T, c *Cloud, id string, want resources.Status) resources.Instance {
	t.Helper()
	var last resources.Instance
	for deadline := time.Now().Add(testutil.Patience); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		list, err := c.List(t.Context())
		testutil.Must(t, err)
		for _, i := range list {
			if i.ID == id && i.Status == want {
				return i
			}
			if i.ID == id {
				last = i
			}
		}
	}
	t.Fatalf("server %s is %+v, want %s", id, last, want)
	return last
}

// realServer creates a server of a new installation.
func realServer(t *testing.T, c *Cloud, hostname string, attributes map[string]cty.Value) (drivers.Spec, resources.Instance) {
	t.Helper()
	tiny, problems, err := c.ResolveImage(t.Context(), resources.CloudImageSpec{Name: "tiny"})
	if err != nil || len(problems) > 0 {
		t.Fatalf("image tiny: %v %v", problems, err)
	}
	spec := drivers.Spec{
		Marks:    resources.OwnerTags{Installation: "integration-" + hostname, Kind: resources.KindNode, ID: hostname},
		Hostname: hostname, ImageID: tiny.ID, Config: offerConfig(attributes),
	}
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = c.Delete(contextFor(t), made.ID, spec.Marks) })
	return spec, made
}

func TestRealDeleteThatFailsIsSeenAndRepeated(t *testing.T) {
	c := mustOpen(t, os.Getenv("OS_CLOUD"), nil)
	misbehave(t, `[{"on": "destroy", "name": "np-stuck", "action": "error", "times": 1}]`)
	spec, made := realServer(t, c, "np-stuck", nil)
	listedAs(t, c, made.ID, resources.StatusReady)
	testutil.Must(t, c.Delete(t.Context(), made.ID, spec.Marks))
	failed := listedAs(t, c, made.ID, resources.StatusFailed)
	if failed.Fault == "" || failed.Marks.ID != "np-stuck" {
		t.Errorf("server is %+v, want a fault and its marks", failed)
	}
	testutil.Must(t, c.Delete(t.Context(), made.ID, spec.Marks))
	for deadline := time.Now().Add(testutil.Patience); ; time.Sleep(300 * time.Millisecond) {
		list, err := c.List(t.Context())
		testutil.Must(t, err)
		if !slices.ContainsFunc(list, func(i resources.Instance) bool { return i.ID == made.ID }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the second delete did not help")
		}
	}
}

func TestRealFloatingIPThatNovaShowsLate(t *testing.T) {
	c := mustOpen(t, os.Getenv("OS_CLOUD"), nil)
	misbehave(t, `[{"on": "floating-ip", "name": "np-late", "action": "hang"}]`)
	spec, made := realServer(t, c, "np-late", map[string]cty.Value{"auto_floating_ip": cty.True})
	for deadline := time.Now().Add(testutil.Patience); !c.attached.isActive(made.ID); time.Sleep(300 * time.Millisecond) {
		if _, err := c.List(t.Context()); err != nil || time.Now().After(deadline) {
			t.Fatalf("server does not become active: %v", err)
		}
	}
	now, err := c.Advance(t.Context(), spec, listedAs(t, c, made.ID, resources.StatusPending))
	if err != nil || now.Status != resources.StatusReady || now.Addresses.PublicIPv4 == "" {
		t.Fatalf("Advance = %+v, %v; want it ready with a public address", now, err)
	}
	// Another process neither considers it ready nor creates a second floating IP.
	other := mustOpen(t, os.Getenv("OS_CLOUD"), nil)
	seen := listedAs(t, other, made.ID, resources.StatusPending)
	again, err := other.Advance(t.Context(), spec, seen)
	if err != nil || again.Addresses.PublicIPv4 != now.Addresses.PublicIPv4 {
		t.Errorf("Advance by another process = %+v, %v; want address %s", again, err, now.Addresses.PublicIPv4)
	}
}

// setQuota changes a project's quota until the test ends.
func setQuota(t *testing.T, project string, change ...string) {
	t.Helper()
	script := "../../test/openstack/quota.sh"
	run := func(args ...string) {
		if out, err := exec.Command(script, append([]string{project}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	run(change...)
	t.Cleanup(func() { run("reset") })
}

func TestRealCloud(t *testing.T) {
	name := os.Getenv("OS_CLOUD")
	if name == "" {
		t.Fatal("OS_CLOUD is empty; start the lab with test/openstack/up.sh and read its env.sh")
	}
	t.Run("Plain", func(t *testing.T) {
		drivertest.Run(t, func(t *testing.T) drivertest.Setup { return realSetup(t, name, offerConfig(nil)) },
			"Images", "Resolver", "Catalogue", "Sweeper", "Console", "Snapshots", "NodeUser", "Errors", "Foreign", "Copies")
	})
	// On the emulator, the suite runs without attributes and with each one by itself.
	t.Run("EveryAttribute", func(t *testing.T) {
		attributes := map[string]cty.Value{
			"auto_floating_ip": cty.True,
			"create_ports":     cty.True, "security_groups": cty.ListVal([]cty.Value{cty.StringVal("ssh")}),
			"boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(20),
			"key_name": cty.StringVal("lab"), "userdata": cty.StringVal("test"), "config_drive": cty.True,
		}
		setup := func(t *testing.T) drivertest.Setup { return realSetup(t, name, offerConfig(attributes)) }
		drivertest.Run(t, setup, "Instances", "Adopter")
	})
}

func TestRealApplicationCredential(t *testing.T) {
	c := mustOpen(t, "npctl-appcred", nil)
	if _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRealRevokedTokenIsRenewed(t *testing.T) {
	c := mustOpen(t, os.Getenv("OS_CLOUD"), nil)
	c.provider.SetToken("not-a-token")
	if _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRealUnreachableCloudIsUnavailable(t *testing.T) {
	_, err := openCloud(t, "unreachable", nil)
	if err == nil || errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) {
		t.Fatalf("open: %v; want an error that may pass and proves that nothing was done", err)
	}
}

func TestRealNoHostIsCapacity(t *testing.T) {
	c := mustOpen(t, os.Getenv("OS_CLOUD"), nil)
	_, made := realServer(t, c, "np-toobig", map[string]cty.Value{"flavor": cty.StringVal("toobig")})
	if i := listedAs(t, c, made.ID, resources.StatusFailed); i.FaultKind != resources.FaultCapacity {
		t.Errorf("fault %q is %q, want capacity", i.Fault, i.FaultKind)
	}
}
