package ibmvpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/ibmvpc/ibmvpctest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func TestSchemaFulfilsTheContract(t *testing.T) { drivertest.Schema(t, New().Schema()) }

// lab is a cloud in memory with clients of it.
type lab struct {
	*ibmvpctest.Server

	mu    sync.Mutex
	calls []string // guarded by mu; method and path
	lose  string   // guarded by mu; the next response to a call that starts with it is lost
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return labOf(t, ibmvpctest.InMemory("https://ibm.test"))
}

func labOf(t *testing.T, s *ibmvpctest.Server) *lab {
	t.Helper()
	l := &lab{Server: s}
	for name, value := range l.Env() {
		t.Setenv(name, value)
	}
	return l
}

func (l *lab) wrap(http.RoundTripper) http.RoundTripper {
	next := testutil.Direct(l.Server)
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		call := r.Method + " " + r.URL.Path
		l.mu.Lock()
		l.calls = append(l.calls, call)
		lost := l.lose != "" && strings.HasPrefix(call, l.lose)
		if lost {
			l.lose = ""
		}
		l.mu.Unlock()
		answer, err := next.RoundTrip(r)
		if err == nil && lost {
			answer.Body.Close()
			return nil, errors.New("connection reset by test")
		}
		return answer, err
	})
}

func (l *lab) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

func providerConfig(l *lab, attributes map[string]cty.Value) cty.Value {
	values := New().Schema().Provider.Null().AsValueMap()
	values["region"], values["vpc"] = cty.StringVal(ibmvpctest.Region), cty.StringVal(ibmvpctest.VPC)
	values["object_storage"] = cty.ObjectVal(map[string]cty.Value{"endpoint": cty.StringVal(l.Storage()), "bucket": cty.StringVal(ibmvpctest.Bucket), "region": cty.NullVal(cty.String)})
	for name, value := range attributes {
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func (l *lab) open(ctx context.Context, attributes map[string]cty.Value) (*Cloud, error) {
	return l.openBy(ctx, attributes, l.wrap)
}

func (l *lab) openBy(ctx context.Context, attributes map[string]cty.Value, wrap func(http.RoundTripper) http.RoundTripper) (*Cloud, error) {
	c, err := New().Open(ctx, drivers.Env{Provider: "drivertest", WrapTransport: wrap}, providerConfig(l, attributes))
	if err != nil {
		return nil, err
	}
	return c.(*Cloud), nil
}

func (l *lab) mustOpen(t *testing.T, attributes map[string]cty.Value) *Cloud {
	t.Helper()
	c, err := l.open(t.Context(), attributes)
	testutil.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func words(all ...string) cty.Value {
	var list []cty.Value
	for _, word := range all {
		list = append(list, cty.StringVal(word))
	}
	return cty.ListVal(list)
}

func offerConfig(attributes map[string]cty.Value) cty.Value {
	values := New().Schema().Label.Null().AsValueMap()
	values["profiles"] = words("cx2-2x4")
	for name, value := range attributes {
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func changed(attribute string, value cty.Value) func(*drivers.Spec) {
	return func(s *drivers.Spec) { s.Config = offerConfig(map[string]cty.Value{attribute: value}) }
}

func setup(t *testing.T, attributes map[string]cty.Value) drivertest.Setup {
	t.Helper()
	l := newLab(t)
	l.PageSize = 500 // of the server; the client asks for 100
	c := l.mustOpen(t, nil)
	return drivertest.Setup{
		Cloud:       &imageConfig{c},
		Reopen:      func(t *testing.T) drivers.Cloud { return &imageConfig{l.mustOpen(t, nil)} },
		Config:      offerConfig(attributes),
		ImageID:     l.ID("images", "ibm-debian-12-minimal-amd64-1"),
		Lacks:       []string{"console", "access", "snapshots", "adopter"},
		ImageFormat: "qcow2",
		Rejected: map[string]func(*drivers.Spec){
			"unknown image":          func(s *drivers.Spec) { s.ImageID = "r006-dead" },
			"unknown profile":        changed("profiles", words("cx2-2x5")),
			"unknown volume profile": changed("volume_profile", cty.StringVal("slow")),
			"unknown subnet":         changed("subnets", words("ci-9")),
			"other zone":             func(s *drivers.Spec) { s.Zone = "eu-test-3" },
			"installation no name":   func(s *drivers.Spec) { s.Marks.Installation = "Upper" },
			"long installation":      func(s *drivers.Spec) { s.Marks.Installation = strings.Repeat("x", 60) },
		},
		BadOffers: map[string]drivertest.BadOffer{
			"profile":        {Config: offerConfig(map[string]cty.Value{"profiles": words("cx2-2x5")}), Attribute: "profiles", Near: "cx2-2x4"},
			"subnet":         {Config: offerConfig(map[string]cty.Value{"subnets": words("ci-3")}), Attribute: "subnets", Near: "ci-1"},
			"zone":           {Config: offerConfig(map[string]cty.Value{"zones": words("eu-test-3")}), Attribute: "zones", Near: "eu-test-1"},
			"security group": {Config: offerConfig(map[string]cty.Value{"security_groups": words("shh")}), Attribute: "security_groups", Near: "ssh"},
			"key":            {Config: offerConfig(map[string]cty.Value{"keys": words("co")}), Attribute: "keys", Near: "ci"},
		},
		OpenWrong: func(t *testing.T) error {
			t.Setenv("VPC_APIKEY", "wrong-key")
			_, err := l.open(t.Context(), nil)
			return err
		},
		Withdraw:  func(*testing.T) { l.Withdraw() },
		Secrets:   []string{ibmvpctest.APIKey, "wrong-key"},
		FillQuota: func(*testing.T) { l.MaxInstances = 1; l.Instance("full") },
		Exhaust: func(_ *testing.T, kind error) (cty.Value, func() int) {
			code := "insufficient_capacity"
			if errors.Is(kind, drivers.ErrQuota) {
				code = "over_quota"
			}
			return offerConfig(map[string]cty.Value{"profiles": words("cx2-2x4", "bx2-4x16")}), l.Refuse("cx2-2x4", code)
		},
		Foreign:      func(*testing.T) string { return l.Instance("foreign") },
		ForeignImage: func(*testing.T) drivertest.Foreign { return l.foreign("images", l.Image("foreign")) },
		Attach: func(_ *testing.T, instance string) []drivertest.Foreign {
			if ours := l.floatingIP(instance); ours != "" {
				l.Remove("floating_ips", ours) // an interface has one
			}
			return []drivertest.Foreign{l.foreign("volumes", l.Volume("data", instance)), l.foreign("floating_ips", l.FloatingIP("theirs", instance))}
		},
		Copies: func(_ *testing.T, kind resources.Kind, original string) []drivertest.Foreign {
			return l.copiesOf(kind, original)
		},
		Leftovers: map[string]drivertest.Leftover{
			resources.LeftoverFloatingIP: {Leave: l.leave(resources.LeftoverFloatingIP, l.FloatingIP), Use: l.use},
			resources.LeftoverVolume:     {Leave: l.leave(resources.LeftoverVolume, l.Volume), Use: l.use},
		},
		Omits: drivertest.NotCreated(map[string]string{resources.LeftoverObject: "group ImageKills interrupts uploads, which leave objects"},
			resources.LeftoverPort, resources.LeftoverSnapshot, resources.LeftoverHost, resources.LeftoverLaunchTemplate),
		Kill: func(t *testing.T, k *testutil.Killer) drivers.Cloud {
			c, err := l.openBy(t.Context(), nil, func(next http.RoundTripper) http.RoundTripper { return k.Transport(l.wrap(next), changes) })
			testutil.Must(t, err)
			return &imageConfig{c}
		},
		Objects: func(*testing.T) []string { return l.all() },
		Neighbours: func(_ *testing.T, node drivers.Spec, upload drivers.ImageSpec) []drivertest.Foreign {
			return l.neighbours(node.Marks, upload.Marks)
		},
		Spoil:          l.spoil(attributes),
		LoseNextAnswer: func(*testing.T) { l.mu.Lock(); defer l.mu.Unlock(); l.lose = "POST /v1/instances" },
		Calls:          func() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.calls) },
		Alone:          true,
	}
}

// spoil are the ways to make an instance with these attributes unusable.
func (l *lab) spoil(attributes map[string]cty.Value) map[string]func(*testing.T, resources.Instance) {
	all := map[string]func(*testing.T, resources.Instance){
		"deleted": func(_ *testing.T, i resources.Instance) { l.Remove("instances", i.ID) },
	}
	for _, status := range []string{"stopping", "stopped", "pausing", "paused", "restarting", "failed"} {
		all[status] = func(_ *testing.T, i resources.Instance) {
			l.Modify("instances", func(d map[string]any) {
				if d["id"] == i.ID {
					d["status"] = status
				}
			})
		}
	}
	if _, public := attributes["public_ipv4"]; public {
		all["without its address"] = func(_ *testing.T, i resources.Instance) { l.Remove("floating_ips", l.floatingIP(i.ID)) }
		all["its address moved"] = func(_ *testing.T, i resources.Instance) { l.use(nil, resources.Leftover{ID: l.floatingIP(i.ID)}) }
	}
	return all
}

// changes describes a call that changes something.
func changes(r *http.Request) string {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/identity/") {
		return ""
	}
	return r.Method + " " + r.URL.Path
}

// all returns the kinds and names of all objects, without those that are being deleted.
func (l *lab) all() (objects []string) {
	for _, kind := range []string{"instances", "volumes", "floating_ips", "images"} {
		for _, name := range l.Names(kind) {
			objects = append(objects, kind+" "+name)
		}
	}
	for _, key := range l.Objects() {
		objects = append(objects, "object "+key)
	}
	slices.Sort(objects)
	return objects
}

// imageConfig adds the operating system, which the suite does not know.
type imageConfig struct{ *Cloud }

func (c *imageConfig) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	if spec.Config == cty.NilVal {
		spec.Config = cty.ObjectVal(map[string]cty.Value{"operating_system": cty.StringVal("debian-12-amd64")})
	}
	return c.Cloud.UploadImage(ctx, spec, content)
}

func (l *lab) foreign(collection, id string) drivertest.Foreign {
	return drivertest.Foreign{ID: id, Stays: func() error {
		err := fmt.Errorf("%s %s is gone", collection, id)
		l.Modify(collection, func(d map[string]any) {
			if d["id"] == id && d["status"] != "deleting" && recordOf(d["name"].(string)) == (resources.OwnerTags{}) {
				err = nil
			}
		})
		return err
	}}
}

// neighbours have names that contain those of npctl.
func (l *lab) neighbours(node, upload resources.OwnerTags) (all []drivertest.Foreign) {
	for kind, m := range map[string]resources.OwnerTags{"instances": node, "images": upload} {
		name, _ := objectName(m)
		for _, name := range []string{"x" + name, strings.TrimSuffix(name, m.Installation[4:]), name[:len(name)-1]} {
			create := l.Instance
			if kind == "images" {
				create = l.Image
			}
			id := create(name)
			all = append(all, drivertest.Foreign{ID: id, Stays: func() error {
				err := fmt.Errorf("%s %s is gone", kind, name)
				l.Modify(kind, func(d map[string]any) {
					if d["id"] == id && d["status"] != "deleting" && d["name"] == name {
						err = nil
					}
				})
				return err
			}})
		}
	}
	return all
}

// copiesOf makes objects with names and tags like those of an object. The region has each name once for a type.
func (l *lab) copiesOf(kind resources.Kind, original string) (copies []drivertest.Foreign) {
	collection := map[resources.Kind]string{resources.KindNode: "instances", resources.KindUpload: "images"}[kind]
	var name string
	l.Modify(collection, func(d map[string]any) {
		if d["id"] == original {
			name = d["name"].(string)
		}
	})
	var tags any
	l.Modify("volumes", func(d map[string]any) {
		if d["name"] == name {
			tags = d["user_tags"]
		}
	})
	names := map[string]string{"instances": name, "images": name, "volumes": name + "-copy-2", "floating_ips": name + "-copy-3"}
	names[collection] += "-copy" // the other one has the very name, as a backup or a restored instance may have
	for collection, id := range map[string]string{"instances": l.Instance(names["instances"]), "images": l.Image(names["images"]),
		"volumes": l.Volume(names["volumes"], ""), "floating_ips": l.FloatingIP(names["floating_ips"], "")} {
		l.Modify(collection, func(d map[string]any) {
			if d["id"] == id && tags != nil {
				d["user_tags"] = tags
			}
		})
		copies = append(copies, drivertest.Foreign{ID: id, Stays: func() error {
			err := fmt.Errorf("%s %s is gone", collection, id)
			l.Modify(collection, func(d map[string]any) {
				if d["id"] == id && d["status"] != "deleting" {
					err = nil
				}
			})
			return err
		}})
	}
	key := name + "-copy.qcow2"
	l.PutObject(key, []byte("theirs"))
	return append(copies, drivertest.Foreign{ID: key, Stays: func() error {
		if !slices.Contains(l.Objects(), key) {
			return fmt.Errorf("object %s is gone", key)
		}
		return nil
	}})
}

// floatingIP returns the ID of the floating IP of an instance.
func (l *lab) floatingIP(instance string) (id string) {
	l.Modify("floating_ips", func(d map[string]any) {
		if strings.Contains(fmt.Sprint(d["target"]), instance) {
			id = d["id"].(string)
		}
	})
	return id
}

// leave creates an object with the name of a record, which nothing uses.
func (l *lab) leave(kind string, create func(name, instance string) string) func(*testing.T, resources.OwnerTags) resources.Leftover {
	return func(_ *testing.T, m resources.OwnerTags) resources.Leftover {
		name := "theirs"
		if m.Installation != "" {
			name, _ = objectName(m)
		}
		return resources.Leftover{Type: kind, ID: create(name, ""), Marks: m}
	}
}

// use makes a new instance use a floating IP or a volume.
func (l *lab) use(_ *testing.T, left resources.Leftover) (end func()) {
	instance := l.Instance(fmt.Sprint("user-", len(l.all())))
	bind := func(target, attachments any) {
		for _, collection := range []string{"floating_ips", "volumes"} {
			l.Modify(collection, func(d map[string]any) {
				if d["id"] == left.ID && collection == "volumes" {
					d["volume_attachments"] = attachments
				} else if d["id"] == left.ID {
					d["target"] = target
				}
			})
		}
	}
	bind(map[string]any{"id": "0716-x", "href": l.URL + "/v1/instances/" + instance + "/network_interfaces/0716-x"},
		[]map[string]any{{"id": "a", "name": "a", "instance": map[string]any{"id": instance}}})
	return func() { bind(nil, []map[string]any{}) }
}

func TestContract(t *testing.T) {
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup { return setup(t, nil) })
}

func TestContractWithEveryAttribute(t *testing.T) {
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		return setup(t, map[string]cty.Value{
			"profiles": words("bx2-2x8", "cx2-2x4"), "zones": words("eu-test-2"), "subnets": words("ci-2"), "security_groups": words("ssh"), "public_ipv4": cty.True,
			"use_internal_ip": cty.True, "keys": words("ci"), "user_data": cty.StringVal("#cloud-config\n"), "volume_size": cty.NumberIntVal(100),
			"volume_profile": cty.StringVal("10iops-tier"), "tags": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("ci")}),
		})
	}, "Instances", "Resolver", "Sweeper", "Kills")
}

func nodeSpec(l *lab, id string, attributes map[string]cty.Value) drivers.Spec {
	return drivers.Spec{Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: id, Label: "Small.1", Pool: "main"}, Hostname: "np" + id,
		ImageID: l.ID("images", "ibm-debian-12-minimal-amd64-1"), Config: offerConfig(attributes)}
}

func TestNextProfileIsTriedWithoutCapacity(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	l.Refuse("cx2-2x4", "insufficient_capacity")
	both := map[string]cty.Value{"profiles": words("cx2-2x4", "bx2-4x16")}
	made, err := c.Create(t.Context(), nodeSpec(l, "1", both))
	testutil.Must(t, err)
	if made.Flavor != "bx2-4x16" || made.Resources.RAM != 16384 || made.Resources.Cores != 4 {
		t.Errorf("instance is a %s with %+v, want the second profile", made.Flavor, made.Resources)
	}
	l.take()
	_, err = c.Create(t.Context(), nodeSpec(l, "2", both))
	testutil.Must(t, err)
	if calls := l.take(); len(calls) != 1 {
		t.Errorf("the second Create made the calls %v, want one: the first profile has no capacity", calls)
	}
	l.Refuse("bx2-4x16", "insufficient_capacity")
	if _, err := c.Create(t.Context(), nodeSpec(l, "3", both)); !errors.Is(err, drivers.ErrCapacity) || !drivers.IsNothingDone(err) || !strings.Contains(err.Error(), "tried") {
		t.Errorf("Create without capacity for any profile: %v, want ErrCapacity", err)
	}
}

// IBM Cloud accepts an instance and fails it later.
func TestLateShortageIsAFaultAndMovesThePreference(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	l.FailLater("cx2-2x4")
	both := map[string]cty.Value{"profiles": words("cx2-2x4", "bx2-2x8")}
	_, err := c.Create(t.Context(), nodeSpec(l, "1", both))
	testutil.Must(t, err)
	var one resources.Instance
	for range 5 {
		all, err := c.List(t.Context())
		testutil.Must(t, err)
		one = all[0]
	}
	if one.Status != resources.StatusFailed || one.FaultKind != resources.FaultCapacity || one.Fault == "" {
		t.Errorf("instance is %s, fault %q of kind %q", one.Status, one.Fault, one.FaultKind)
	}
	made, err := c.Create(t.Context(), nodeSpec(l, "2", both))
	testutil.Must(t, err)
	if made.Flavor != "bx2-2x8" {
		t.Errorf("the next instance is a %s, want the second profile", made.Flavor)
	}
}

func TestListReadsAllPages(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	l.PageSize = 2
	for i := range 5 {
		_, err := c.Create(t.Context(), nodeSpec(l, fmt.Sprint(i), nil))
		testutil.Must(t, err)
	}
	all, err := c.List(t.Context())
	if err != nil || len(all) != 5 {
		t.Fatalf("List = %d instances, %v; want 5", len(all), err)
	}
	for _, i := range all {
		if i.Marks.Label != "Small.1" || i.Marks.Pool != "main" || i.Name != "np"+i.Marks.ID {
			t.Errorf("instance %s has marks %+v", i.Name, i.Marks)
		}
	}
}

func TestCallsOfAHundredNodes(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	const nodes = 100
	public := map[string]cty.Value{"public_ipv4": cty.True}
	l.take()
	for i := range nodes {
		_, err := c.Create(t.Context(), nodeSpec(l, fmt.Sprint(i), public))
		testutil.Must(t, err)
	}
	created := l.take()
	ready := 0
	for range 5 {
		all, err := c.List(t.Context())
		testutil.Must(t, err)
		ready = 0
		for _, i := range all {
			i, err = c.Advance(t.Context(), nodeSpec(l, i.Marks.ID, public), i)
			testutil.Must(t, err)
			if i.Status == resources.StatusReady && i.Addresses.Interface == i.Addresses.PublicIPv4 && i.Addresses.PublicIPv4 != "" {
				ready++
			}
		}
	}
	advanced := l.take()
	all, err := c.List(t.Context())
	testutil.Must(t, err)
	listed := l.take()
	for _, i := range all {
		testutil.Must(t, c.Delete(t.Context(), i.ID, i.Marks))
	}
	deleted := l.take()
	t.Logf("%d nodes: %d calls to create, %d in 5 lists with their floating IPs, %d to delete; one list: %d", nodes, len(created), len(advanced), len(deleted), len(listed))
	if ready != nodes {
		t.Errorf("%d nodes are ready", ready)
	}
	// 4 calls of a node's own to delete it: its name, its floating IP, both deletions
	if len(created) > nodes+4 || len(advanced) > nodes+5*3 || len(listed) != 3 || len(deleted) != 4*nodes {
		t.Errorf("calls are %d, %d, %d, %d", len(created), len(advanced), len(listed), len(deleted))
	}
}

func TestUserTagsAreTheBootVolumes(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	spec := nodeSpec(l, "1", map[string]cty.Value{"tags": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("ci")})})
	spec.Properties = map[string]string{"event": "a/b,ü" + strings.Repeat("x", 200)}
	_, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	var tags []string
	l.Modify("volumes", func(d map[string]any) { tags, _ = d["user_tags"].([]string) })
	if !slices.Contains(tags, "team:ci") || !slices.ContainsFunc(tags, func(s string) bool { return strings.HasPrefix(s, "event:a_b_") && len(s) == 128 }) || !slices.Contains(tags, "npctl_label:.53mall.2e1") {
		t.Errorf("tags are %q", tags)
	}
}

func TestNamesNameOneRecord(t *testing.T) {
	for _, m := range []resources.OwnerTags{
		{Installation: "0b6e8a3c-7d1f-4b52-9a60-1c2d3e4f5a6b", Kind: resources.KindNode, ID: "0000000001"},
		{Installation: "a-b", Kind: resources.KindUpload, ID: "2"},
		{Installation: "x", Kind: resources.KindBuild, ID: "3f"},
	} {
		name, err := objectName(m)
		if err != nil || recordOf(name) != m || len(name) > maxName {
			t.Errorf("objectName(%+v) = %q, %v, read as %+v", m, name, err, recordOf(name))
		}
	}
	for _, name := range []string{"", "npctl", "np0000000001", "npctl-n-1", "npctl-x-1-a", "npctl-n-1-A", "npctl-n-1-a-"} {
		if m := recordOf(name); m != (resources.OwnerTags{}) {
			t.Errorf("recordOf(%q) = %+v, want none", name, m)
		}
	}
	if name, err := objectName(resources.OwnerTags{Installation: "a", Kind: resources.KindNode, ID: "1-b"}); err == nil {
		t.Errorf("an ID with a hyphen has the name %q, which another record may have", name)
	}
}

func TestWrongNamesOfTheProviderAreExplained(t *testing.T) {
	l := newLab(t)
	_, err := l.open(t.Context(), map[string]cty.Value{"vpc": cty.StringVal("cii")})
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "did you mean ci?") {
		t.Errorf("open with an unknown VPC: %v", err)
	}
	_, err = l.open(t.Context(), map[string]cty.Value{"credentials": cty.StringVal("other-account")})
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "OTHER_ACCOUNT_APIKEY") {
		t.Errorf("open without credentials: %v", err)
	}
	t.Setenv("VPC_URL", "")
	_, err = l.openBy(t.Context(), map[string]cty.Value{"region": cty.StringVal("eu-dd.invalid")}, nil)
	if !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("open of an unknown region: %v", err)
	}
}

func TestErrorsOfTheAPIHaveKinds(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		kind   error
		text   string
	}{
		{403, `{"errors":[{"code":"not_authorized","message":"The request is not authorized."}],"trace":"t"}`, drivers.ErrRejected, "permission"},
		{401, `{"errors":[{"code":"not_authorized","message":"x"}]}`, drivers.ErrRejected, "not_authorized"},
		{400, `{"errors":[{"code":"over_quota","message":"x"}]}`, drivers.ErrQuota, "over_quota"},
		{403, `{"errors":[{"code":"ike_policies_quota_exceeded","message":"x"}]}`, drivers.ErrQuota, "quota"},
		{429, `too many`, drivers.ErrThrottled, "429"},
		{503, `<html>`, drivers.ErrUnavailable, "503"},
		{500, `{"errors":[{"code":"internal_error","message":"x"}],"trace":"abc"}`, nil, "[abc]"},
		{409, `{"errors":[{"code":"instance_busy","message":"x"}]}`, nil, "busy"},
		{404, `<?xml version="1.0"?><Error><Code>NoSuchBucket</Code><Message>no bucket</Message></Error>`, drivers.ErrRejected, "NoSuchBucket: no bucket"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/instances", nil)
		testutil.Must(t, err)
		answer := &http.Response{StatusCode: test.status, Status: fmt.Sprint(test.status), Header: http.Header{"Retry-After": {"7"}}, Request: request}
		got := newAPIError("do it", answer, []byte(test.body))
		if !errors.Is(got.Kind, test.kind) || !strings.Contains(got.Error(), test.text) || got.RetryAfter() != 7*time.Second {
			t.Errorf("%d %s: %v of kind %v, want %v", test.status, test.body, got, got.Kind, test.kind)
		}
	}
}

func uploadSpec(content []byte) drivers.ImageSpec {
	return drivers.ImageSpec{Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: "7", Image: "debian"}, Name: "debian-7", Format: "qcow2", Size: int64(len(content)),
		Config: cty.ObjectVal(map[string]cty.Value{"operating_system": cty.StringVal("debian-12-amd64")})}
}

func TestUploadLeavesOneEmptyObject(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	content := []byte("qcow2")
	made, err := c.UploadImage(t.Context(), uploadSpec(content), bytes.NewReader(content))
	testutil.Must(t, err)
	if keys := l.Objects(); len(keys) != 1 || !strings.HasPrefix(keys[0], "npctl-u-7-here.m.") {
		t.Errorf("objects are %q, want that with the properties", keys)
	}
	left, err := c.Leftovers(t.Context())
	if err != nil || len(left) != 1 || !left[0].InUse {
		t.Errorf("leftovers are %+v, %v; want one object in use", left, err)
	}
	testutil.Must(t, c.DeleteImage(t.Context(), made.ID, uploadSpec(content).Marks))
	if keys := l.Objects(); len(keys) != 0 {
		t.Errorf("objects are %q after the deletion", keys)
	}
}

func TestObjectsWithoutAnImageAreLeftovers(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	l.PutObject("npctl-u-9-here.qcow2", []byte("x"))
	l.PutObject("theirs.qcow2", []byte("x"))
	l.PageSize = 1
	left, err := c.Leftovers(t.Context())
	if err != nil || len(left) != 1 || left[0].InUse || left[0].Type != resources.LeftoverObject || left[0].Marks.ID != "9" {
		t.Fatalf("leftovers are %+v, %v", left, err)
	}
	testutil.Must(t, c.DeleteLeftover(t.Context(), left[0]))
	if keys := l.Objects(); !slices.Equal(keys, []string{"theirs.qcow2"}) {
		t.Errorf("objects are %q", keys)
	}
}

func TestUnknownOperatingSystemIsExplained(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	spec := uploadSpec([]byte("x"))
	spec.Config = cty.ObjectVal(map[string]cty.Value{"operating_system": cty.StringVal("debian-12-amd46")})
	_, err := c.UploadImage(t.Context(), spec, bytes.NewReader([]byte("x")))
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "debian-12-amd64") || len(l.Objects()) > 0 {
		t.Errorf("upload: %v, objects %q", err, l.Objects())
	}
}

func TestUploadWithoutABucketNamesTheBlock(t *testing.T) {
	l := newLab(t)
	storage := New().Schema().Provider.Null().AsValueMap()["object_storage"]
	c := l.mustOpen(t, map[string]cty.Value{"object_storage": storage})
	_, err := c.UploadImage(t.Context(), uploadSpec(nil), bytes.NewReader(nil))
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "object_storage") {
		t.Errorf("upload: %v", err)
	}
}

func TestCloudImageIsFoundByItsOperatingSystem(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, nil)
	want := l.ID("images", "ibm-debian-12-minimal-amd64-1")
	for name, filters := range map[string]map[string]resources.AnyOf{
		"system": {"operating_system.vendor": {"Debian"}, "operating_system.architecture": {"amd64"}, "owner_type": {"provider"}, "status": {"available"}},
		"link":   {"href": {l.URL + "/v1/images/" + want}},
	} {
		got, problems, err := c.ResolveImage(t.Context(), resources.CloudImageSpec{Name: "x", Filters: filters})
		if err != nil || len(problems) > 0 || got.ID != want {
			t.Errorf("by %s: %s, %+v, %v", name, got.ID, problems, err)
		}
	}
}

func TestConfiguredLimitsAreTheQuota(t *testing.T) {
	l := newLab(t)
	c := l.mustOpen(t, map[string]cty.Value{"max_servers": cty.NumberIntVal(3), "max_ram": cty.NumberIntVal(8192)})
	l.Instance("theirs")
	q, err := c.Quota(t.Context())
	if err != nil || q.Limit.Instances != 3 || q.Limit.Cores != resources.Unlimited || q.Limit.RAM != 8192 || q.Used.Instances != 1 || q.Used.Cores != 2 {
		t.Errorf("Quota = %+v, %v", q, err)
	}
}

func TestValuesThatTheAPIRejectsAreConfigurationErrors(t *testing.T) {
	tag := func(k, v string) cty.Value { return cty.MapVal(map[string]cty.Value{k: cty.StringVal(v)}) }
	for _, test := range []struct {
		attribute string
		value     cty.Value
		ok        bool
	}{
		{"profiles", words("cx2-2x4"), true}, {"profiles", cty.ListValEmpty(cty.String), false},
		{"user_data", cty.StringVal(strings.Repeat("x", 65536)), true}, {"user_data", cty.StringVal(strings.Repeat("x", 65537)), false},
		{"tags", tag("a", "b"), true}, {"tags", tag("a:b", "c"), false}, {"tags", tag("npctl_pool", "b"), false}, {"tags", tag("a", strings.Repeat("x", 127)), false},
		{"request_properties", tag("a", "{request.id}"), true}, {"request_properties", tag("a", "{request.tenant}"), false}, {"request_properties", tag("a/b", "x"), false},
	} {
		a, found := New().Schema().Label.Lookup(test.attribute)
		if !found || a.Check == nil {
			t.Fatalf("label has no checked attribute %s", test.attribute)
		}
		if err := a.Check(test.value); (err == nil) != test.ok {
			t.Errorf("%s = %.40v…: %v, want ok = %t", test.attribute, test.value.GoString(), err, test.ok)
		}
	}
}

func TestEndlessListsAreErrors(t *testing.T) {
	l := newLab(t)
	drivertest.EndlessLists(t, drivertest.Listing{
		Open: func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
			c, err := l.openBy(t.Context(), nil, func(next http.RoundTripper) http.RoundTripper { return wrap(l.wrap(next)) })
			testutil.Must(t, err)
			t.Cleanup(func() { c.Close() })
			return c
		},
		Is: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/v1/instances") },
		Page: func(items int, token string) string {
			return `{"instances": [{}` + strings.Repeat(`,{}`, items-1) + `], "next": {"href": "https://ibm.test/v1/instances?start=` + token + `"}}`
		},
	})
}
