package openstack

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func nodeSpec(attributes map[string]cty.Value) drivers.Spec {
	return drivers.Spec{
		Marks:    resources.OwnerTags{Installation: "inst", Kind: resources.KindNode, ID: "0000000007", Provider: "lab", Pool: "main", Label: "small", Image: "diskimage.debian", Hash: "v1:ab"},
		Hostname: "np0000000007", ImageID: "image-1", Zone: "az1", Config: offerConfig(attributes), Properties: map[string]string{"team": "ci"},
	}
}

func pretty(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", " "); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out.String()
}

func TestServerIsCreatedInOneCall(t *testing.T) {
	r := newReplay(t)
	r.on("POST /compute/v2.1/servers", 202, `{"server": {"id": "s1", "adminPass": "x"}}`)
	r.on("GET /network/v2.0/security-groups", 200, `{"security_groups": [{"id": "g-other", "name": "ssh", "project_id": "other"}, {"id": "g1", "name": "ssh", "project_id": "project"}]}`)
	c := r.open(nil)
	got, err := c.Create(t.Context(), nodeSpec(map[string]cty.Value{
		"security_groups": cty.ListVal([]cty.Value{cty.StringVal("ssh")}), "key_name": cty.StringVal("k"), "userdata": cty.StringVal("abcd"),
		"config_drive": cty.True, "boot_from_volume": cty.True, "volume_size": cty.NumberIntVal(30), "volume_type": cty.StringVal("fast"),
		"auto_floating_ip": cty.True, "tags": cty.ListVal([]cty.Value{cty.StringVal("ci")}), "ip_version": cty.NumberIntVal(6),
		"instance_properties": cty.MapVal(map[string]cty.Value{"team": cty.StringVal("lost"), "cost": cty.StringVal("7")}),
	}))
	testutil.Must(t, err)
	want := resources.Instance{
		ID: "s1", Name: "np0000000007", Marks: nodeSpec(nil).Marks, Status: resources.StatusPending, Zone: "az1", Region: "RegionOne", Cloud: "lab", Flavor: "small",
		Resources: resources.ResourceAmounts{Instances: 1, Cores: 1, RAM: 2048, Volumes: 1, VolumeGB: 30, Addresses: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
	wantBody := pretty(t, `{"server": {"availability_zone": "az1",
		"block_device_mapping_v2": [{"boot_index": 0, "delete_on_termination": true, "destination_type": "volume", "source_type": "image", "uuid": "image-1", "volume_size": 30, "volume_type": "fast"}],
		"config_drive": true, "flavorRef": "f1", "imageRef": "", "key_name": "k",
		"metadata": {"cost": "7", "npctl_floating_ip": "true", "npctl_hash": "v1:ab", "npctl_image": "diskimage.debian", "npctl_installation": "inst", "npctl_interface": "public/6/",
			"npctl_label": "small", "npctl_node_id": "0000000007", "npctl_pool": "main", "npctl_provider": "lab", "npctl_volume_gb": "30", "team": "ci"},
		"name": "np0000000007", "networks": [{"uuid": "net-1"}], "security_groups": [{"name": "g1"}], "tags": ["npctl", "ci"],
		"user_data": "`+base64.StdEncoding.EncodeToString([]byte("abcd"))+`"}}`)
	if diff := cmp.Diff(wantBody, pretty(t, r.body("POST /compute/v2.1/servers"))); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	before := len(r.asked(""))
	if _, err := c.Create(t.Context(), nodeSpec(nil)); err != nil {
		t.Fatal(err)
	}
	if n := len(r.asked("")) - before; n != 1 {
		t.Errorf("the second server took %d calls, want 1:\n%s", n, strings.Join(r.asked("")[before:], "\n"))
	}
}

func TestOldNovaGetsOnlySupportedFields(t *testing.T) {
	r := newReplay(t)
	r.newest = "2.30"
	r.on("POST /compute/v2.1/servers", 202, `{"server": {"id": "s1"}}`)
	spec := nodeSpec(map[string]cty.Value{"networks": cty.NullVal(cty.List(cty.String)), "tags": cty.ListVal([]cty.Value{cty.StringVal("ci")})})
	if _, err := r.open(nil).Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	body := r.body("POST /compute/v2.1/servers")
	if strings.Contains(body, `"tags"`) || strings.Contains(body, `"networks"`) {
		t.Errorf("a Nova without tags and automatic networks was asked for them: %s", body)
	}
}

func TestNameCachesAreDroppedAfter400(t *testing.T) {
	r := newReplay(t)
	r.on("POST /compute/v2.1/servers", 400, `{"badRequest": {"code": 400, "message": "Flavor f1 could not be found."}}`)
	c := r.open(nil)
	for range 2 {
		if _, err := c.Create(t.Context(), nodeSpec(nil)); !errors.Is(err, drivers.ErrRejected) {
			t.Fatalf("Create: %v, want ErrRejected", err)
		}
	}
	if n := len(r.asked("GET /compute/v2.1/flavors/detail")); n != 2 {
		t.Errorf("flavors were listed %d times, want once per try", n)
	}
}

func TestRetriedCreateFindsExistingServer(t *testing.T) {
	r := newReplay(t)
	shown := func(installation, task string) string {
		return fmt.Sprintf(`{"servers": [{"id": "s1", "name": "np0000000007", "status": "BUILD", "OS-EXT-STS:task_state": %q,
			"metadata": {"npctl_installation": %q, "npctl_node_id": "0000000007"}, "flavor": {"original_name": "small"}}]}`, task, installation)
	}
	r.on("POST /compute/v2.1/servers", 202, `{"server": {"id": "s2"}}`)
	c := r.open(nil)
	spec := nodeSpec(nil)
	spec.MaybeCreated = true
	for _, test := range []struct{ name, list, want string }{
		{"there", shown("inst", "spawning"), "s1"}, {"another installation's", shown("other", ""), "s2"},
		{"on its way out", shown("inst", "deleting"), "s2"}, {"not there", `{"servers": []}`, "s2"},
	} {
		r.on("GET /compute/v2.1/servers/detail", 200, test.list)
		if got, err := c.Create(t.Context(), spec); err != nil || got.ID != test.want {
			t.Errorf("%s: Create = %s, %v; want %s", test.name, got.ID, err, test.want)
		}
	}
	if asked := r.asked("GET /compute/v2.1/servers/detail"); !strings.Contains(asked[0], "name=%5Enp0000000007%24") {
		t.Errorf("looked with %s, want a filter by name", asked[0])
	}
}

// serverPages responds like Nova: pages of the given size, and 400 for a marker that is gone.
func serverPages(ids []string, size int, gone func(marker string) bool) func(*http.Request) (int, string) {
	return func(q *http.Request) (int, string) {
		start := 0
		if marker := q.URL.Query().Get("marker"); marker != "" {
			if gone(marker) {
				return 400, `{"badRequest": {"code": 400, "message": "marker [` + marker + `] not found"}}`
			}
			for i, id := range ids {
				if id == marker {
					start = i + 1
				}
			}
		}
		end := min(start+size, len(ids))
		var page []string
		for _, id := range ids[start:end] {
			page = append(page, fmt.Sprintf(`{"id": %q, "status": "BUILD", "flavor": {"original_name": "small"}}`, id))
		}
		links := ""
		if end < len(ids) {
			links = `, "servers_links": [{"rel": "next", "href": "http://unreachable.invalid/next"}]`
		}
		return 200, `{"servers": [` + strings.Join(page, ",") + `]` + links + `}`
	}
}

func TestListFollowsMarkersAndRestartsWhenAMarkerIsDeleted(t *testing.T) {
	r := newReplay(t)
	ids := []string{"a", "b", "c", "d", "e"}
	fail := true
	r.when("GET /compute/v2.1/servers/detail", serverPages(ids, 2, func(marker string) bool {
		gone := marker == "d" && fail
		fail = fail && !gone
		return gone
	}))
	got, err := r.open(nil).List(t.Context())
	testutil.Must(t, err)
	if names := namesOf(got, func(i resources.Instance) string { return i.ID }); len(got) != 5 || !cmp.Equal(names, ids) {
		t.Errorf("listed %v of %d, want each of %v once", names, len(got), ids)
	}
	if n := len(r.asked("GET /compute/v2.1/servers/detail")); n != 6 {
		t.Errorf("%d calls, want 3 of the first try and 3 of the second", n)
	}
}

func TestTokenExpiredDuringListIsRenewed(t *testing.T) {
	r := newReplay(t)
	r.on("GET /compute/v2.1/servers/detail", 200, `{"servers": []}`)
	c := r.open(nil)
	r.accept("gAAAAtoken-2")
	if _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.logins != 2 {
		t.Errorf("%d logins, want 2", r.logins)
	}
}

func TestFaultMissingInListIsReadOnce(t *testing.T) {
	r := newReplay(t)
	const failed = `{"id": "s1", "status": "ERROR", "metadata": {"npctl_installation": "inst", "npctl_node_id": "7"}, "flavor": {"original_name": "small"}%s}`
	r.on("GET /compute/v2.1/servers/detail", 200, `{"servers": [`+fmt.Sprintf(failed, "")+`, {"id": "s2", "status": "ERROR"}]}`)
	r.on("GET /compute/v2.1/servers/s1", 200, `{"server": `+fmt.Sprintf(failed, `, "fault": {"message": "No valid host was found. "}`)+`}`)
	c := r.open(nil)
	for range 3 {
		list, err := c.List(t.Context())
		if err != nil || list[0].FaultKind != resources.FaultCapacity {
			t.Fatalf("List = %+v, %v; want a fault of capacity", list, err)
		}
	}
	if n := len(r.asked("GET /compute/v2.1/servers/s1")); n != 1 {
		t.Errorf("asked %d times for the fault, want once", n)
	}
}

const activeWithoutIP = `{"servers": [{"id": "s1", "name": "np0000000007", "status": "ACTIVE", "flavor": {"original_name": "small"},
	"metadata": {"npctl_installation": "inst", "npctl_node_id": "0000000007", "npctl_provider": "lab", "npctl_pool": "main", "npctl_floating_ip": "true"},
	"addresses": {"private": [{"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"}]}}]}`

// advanced lists and advances the one server of activeWithoutIP.
func advanced(t *testing.T, c *Cloud) (resources.Instance, error) {
	t.Helper()
	list, err := c.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("List = %v, %v", list, err)
	}
	return c.Advance(t.Context(), nodeSpec(map[string]cty.Value{"auto_floating_ip": cty.True}), list[0])
}

func TestActiveServerGetsItsFloatingIPOnce(t *testing.T) {
	r := newReplay(t)
	r.on("GET /compute/v2.1/servers/detail", 200, activeWithoutIP)
	r.on("GET /network/v2.0/ports", 200, `{"ports": [{"id": "p1", "network_id": "net-1", "device_id": "s1", "fixed_ips": [{"ip_address": "fd00::5"}, {"ip_address": "10.0.0.5"}]}]}`)
	r.on("GET /network/v2.0/floatingips", 200, `{"floatingips": []}`)
	r.on("POST /network/v2.0/floatingips", 201, `{"floatingip": {"id": "fip1", "floating_ip_address": "172.24.4.9", "port_id": "p1", "status": "DOWN"}}`)
	c := r.open(nil)
	got, err := advanced(t, c)
	if err != nil || got.Status != resources.StatusReady || got.Addresses.Interface != "172.24.4.9" {
		t.Fatalf("Advance = %+v, %v; want a ready instance at its floating IP", got, err)
	}
	want := pretty(t, `{"floatingip": {"description": "npctl:id=0000000007&installation=inst&kind=node&pool=main&provider=lab",
		"fixed_ip_address": "10.0.0.5", "floating_network_id": "net-2", "port_id": "p1"}}`)
	var body any
	_ = json.Unmarshal([]byte(r.body("POST /network/v2.0/floatingips")), &body)
	sorted, _ := json.MarshalIndent(body, "", " ")
	if diff := cmp.Diff(want, strings.ReplaceAll(string(sorted), `\u0026`, "&")); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	// Nova shows the address with a delay; until then this process already knows it.
	list, err := c.List(t.Context())
	if err != nil || list[0].Status != resources.StatusReady || list[0].Addresses.PublicIPv4 != "172.24.4.9" {
		t.Errorf("List = %+v, %v; want it ready with its address", list, err)
	}
	// Another process finds it by its ownership tags and does not create a second one.
	r.on("GET /network/v2.0/floatingips", 200, `{"floatingips": [{"id": "fip1", "floating_ip_address": "172.24.4.9", "port_id": "p1",
		"description": "npctl:id=0000000007&installation=inst&kind=node&pool=main&provider=lab"}]}`)
	if got, err := advanced(t, r.open(nil)); err != nil || got.Addresses.PublicIPv4 != "172.24.4.9" {
		t.Errorf("Advance by another process = %+v, %v", got, err)
	}
	if n := len(r.asked("POST /network/v2.0/floatingips")); n != 1 {
		t.Errorf("%d floating IPs were made, want 1", n)
	}
}

func TestDetachedFloatingIPIsReused(t *testing.T) {
	r := newReplay(t)
	r.on("GET /compute/v2.1/servers/detail", 200, activeWithoutIP)
	r.on("GET /network/v2.0/ports", 200, `{"ports": [{"id": "p1", "device_id": "s1", "network_id": "net-1", "fixed_ips": [{"ip_address": "10.0.0.5"}]}]}`)
	r.on("GET /network/v2.0/floatingips", 200, `{"floatingips": [{"id": "fip1", "floating_ip_address": "172.24.4.9", "port_id": null, "description": "npctl:id=0000000007&installation=inst"}]}`)
	r.on("PUT /network/v2.0/floatingips/fip1", 200, `{"floatingip": {"id": "fip1", "floating_ip_address": "172.24.4.9", "port_id": "p1"}}`)
	if got, err := advanced(t, r.open(nil)); err != nil || got.Addresses.PublicIPv4 != "172.24.4.9" {
		t.Errorf("Advance = %+v, %v", got, err)
	}
}

func TestServerWithoutAddressForAFloatingIP(t *testing.T) {
	for name, test := range map[string]struct {
		ports    string
		rejected bool // every attempt must fail
	}{
		"no port":   {`[]`, false},
		"IPv6 only": {`[{"id": "p1", "device_id": "s1", "network_id": "net-1", "fixed_ips": [{"ip_address": "fd00::5"}]}]`, true},
	} {
		r := newReplay(t)
		r.on("GET /compute/v2.1/servers/detail", 200, activeWithoutIP)
		r.on("GET /network/v2.0/ports", 200, `{"ports": `+test.ports+`}`)
		r.on("GET /network/v2.0/floatingips", 200, `{"floatingips": []}`)
		if _, err := advanced(t, r.open(nil)); err == nil || errors.Is(err, drivers.ErrRejected) != test.rejected {
			t.Errorf("%s: Advance: %v; want ErrRejected: %t", name, err, test.rejected)
		}
	}
}

func TestFloatingIPQuotaIsErrQuota(t *testing.T) {
	r := newReplay(t)
	r.on("GET /compute/v2.1/servers/detail", 200, activeWithoutIP)
	r.on("GET /network/v2.0/ports", 200, `{"ports": [{"id": "p1", "device_id": "s1", "network_id": "net-1", "fixed_ips": [{"ip_address": "10.0.0.5"}]}]}`)
	r.on("GET /network/v2.0/floatingips", 200, `{"floatingips": []}`)
	r.on("POST /network/v2.0/floatingips", 409, `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip'].", "detail": ""}}`)
	if got, err := advanced(t, r.open(nil)); !errors.Is(err, drivers.ErrQuota) || got.ID != "s1" {
		t.Errorf("Advance = %+v, %v; want ErrQuota and the instance", got, err)
	}
}

// After a lost response two servers have the same ownership tags. When one is deleted, the objects of the other must
// stay.
func TestOnlyOwnFloatingIPIsDeletedBeforeItsServer(t *testing.T) {
	r := newReplay(t)
	r.on("GET /compute/v2.1/servers/detail", 200, activeWithoutIP)
	r.on("GET /network/v2.0/ports", 200, `{"ports": [{"id": "p1", "network_id": "net-1", "device_id": "s1"}]}`)
	r.on("GET /network/v2.0/floatingips", 200, `{"floatingips": [
		{"id": "fip1", "port_id": "p1", "description": "npctl:id=0000000007&installation=inst&kind=node"},
		{"id": "fip2", "port_id": null, "description": "npctl:id=0000000007&installation=inst&kind=node"},
		{"id": "of-its-twin", "port_id": "p9", "description": "npctl:id=0000000007&installation=inst&kind=node"},
		{"id": "of-another-npctl", "port_id": "p1", "description": "npctl:id=0000000007&installation=other&kind=node"},
		{"id": "somebody-elses", "port_id": "p1", "description": "web"}]}`)
	for _, path := range []string{"/network/v2.0/floatingips/fip1", "/network/v2.0/floatingips/fip2", "/compute/v2.1/servers/s1"} {
		r.on("DELETE "+path, 204, "")
	}
	r.on("GET /compute/v2.1/servers/s1", 200, `{"server": {"id": "s1", "status": "ACTIVE", "metadata": {"npctl_installation": "inst",
		"npctl_node_id": "0000000007", "npctl_floating_ip": "true"}}}`)
	c := r.open(nil)
	testutil.Must(t, c.Delete(t.Context(), "s1", resources.OwnerTags{Installation: "inst", Kind: resources.KindNode, ID: "0000000007"}))
	want := []string{"DELETE /network/v2.0/floatingips/fip1", "DELETE /network/v2.0/floatingips/fip2", "DELETE /compute/v2.1/servers/s1"}
	if diff := cmp.Diff(want, r.asked("DELETE")); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
}

func TestOwnPortsAreDeletedAndPortsOfDuplicateServerAreKept(t *testing.T) {
	r := newReplay(t)
	r.on("GET /compute/v2.1/servers/s1", 200, `{"server": {"id": "s1", "status": "ACTIVE", "metadata": {"npctl_installation": "inst", "npctl_node_id": "7", "npctl_ports": "true"}}}`)
	const marked = `"description": "npctl:id=7&installation=inst&kind=node"`
	r.on("GET /network/v2.0/ports", 200, `{"ports": [{"id": "p1", "device_id": "s1", `+marked+`}, {"id": "p2", "device_id": "twin", `+marked+`}, {"id": "p3", "device_id": "", `+marked+`}]}`)
	for _, path := range []string{"/network/v2.0/ports/p1", "/network/v2.0/ports/p3", "/compute/v2.1/servers/s1"} {
		r.on("DELETE "+path, 204, "")
	}
	testutil.Must(t, r.open(nil).Delete(t.Context(), "s1", resources.OwnerTags{Installation: "inst", Kind: resources.KindNode, ID: "7"}))
	want := []string{"DELETE /network/v2.0/ports/p1", "DELETE /network/v2.0/ports/p3", "DELETE /compute/v2.1/servers/s1"}
	if diff := cmp.Diff(want, r.asked("DELETE")); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
}

// A listing may be stale: another owner of the server may have removed its ownership tags.
func TestDeleteReadsOwnershipTagsFirst(t *testing.T) {
	node := resources.OwnerTags{Installation: "inst", Kind: resources.KindNode, ID: "s1"}
	for name, test := range map[string]struct {
		server   string
		expected resources.OwnerTags
		want     error
	}{
		"ours":                 {`"metadata": {"npctl_installation": "inst", "npctl_node_id": "s1"}`, node, nil},
		"adopted":              {`"metadata": {"nodepool_node_id": "1"}`, resources.OwnerTags{}, nil},
		"marks removed":        {`"metadata": {}`, node, drivers.ErrNotOurs},
		"another node":         {`"metadata": {"npctl_installation": "inst", "npctl_node_id": "s2"}`, node, drivers.ErrNotOurs},
		"another installation": {`"metadata": {"npctl_installation": "other", "npctl_node_id": "s1"}`, node, drivers.ErrNotOurs},
		"of a build":           {`"metadata": {"npctl_installation": "inst", "npctl_build_id": "s1"}`, node, drivers.ErrNotOurs},
		"not adopted":          {`"metadata": {"npctl_installation": "inst", "npctl_node_id": "s1"}`, resources.OwnerTags{}, drivers.ErrNotOurs},
		"its cell is down":     {`"status": "UNKNOWN"`, node, drivers.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplay(t)
			r.when("GET /compute/v2.1/servers/detail", serverPages([]string{"s1"}, 10, nil))
			r.on("GET /compute/v2.1/servers/s1", 200, `{"server": {"id": "s1", `+test.server+`}}`)
			r.on("DELETE /compute/v2.1/servers/s1", 204, "")
			c := r.open(nil)
			if _, err := c.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Delete(t.Context(), "s1", test.expected); !errors.Is(err, test.want) {
				t.Errorf("Delete: %v, want %v", err, test.want)
			}
			if deleted := len(r.asked("DELETE")) > 0; deleted != (test.want == nil) {
				t.Errorf("deleted: %t", deleted)
			}
		})
	}
}

func TestOnlyTheBootVolumeIsTagged(t *testing.T) {
	const devices = `{"volumeAttachments": [{"volumeId": "data", "device": "/dev/vdb"}, {"volumeId": "boot", "device": "/dev/vda"}]}`
	for name, test := range map[string]struct {
		volumes string
		want    string
	}{
		"a volume of another owner remains":       {`{"id": "data", "delete_on_termination": false}, {"id": "boot", "delete_on_termination": true}`, "boot"},
		"only a volume of another owner":          {`{"id": "data", "delete_on_termination": false}`, ""},
		"two that Nova deletes":                   {`{"id": "data", "delete_on_termination": true}, {"id": "boot", "delete_on_termination": true}`, "boot"},
		"Nova does not show which ones go":        {`{"id": "data"}, {"id": "boot"}`, "boot"},
		"one, and Nova does not show it":          {`{"id": "data"}`, ""},
		"no volume is shown":                      {``, ""},
		"two that Nova deletes, none at the root": {`{"id": "data", "delete_on_termination": true}, {"id": "other", "delete_on_termination": true}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplay(t)
			r.on("GET /compute/v2.1/servers/s1", 200, `{"server": {"id": "s1", "metadata": {"npctl_installation": "inst", "npctl_node_id": "7",
				"npctl_volume_gb": "20"}, "os-extended-volumes:volumes_attached": [`+test.volumes+`]}}`)
			r.on("GET /compute/v2.1/servers/s1/os-volume_attachments", 200, devices)
			r.on("DELETE /compute/v2.1/servers/s1", 204, "")
			for _, id := range []string{"data", "boot", "other"} {
				r.on("POST /volume/v3/project/volumes/"+id+"/metadata", 200, `{}`)
			}
			testutil.Must(t, r.open(nil).Delete(t.Context(), "s1", resources.OwnerTags{Installation: "inst", Kind: resources.KindNode, ID: "7"}))
			var want []string
			if test.want != "" {
				want = []string{"POST /volume/v3/project/volumes/" + test.want + "/metadata"}
			}
			if diff := cmp.Diff(want, r.asked("POST /volume")); diff != "" {
				t.Errorf("marked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecretsStayOutOfTheDebugLog(t *testing.T) {
	r := newReplay(t)
	r.on("POST /compute/v2.1/servers", 500, `{"computeFault": {"message": "boom"}}`)
	var text bytes.Buffer
	c := r.open(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	_, err := c.Create(t.Context(), nodeSpec(map[string]cty.Value{"userdata": cty.StringVal("user-data-secret")}))
	if err == nil {
		t.Fatal("Create succeeded")
	}
	all := text.String() + err.Error()
	for _, secret := range []string{replayPassword, "gAAAAtoken", "user-data-secret", base64.StdEncoding.EncodeToString([]byte("user-data-secret"))} {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in the log or the error:\n%s", secret, all)
		}
	}
	for _, want := range []string{"method=POST", "path=/compute/v2.1/servers", "status=500", "took="} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, text.String())
		}
	}
}

func TestWrongRegionIsExplained(t *testing.T) {
	r := newReplay(t)
	e := r.endpoint()
	e.Region = "RegionTwo"
	_, err := Connect(t.Context(), drivers.Env{Provider: "lab"}, e, cty.EmptyObjectVal)
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), `"RegionTwo"; did you mean RegionOne?`) {
		t.Errorf("Connect: %v; want ErrRejected that names the regions", err)
	}
}

func TestHangingCallEndsWithItsContext(t *testing.T) {
	r := newReplay(t)
	release := make(chan struct{})
	defer close(release)
	r.when("GET /compute/v2.1/servers/detail", func(*http.Request) (int, string) { <-release; return 200, `{}` })
	c := r.open(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("List: %v, want deadline exceeded", err)
	}
}

func TestEndpointsGetTheRequiredVersion(t *testing.T) {
	for _, test := range []struct{ kind, url, want string }{
		{serviceCompute, "https://n.example.com/v2.1", "https://n.example.com/v2.1/"},
		{serviceCompute, "https://n.example.com/v2/abc", "https://n.example.com/v2/abc/"},
		{serviceCompute, "https://n.example.com:8774", "https://n.example.com:8774/v2.1/"},
		{serviceCompute, "https://v2.example.com/compute", "https://v2.example.com/compute/v2.1/"},
		{serviceNetwork, "https://q.example.com/", "https://q.example.com/v2.0/"},
		{serviceImage, "https://vault.example.com/image", "https://vault.example.com/image/v2/"},
		{serviceImage, "https://g.example.com/v2/", "https://g.example.com/v2/"},
		{serviceVolume, "https://c.example.com", "https://c.example.com/v3/project/"},
		{serviceVolume, "https://c.example.com/v3/project", "https://c.example.com/v3/project/"},
	} {
		if got := withAPIVersion(test.kind, test.url, "project"); got != test.want {
			t.Errorf("%s at %s is %s, want %s", test.kind, test.url, got, test.want)
		}
	}
}

func TestUnknownCAIsRejectedWithAHint(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	_, err := Connect(t.Context(), drivers.Env{Provider: "lab"}, Endpoint{AuthURL: server.URL, Username: "me", Password: replayPassword}, cty.EmptyObjectVal)
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "cacert") {
		t.Errorf("Connect: %v; want ErrRejected that mentions cacert", err)
	}
}

func TestIdentityIsVersionThree(t *testing.T) {
	for url, want := range map[string]string{
		"https://id.example.com:5000": "https://id.example.com:5000/v3", "https://id.example.com/identity/": "https://id.example.com/identity/v3",
		"https://id.example.com/v2.0/": "https://id.example.com/v3", "https://id.example.com/v3/": "https://id.example.com/v3",
	} {
		if got := identityURL(url); got != want {
			t.Errorf("identity at %s is %s, want %s", url, got, want)
		}
	}
}

func TestLongValuesOfARequestAreCut(t *testing.T) {
	r := newReplay(t)
	r.on("POST /compute/v2.1/servers", 202, `{"server": {"id": "s1", "adminPass": "x"}}`)
	c := r.open(nil)
	spec := nodeSpec(nil)
	spec.Properties = map[string]string{"job": strings.Repeat("ä", 200), "broken": "a\xffb"}
	_, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	var sent struct {
		Server struct{ Metadata map[string]string }
	}
	testutil.Must(t, json.Unmarshal([]byte(r.body("POST /compute/v2.1/servers")), &sent))
	if got := sent.Server.Metadata; got["job"] != strings.Repeat("ä", 127) || got["broken"] != "a\uFFFDb" {
		t.Errorf("metadata is %q", got)
	}
}

func TestEndlessListsAreErrors(t *testing.T) {
	r := newReplay(t)
	drivertest.EndlessLists(t, drivertest.Listing{
		Open: func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
			c, err := Connect(t.Context(), drivers.Env{Provider: "lab", WrapTransport: wrap}, r.endpoint(), cty.EmptyObjectVal)
			testutil.Must(t, err)
			t.Cleanup(func() { c.Close() })
			return c
		},
		Is: func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/servers/detail") },
		Page: func(items int, token string) string {
			return `{"servers": [` + strings.Repeat(`{"id": "s"},`, items-1) + `{"id": "` + token + `"}], "servers_links": [{"rel": "next", "href": "http://unreachable.test/"}]}`
		},
	})
}

// Nodes may need neither Neutron's floating IPs nor Cinder.
func TestQuotasOfNeutronAndCinderAreOptional(t *testing.T) {
	for _, status := range []int{403, 404, 429, 500, 503} {
		r := newReplay(t)
		r.on("GET /compute/v2.1/limits", 200, `{"limits": {"absolute": {"maxTotalInstances": 10, "maxTotalCores": 20, "maxTotalRAMSize": -1}}}`)
		r.on("GET /network/v2.0/quotas/project/details", status, `{}`)
		r.on("GET /volume/v3/project/limits", status, `{}`)
		var log strings.Builder
		c := r.open(slog.New(slog.NewTextHandler(&log, nil)))
		for range 2 {
			q, err := c.Quota(t.Context())
			if err != nil || q.Limit.Instances != 10 || q.Limit.Addresses != resources.Unlimited || q.Limit.Volumes != resources.Unlimited || q.Limit.VolumeGB != resources.Unlimited {
				t.Errorf("%d: Quota = %+v, %v", status, q, err)
			}
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 2 && status > 404 {
			t.Errorf("%d: %d warnings, want one for each:\n%s", status, n, log.String())
		}
	}
}
