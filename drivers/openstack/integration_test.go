//go:build integration

package openstack

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/resources"
)

// These tests run against the OpenStack that test/openstack/up.sh starts: OS_CLIENT_CONFIG_FILE and OS_CLOUD say where
// it is, and the names below are those it is filled with.

// wire counts calls and loses answers.
type wire struct {
	calls atomic.Int64
	lose  atomic.Bool
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		w.calls.Add(1)
		resp, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/servers") && w.lose.Swap(false) {
			resp.Body.Close()
			return nil, errors.New("connection reset by test")
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
	if err != nil {
		t.Fatal(err)
	}
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
	return drivertest.Setup{
		Cloud:   c,
		Reopen:  func(t *testing.T) drivers.Cloud { return mustOpen(t, name, nil) },
		Config:  config,
		ImageID: tiny.ID,
		Rejected: map[string]func(*drivers.Spec){
			"unknown image": func(s *drivers.Spec) { s.ImageID = "00000000-0000-4000-8000-00000000dead" },
			"unknown zone":  func(s *drivers.Spec) { s.Zone = "mars" },
			"unknown flavor": func(s *drivers.Spec) {
				s.Config = offerConfig(map[string]cty.Value{"flavor": cty.StringVal("smal")})
			},
			"unknown key": func(s *drivers.Spec) {
				s.Config = offerConfig(map[string]cty.Value{"key_name": cty.StringVal("nokey")})
			},
			"long value": func(s *drivers.Spec) {
				s.Properties = map[string]string{"a": strings.Repeat("x", 256)}
			},
		},
		BadOffers: badOffers(),
		OpenWrong: func(t *testing.T) error { _, err := openCloud(t, "wrong-password", nil); return err },
		Secrets:   []string{c.provider.Token()},
		Foreign:   func(t *testing.T) string { return foreignServer(t, c, tiny.ID) },
		LeaveBehind: func(t *testing.T, m resources.Marks) resources.Leftover {
			return leavePort(t, c, m)
		},
		LoseNextAnswer: func(*testing.T) { w.lose.Store(true) },
		FillQuota:      func(t *testing.T) { setQuota(t, "npctl", "instances=0") },
		Calls:          func() int { return int(w.calls.Load()) },
		Alone:          true,
		Settle:         2 * time.Minute,
		Poll:           300 * time.Millisecond,
		Many:           4,
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
	o, err := c.resolve(t.Context(), offerConfig(nil))
	if err != nil {
		t.Fatal(err)
	}
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

func leavePort(t *testing.T, c *Cloud, m resources.Marks) resources.Leftover {
	t.Helper()
	n, err := c.networkFor(t.Context(), "networks", "private")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.createPort(t.Context(), drivers.Spec{Marks: m, Hostname: "left-behind"}, n, nil)
	if err != nil {
		t.Fatal(err)
	}
	return resources.Leftover{Type: leftoverPort, ID: p.ID, Marks: m}
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
		drivertest.Run(t, func(t *testing.T) drivertest.Setup { return realSetup(t, name, offerConfig(nil)) })
	})
	for variant, attributes := range map[string]map[string]cty.Value{
		"FloatingIP":  {"auto_floating_ip": cty.True},
		"CreatePorts": {"create_ports": cty.True, "security_groups": cty.ListVal([]cty.Value{cty.StringVal("ssh")})},
		"BootFromVolume": {
			"boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(20),
			"key_name": cty.StringVal("lab"), "userdata": cty.StringVal("test"), "config_drive": cty.True,
		},
	} {
		t.Run(variant, func(t *testing.T) {
			setup := func(t *testing.T) drivertest.Setup { return realSetup(t, name, offerConfig(attributes)) }
			drivertest.Run(t, setup, "Instances")
		})
	}
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

func TestRealUnreachableCloudIsNoRejection(t *testing.T) {
	_, err := openCloud(t, "unreachable", nil)
	if err == nil || errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) {
		t.Fatalf("open: %v; want an error that may pass and proves that nothing was done", err)
	}
}

func TestRealNoHostIsCapacity(t *testing.T) {
	c := mustOpen(t, os.Getenv("OS_CLOUD"), nil)
	s := realSetup(t, os.Getenv("OS_CLOUD"), offerConfig(map[string]cty.Value{"flavor": cty.StringVal("toobig")}))
	made, err := c.Create(t.Context(), drivers.Spec{
		Marks: resources.Marks{Installation: "toobig", Kind: resources.KindNode, ID: "1"}, Hostname: "np1", ImageID: s.ImageID, Config: s.Config,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(contextFor(t), made.ID) })
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		list, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if i.ID == made.ID && i.Status == resources.StatusFailed {
				if i.FaultKind != resources.FaultCapacity {
					t.Errorf("fault %q is %q, want capacity", i.Fault, i.FaultKind)
				}
				return
			}
		}
	}
	t.Error("the server did not fail")
}
