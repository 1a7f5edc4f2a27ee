package gce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/oauth2"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func offerConfig(attributes map[string]cty.Value) cty.Value {
	values := New().Schema().Label.Null().AsValueMap()
	values["machine_types"] = words("e2-small")
	for name, value := range attributes {
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func words(all ...string) cty.Value {
	var list []cty.Value
	for _, word := range all {
		list = append(list, cty.StringVal(word))
	}
	return cty.ListVal(list)
}

// lossy is a transport that loses the next response to an insert.
type lossy struct{ armed atomic.Bool }

func (l *lossy) wrap(next http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/instances") && l.armed.CompareAndSwap(true, false) {
			answer.Body.Close()
			return nil, errors.New("connection reset by test")
		}
		return answer, err
	})
}

func openAt(t *testing.T, s *gcetest.Server, settings map[string]cty.Value, wrap func(http.RoundTripper) http.RoundTripper) (*Cloud, error) {
	t.Helper()
	values := map[string]cty.Value{"project": cty.StringVal(gcetest.Project), "region": cty.StringVal(gcetest.Region), "endpoint": cty.StringVal(s.Endpoint())}
	for name, value := range settings {
		values[name] = value
	}
	// Google's library sends requests for tokens with the client of the context.
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: s.Transport()})
	c, err := New().Open(ctx, drivers.Env{Provider: "drivertest", WrapTransport: wrap}, cty.ObjectVal(values))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c.(*Cloud), nil
}

func mustOpen(t *testing.T, s *gcetest.Server, wrap func(http.RoundTripper) http.RoundTripper) *Cloud {
	t.Helper()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", s.Credentials(t))
	c, err := openAt(t, s, nil, wrap)
	testutil.Must(t, err)
	return c
}

// other is the client of another user of the project.
type other struct {
	t testing.TB
	*compute.Service
}

func otherUser(t testing.TB, endpoint string, options ...option.ClientOption) other {
	t.Helper()
	service, err := compute.NewService(context.WithoutCancel(t.Context()), append(options, option.WithEndpoint(endpoint))...)
	testutil.Must(t, err)
	return other{t, service}
}

var lastNumber atomic.Int64

func newName() string { return fmt.Sprintf("foreign-%d", lastNumber.Add(1)) }

func (o other) instance() string { return o.instanceCalled(newName()) }

func (o other) instanceCalled(name string) string {
	return o.instanceWith(name, map[string]string{"owner": "another"})
}

func (o other) instanceWith(name string, labels map[string]string) string {
	o.t.Helper()
	_, err := o.Instances.Insert(gcetest.Project, gcetest.Zone, &compute.Instance{Name: name, MachineType: "zones/" + gcetest.Zone + "/machineTypes/e2-small",
		Labels:            labels,
		Disks:             []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: gcetest.Image}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Network: "global/networks/default"}}}).Do()
	testutil.Must(o.t, err)
	return gcetest.Zone + "/" + name
}

func (o other) disk(labels map[string]string) string { return o.diskCalled(newName(), labels) }

func (o other) diskCalled(name string, labels map[string]string) string {
	o.t.Helper()
	_, err := o.Disks.Insert(gcetest.Project, gcetest.Zone, &compute.Disk{Name: name, SizeGb: 10, Labels: labels}).Do()
	testutil.Must(o.t, err)
	return name
}

func (o other) attach(instance, disk string) {
	o.t.Helper()
	at, _ := placeOf(instance)
	_, err := o.Instances.AttachDisk(gcetest.Project, at.zone, at.name, &compute.AttachedDisk{Source: "zones/" + at.zone + "/disks/" + disk}).Do()
	testutil.Must(o.t, err)
}

// neighbours are an instance with its disk, and a disk that no instance uses. Their labels are those of npctl with other keys.
func (o other) neighbours(s *gcetest.Server, name string) (all []drivertest.Foreign) {
	o.t.Helper()
	before := s.Objects()
	instance, disk := o.instanceCalled(name), o.diskCalled(name+"-disk", map[string]string{"npctl-id": "1", "installation": "here"})
	ids := map[string]string{name: instance, name + "-disk": gcetest.Zone + "/" + disk}
	for _, object := range s.Objects() {
		if slices.Contains(before, object) {
			continue
		}
		_, called, _ := strings.Cut(object, " ")
		all = append(all, drivertest.Foreign{ID: ids[base(called)], Stays: func() error {
			if !slices.Contains(s.Objects(), object) {
				return errors.New(object + " is gone")
			}
			return nil
		}})
	}
	return all
}

// use attaches a disk to an instance.
func (o other) use(t *testing.T, l resources.Leftover) (end func()) {
	t.Helper()
	instance := o.instance()
	o.attach(instance, base(l.ID))
	return func() {
		_, err := o.Instances.Delete(gcetest.Project, gcetest.Zone, base(instance)).Do()
		testutil.Must(t, err)
		_, err = o.Instances.AggregatedList(gcetest.Project).Do() // the end of the deletion
		testutil.Must(t, err)
	}
}

// copiesOf makes a disk and an instance with the labels of an instance, as those of its machine image.
func (o other) copiesOf(t *testing.T, original string) []drivertest.Foreign {
	t.Helper()
	at, _ := placeOf(original)
	i, err := o.Instances.Get(gcetest.Project, at.zone, at.name).Do()
	testutil.Must(t, err)
	instance, disk := o.instanceWith(newName(), i.Labels), o.disk(i.Labels)
	return []drivertest.Foreign{
		{ID: instance, Stays: func() error {
			_, err := o.Instances.Get(gcetest.Project, gcetest.Zone, base(instance)).Do()
			return err
		}},
		{ID: gcetest.Zone + "/" + disk, Stays: func() error { _, err := o.Disks.Get(gcetest.Project, gcetest.Zone, disk).Do(); return err }},
	}
}

func (o other) attachedDisk(instance string) []drivertest.Foreign {
	name := o.disk(nil)
	o.attach(instance, name)
	return []drivertest.Foreign{{ID: name, Stays: func() error {
		d, err := o.Disks.Get(gcetest.Project, gcetest.Zone, name).Do()
		if err == nil && d.Labels[tagInstallation] != "" {
			err = fmt.Errorf("disk %s has ownership labels", name)
		}
		return err
	}}}
}

func (o other) leave(m resources.OwnerTags) resources.Leftover {
	o.t.Helper()
	labels, err := ownerLabels(m)
	testutil.Must(o.t, err)
	return resources.Leftover{Type: resources.LeftoverVolume, ID: gcetest.Zone + "/" + o.disk(labels), Marks: m}
}

// exhaust rejects each instance of one machine type.
func exhaust(s *gcetest.Server, kind error) (offer cty.Value, requests func() int) {
	code, n := "ZONE_RESOURCE_POOL_EXHAUSTED", 0
	if errors.Is(kind, drivers.ErrQuota) {
		code = "QUOTA_EXCEEDED"
	}
	s.Change(func(s *gcetest.Server) {
		s.Fails = func(_, machineType string) (string, string) {
			if machineType != "e2-small" {
				return "", ""
			}
			n++
			return code, "rejected by the test"
		}
	})
	return offerConfig(map[string]cty.Value{"machine_types": words("e2-small", "e2-medium")}), func() int { return n }
}

// others are the types of leftovers besides disks.
var others = []string{resources.LeftoverPort, resources.LeftoverFloatingIP, resources.LeftoverSnapshot, resources.LeftoverObject, resources.LeftoverHost,
	resources.LeftoverLaunchTemplate}

func setup(t *testing.T, offer cty.Value) drivertest.Setup {
	t.Helper()
	s, l := gcetest.InMemory(), &lossy{}
	s.Limits["PREEMPTIBLE_CPUS"] = 100
	direct := func(http.RoundTripper) http.RoundTripper { return s.Transport() }
	c := mustOpen(t, s, func(http.RoundTripper) http.RoundTripper { return l.wrap(s.Transport()) })
	o := otherUser(t, s.Endpoint(), option.WithHTTPClient(s.Client()))
	wrong, secret := s.WrongCredentials(t)
	with := func(name string, value cty.Value) cty.Value { return offerConfig(map[string]cty.Value{name: value}) }
	return drivertest.Setup{
		Cloud: c,
		Reopen: func(t *testing.T) drivers.Cloud {
			t.Helper()
			again, err := openAt(t, s, nil, direct)
			testutil.Must(t, err)
			return again
		},
		Config:  offer,
		ImageID: gcetest.Image,
		Lacks:   []string{"images", "access", "snapshots", "adopter"},
		Rejected: map[string]func(*drivers.Spec){
			"unknown image":      func(s *drivers.Spec) { s.ImageID = "projects/debian-cloud/global/images/debian-1" },
			"unknown type":       func(s *drivers.Spec) { s.Config = with("machine_types", words("e2-smal")) },
			"unknown network":    func(s *drivers.Spec) { s.Config = with("network", cty.StringVal("ci-networc")) },
			"unknown subnetwork": func(s *drivers.Spec) { s.Config = with("subnetwork", cty.StringVal("absent")) },
			"unknown zone":       func(s *drivers.Spec) { s.Zone = "europe-west1-x" },
			"bad key":            func(s *drivers.Spec) { s.Properties = map[string]string{"Upper Case": "a"} },
			"long id":            func(s *drivers.Spec) { s.Marks.ID = strings.Repeat("x", 64) },
		},
		BadOffers: map[string]drivertest.BadOffer{
			"machine_types": {Config: with("machine_types", words("e2-smal")), Attribute: "machine_types", Near: "e2-small"},
			"zones":         {Config: with("zones", words("europe-west1-a")), Attribute: "zones", Near: "europe-west1-b"},
			"network":       {Config: with("network", cty.StringVal("ci-networc")), Attribute: "network", Near: "ci-network"},
			"subnetwork":    {Config: with("subnetwork", cty.StringVal("ci-subne")), Attribute: "subnetwork", Near: "ci-subnet"},
			"volume_type":   {Config: with("volume_type", cty.StringVal("pd-sdd")), Attribute: "volume_type", Near: "pd-ssd"},
		},
		OpenWrong: func(t *testing.T) error {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", wrong)
			_, err := openAt(t, s, nil, direct)
			return err
		},
		Withdraw:  func(*testing.T) { s.Withdraw() },
		Secrets:   append(strings.Fields(secret)[3:10], "ya29."),
		FillQuota: func(*testing.T) { s.Change(func(s *gcetest.Server) { s.Limits["INSTANCES"] = 0 }) },
		Exhaust:   func(_ *testing.T, kind error) (cty.Value, func() int) { return exhaust(s, kind) },
		Foreign:   func(*testing.T) string { return o.instance() },
		Attach:    func(_ *testing.T, instance string) []drivertest.Foreign { return o.attachedDisk(instance) },
		Copies: func(t *testing.T, _ resources.Kind, original string) []drivertest.Foreign {
			return o.copiesOf(t, original)
		},
		Leftovers: map[string]drivertest.Leftover{
			resources.LeftoverVolume: {Leave: func(_ *testing.T, m resources.OwnerTags) resources.Leftover { return o.leave(m) }, Use: o.use},
		},
		Omits: drivertest.NotCreated(nil, others...),
		Kill: func(t *testing.T, k *testutil.Killer) drivers.Cloud {
			return mustOpen(t, s, func(http.RoundTripper) http.RoundTripper { return k.Transport(s.Transport(), changes) })
		},
		Objects: func(*testing.T) []string { return s.Objects() },
		Neighbours: func(_ *testing.T, node drivers.Spec, _ drivers.ImageSpec) []drivertest.Foreign {
			return o.neighbours(s, node.Hostname+"-old")
		},
		LoseNextAnswer: func(*testing.T) { l.armed.Store(true) },
		Spoil:          spoil(s, offer),
		Calls:          s.Calls,
		Alone:          true,
	}
}

// spoil are the ways to make an instance of an offer unusable.
func spoil(s *gcetest.Server, offer cty.Value) map[string]func(*testing.T, resources.Instance) {
	all := map[string]func(*testing.T, resources.Instance){}
	modified := func(name string, f func(*compute.Instance)) {
		all[name] = func(_ *testing.T, i resources.Instance) { s.Modify(i.ID, f) }
	}
	for _, status := range []string{"STOPPING", "TERMINATED", "STOPPED", "SUSPENDING", "SUSPENDED", "REPAIRING"} {
		modified(status, func(i *compute.Instance) { i.Status = status })
	}
	if internal := offer.GetAttr("use_internal_ip"); internal.IsNull() || internal.False() {
		modified("without its address", func(i *compute.Instance) { i.NetworkInterfaces[0].AccessConfigs = nil })
		modified("with another address", func(i *compute.Instance) { i.NetworkInterfaces[0].AccessConfigs[0].NatIP = "34.76.250.250" })
	}
	return all
}

// changes describes a call that changes something, and the wait for an operation, which is where a launch spends its time.
func changes(r *http.Request) string {
	if r.Method == http.MethodGet || r.URL.Path == "/token" {
		return ""
	}
	return r.Method + " " + r.URL.Path
}

func TestContract(t *testing.T) {
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup { return setup(t, offerConfig(nil)) })
}

func everyAttribute() map[string]cty.Value {
	return map[string]cty.Value{
		"machine_types": words("n2-standard-4", "e2-small"), "zones": words(gcetest.Zone), "network": cty.StringVal("ci-network"), "subnetwork": cty.StringVal("ci-subnet"),
		"network_tags": words("ci"), "ssh_keys": words("zuul:ssh-ed25519 AAAA zuul", "root:ssh-ed25519 BBBB"), "volume_size": cty.NumberIntVal(20), "volume_type": cty.StringVal("pd-ssd"),
		"userdata": cty.StringVal("#cloud-config\n"), "metadata": cty.MapVal(map[string]cty.Value{"startup-script": cty.StringVal("#!/bin/sh\n")}),
		"service_account": cty.StringVal("default"), "scopes": words("cloud-platform"), "labels": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("ci")}),
		"provisioning_model": cty.StringVal("spot"), "use_internal_ip": cty.True, "public_ipv4": cty.False, "nested_virtualization": cty.True,
	}
}

func TestContractWithEveryAttribute(t *testing.T) {
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup {
		one := setup(t, offerConfig(everyAttribute()))
		one.Zone = gcetest.Zone
		return one
	}, "Instances", "Resolver", "Kills")
}

func TestEndlessListsAreErrors(t *testing.T) {
	s := gcetest.InMemory()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", s.Credentials(t))
	drivertest.EndlessLists(t, drivertest.Listing{
		Open: func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
			c, err := openAt(t, s, nil, func(http.RoundTripper) http.RoundTripper { return wrap(s.Transport()) })
			testutil.Must(t, err)
			return c
		},
		Is: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/aggregated/instances") },
		Page: func(items int, token string) string {
			return `{"items": {"zones/a": {"instances": [{}` + strings.Repeat(`,{}`, items-1) + `]}}, "nextPageToken": "` + token + `"}`
		},
	})
}
