package openstack

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func TestServersBecomeInstances(t *testing.T) {
	const ours = `"npctl_installation": "inst", "npctl_node_id": "7", "npctl_pool": "main"`
	marks := resources.OwnerTags{Installation: "inst", Kind: resources.KindNode, ID: "7", Pool: "main"}
	base := resources.Instance{
		ID: "s1", Name: "np7", Marks: marks, Region: "RegionOne", Cloud: "lab", Zone: "az1", HostID: "h", Flavor: "small",
		Resources: resources.ResourceAmounts{Instances: 1, Cores: 1, RAM: 2048}, Created: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
	}
	with := func(change func(*resources.Instance)) resources.Instance {
		i := base
		change(&i)
		return i
	}
	private := resources.Addresses{Interface: "10.0.0.5", PrivateIPv4: "10.0.0.5"}
	const fixed4 = `{"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"}`
	for name, test := range map[string]struct {
		changes string // over the usual server
		want    resources.Instance
	}{
		"active": {`"status": "ACTIVE", "addresses": {"private": [` + fixed4 + `]}`,
			with(func(i *resources.Instance) { i.Status, i.Addresses = resources.StatusReady, private })},
		"building":                  {`"status": "BUILD"`, with(func(i *resources.Instance) { i.Status = resources.StatusPending })},
		"active before its address": {`"status": "ACTIVE", "addresses": {}`, with(func(i *resources.Instance) { i.Status, i.AddressLate = resources.StatusPending, true })},
		"being deleted":             {`"status": "ACTIVE", "OS-EXT-STS:task_state": "deleting"`, with(func(i *resources.Instance) { i.Status = resources.StatusDeleting })},
		"shut off": {`"status": "SHUTOFF"`, with(func(i *resources.Instance) {
			i.Status, i.Fault = resources.StatusFailed, "server is SHUTOFF"
		})},
		"failed": {`"status": "ERROR", "fault": {"code": 500, "message": "No valid host was found. "}`, with(func(i *resources.Instance) {
			i.Status, i.Fault, i.FaultKind = resources.StatusFailed, "No valid host was found.", resources.FaultCapacity
		})},
		"failed just now, reason to follow": {`"status": "ERROR", "updated": "` + time.Now().UTC().Format(time.RFC3339) + `"`,
			with(func(i *resources.Instance) { i.Status = resources.StatusPending })},
		"in a cell that is down": {`"status": "UNKNOWN", "metadata": null, "name": "", "flavor": {}`, with(func(i *resources.Instance) {
			i.Status, i.Name, i.Marks, i.Flavor = resources.StatusPending, "", resources.OwnerTags{}, ""
			i.Resources.Cores, i.Resources.RAM = 0, 0
		})},
		"of another owner": {`"status": "BUILD", "metadata": {"purpose": "x", "npctl_node_id": "7"}`, with(func(i *resources.Instance) {
			i.Status, i.Marks = resources.StatusPending, resources.OwnerTags{}
		})},
		"old Nova shows the flavor's id": {`"status": "BUILD", "flavor": {"id": "f2"}`, with(func(i *resources.Instance) {
			i.Status, i.Flavor, i.Resources.Cores, i.Resources.RAM = resources.StatusPending, "large", 8, 8192
		})},
		"waits for its floating IP": {`"status": "ACTIVE", "metadata": {` + ours + `, "npctl_floating_ip": "true"}, "addresses": {"private": [` + fixed4 + `]}`,
			with(func(i *resources.Instance) {
				i.Status, i.AddressLate, i.Addresses = resources.StatusPending, true, private
			})},
		"has its floating IP": {`"status": "ACTIVE", "metadata": {` + ours + `, "npctl_floating_ip": "true"},
			"addresses": {"private": [` + fixed4 + `, {"addr": "172.24.4.9", "version": 4, "OS-EXT-IPS:type": "floating"}]}`,
			with(func(i *resources.Instance) {
				i.Status, i.Resources.Addresses = resources.StatusReady, 1
				i.Addresses = resources.Addresses{Interface: "172.24.4.9", PublicIPv4: "172.24.4.9", PrivateIPv4: "10.0.0.5"}
			})},
		"on an external network": {`"status": "ACTIVE", "addresses": {"public": [{"addr": "127.78.0.5", "version": 4}, {"addr": "fd00::5", "version": 6}]}`,
			with(func(i *resources.Instance) {
				i.Status = resources.StatusReady
				i.Addresses = resources.Addresses{Interface: "127.78.0.5", PublicIPv4: "127.78.0.5", PrivateIPv4: "127.78.0.5", PublicIPv6: "fd00::5"}
			})},
		"IPv6 alone": {`"status": "ACTIVE", "addresses": {"private": [{"addr": "2001:db9::1", "version": 6}]}`, with(func(i *resources.Instance) {
			i.Status, i.Addresses = resources.StatusReady, resources.Addresses{Interface: "2001:db9::1", PublicIPv6: "2001:db9::1"}
		})},
		"IPv6 chosen": {`"status": "ACTIVE", "metadata": {` + ours + `, "npctl_interface": "public/6/"}, "addresses": {"private": [` + fixed4 + `, {"addr": "fd00::5", "version": 6}]}`,
			with(func(i *resources.Instance) {
				i.Status, i.Addresses = resources.StatusReady, resources.Addresses{Interface: "fd00::5", PrivateIPv4: "10.0.0.5", PrivateIPv6: "fd00::5"}
			})},
		"internal address chosen": {`"status": "ACTIVE", "metadata": {` + ours + `, "npctl_interface": "internal/0/"}, "addresses": {"public": [{"addr": "8.8.4.4", "version": 4}], "private": [` + fixed4 + `]}`,
			with(func(i *resources.Instance) {
				i.Status, i.Addresses = resources.StatusReady, resources.Addresses{Interface: "10.0.0.5", PublicIPv4: "8.8.4.4", PrivateIPv4: "10.0.0.5"}
			})},
		"network chosen": {`"status": "ACTIVE", "metadata": {` + ours + `, "npctl_interface": "public/0/second"}, "addresses": {"first": [` + fixed4 + `], "second": [{"addr": "10.9.0.5", "version": 4}]}`,
			with(func(i *resources.Instance) {
				i.Status, i.Addresses = resources.StatusReady, resources.Addresses{Interface: "10.9.0.5", PrivateIPv4: "10.0.0.5"}
			})},
		"boots from a volume": {`"status": "BUILD", "metadata": {` + ours + `, "npctl_volume_gb": "30"}, "image": ""`, with(func(i *resources.Instance) {
			i.Status, i.Resources.Volumes, i.Resources.VolumeGB = resources.StatusPending, 1, 30
		})},
	} {
		t.Run(name, func(t *testing.T) {
			usual := `"id": "s1", "name": "np7", "status": "BUILD", "created": "2026-03-01T10:00:00Z", "hostId": "h", "OS-EXT-AZ:availability_zone": "az1",
				"flavor": {"original_name": "small", "vcpus": 1, "ram": 2048}, "metadata": {` + ours + `}`
			var s server
			// A later key replaces an earlier one, but maps would be merged.
			testutil.Must(t, json.Unmarshal([]byte("{"+usual+"}"), &s))
			var changed map[string]json.RawMessage
			testutil.Must(t, json.Unmarshal([]byte("{"+test.changes+"}"), &changed))
			if changed["metadata"] != nil {
				s.Metadata = nil
			}
			if changed["flavor"] != nil {
				s.Flavor = serverFlavor{}
			}
			testutil.Must(t, json.Unmarshal([]byte("{"+test.changes+"}"), &s))
			c := &Cloud{session: &session{entry: entry{name: "lab", region: "RegionOne"}}}
			got := c.instance(s, externalNetworks{"public": true}, []flavor{{ID: "f2", Name: "large", VCPUs: 8, RAM: 8192}})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("instance (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnershipTagsSurviveRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringN(0, 20, 40)
		m := resources.OwnerTags{
			Installation: rapid.StringN(1, 20, 40).Draw(t, "installation"), ID: rapid.StringN(1, 20, 40).Draw(t, "id"),
			Kind:     rapid.SampledFrom([]resources.Kind{resources.KindNode, resources.KindUpload}).Draw(t, "kind"),
			Provider: word.Draw(t, "provider"), Pool: word.Draw(t, "pool"), Label: word.Draw(t, "label"),
			Image: word.Draw(t, "image"), Build: word.Draw(t, "build"), Hash: resources.Hash(word.Draw(t, "hash")),
		}
		if got := drivers.DecodeTags(drivers.EncodeTags(m)); got != m {
			t.Fatalf("metadata: wrote %+v, read %+v", m, got)
		}
		text := description(m)
		got := marksIn(text)
		if got.Installation != m.Installation || got.ID != m.ID || got.Kind != m.Kind {
			t.Fatalf("description %q: wrote %+v, read %+v", text, m, got)
		}
	})
	long := resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "1", Provider: fmt.Sprintf("%0300d", 1)}
	if text := description(long); len(text) > maxDescription || marksIn(text).ID != "1" {
		t.Errorf("description of long marks is %d bytes: %s", len(text), text)
	}
	for _, text := range []string{"", "web server", "npctl", "npctl:", "npctl:id=1", "npctl:%zz"} {
		if got := marksIn(text); got != (resources.OwnerTags{}) {
			t.Errorf("description %q has marks %+v, want none", text, got)
		}
	}
}

func TestFlavorIsTheSmallestThatFits(t *testing.T) {
	list := []flavor{{ID: "1", Name: "b-2g", RAM: 2048}, {ID: "2", Name: "a-2g", RAM: 2048}, {ID: "3", Name: "perf-4g", RAM: 4096}, {ID: "4", Name: "3", RAM: 512}}
	for _, test := range []struct {
		name string
		ram  int64
		want string // id
	}{
		{"b-2g", 0, "1"}, {"2", 0, "2"}, {"3", 0, "4"}, {"", 2000, "2"}, {"", 2049, "3"}, {"perf", 1, "3"}, {"", 99999, ""}, {"nope", 0, ""}, {"nope", 1, ""},
	} {
		if got, _ := chooseFlavor(list, test.name, test.ram); got.ID != test.want {
			t.Errorf("flavor %q with min_ram %d is %q, want %q", test.name, test.ram, got.ID, test.want)
		}
	}
}

func TestSuggestionsAreSimilarNames(t *testing.T) {
	names := []string{"private", "public", "storage", "v3-starter-2", "v3-standard-2"}
	for name, want := range map[string][]string{
		"privat": {"private"}, "Public": {"public"}, "v3-starter": {"v3-starter-2"}, "zzz": nil, "publik": {"public"},
	} {
		if diff := cmp.Diff(want, drivers.Suggestions(name, names)); diff != "" {
			t.Errorf("near %q (-want +got):\n%s", name, diff)
		}
	}
}
