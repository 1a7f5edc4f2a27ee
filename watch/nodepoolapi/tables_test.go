package nodepoolapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

var now = time.Unix(1_800_000_000, 0)

// fleet has one record of each kind.
func fleet() *inspect.Fleet {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	return &inspect.Fleet{Observed: plan.Observed{
		Shared: true,
		Records: plan.Records{
			Nodes: []*resources.Node{
				{ID: "0000000001", Provider: "one", Pool: "main", Labels: []string{"small", "metal"}, State: resources.StateInUse, StateTime: ago(25*time.Hour + 61*time.Second),
					ExternalID: "server-1", Zone: "nova", Launcher: "nl01-one-main", Request: "200-0000000003", UserData: `{"user": "zuul"}`,
					Addresses: resources.Addresses{PublicIPv4: "192.0.2.1", PrivateIPv4: "10.0.0.1", PublicIPv6: "2001:db8::1"},
					Login:     resources.Login{Username: "zuul", ConnectionPort: 2222, ConnectionType: "ssh"}},
				{ID: "0000000002", State: resources.StateReady, StateTime: ago(0), Login: resources.Login{ConnectionType: "kubectl"}},
			},
			Requests: []*resources.Request{{ID: "200-0000000003", State: resources.StatePending, RelativePriority: 2, Requestor: "zuul", Labels: []string{"small"},
				Declined: []resources.Decline{{Provider: "one", Pool: "main", PoolID: "nl01-one-main"}}, EventID: "event-1"}},
			Images: []*resources.ImageRecord{{Name: "debian", Paused: true}},
			Builds: []*resources.Build{{ID: "0000000007", Image: "debian", State: resources.StateReady, StateTime: ago(time.Hour), Host: "nb01",
				Files: []resources.ImageFile{{Format: "qcow2"}, {Format: "raw"}}}},
			Uploads: []*resources.Upload{{ID: "debian/0000000007/one/0000000009", Image: "debian", Build: "0000000007", Provider: "one", State: resources.StateReady,
				StateTime: ago(time.Minute), Name: "debian-1", ExternalID: "image-1"}},
		},
		ForeignClaims:   map[resources.Key]bool{{Kind: resources.KindNode, ID: "0000000001"}: true},
		RegisteredPools: []resources.RegisteredPool{{Labels: []string{"small", "metal"}}, {Labels: []string{"small"}}},
		RequestedBuilds: []string{"debian"},
	}}
}

// TestObjectsHaveNodepoolsKeysAndTypes compares with the documents of Nodepool 11 for the same records.
func TestObjectsHaveNodepoolsKeysAndTypes(t *testing.T) {
	w := fleet()
	for name, test := range map[string]struct {
		table table
		want  string
	}{
		"node-list": {nodeList(w, "", now), `[
			{"id": "0000000001", "provider": "one", "label": ["small", "metal"], "server_id": "server-1", "public_ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
			 "state": "in-use", "age": "01:01:01:01", "locked": "locked", "pool": "main", "hostname": null, "private_ipv4": "10.0.0.1", "AZ": "nova",
			 "username": "zuul", "connection_port": 2222, "launcher": "nl01-one-main", "allocated_to": "200-0000000003", "hold_job": null, "comment": null,
			 "user_data": "{\"user\": \"zuul\"}", "driver_data": null},
			{"id": "0000000002", "provider": null, "label": [], "server_id": null, "public_ipv4": null, "ipv6": null, "state": "ready", "age": "00:00:00:00",
			 "locked": "unlocked", "pool": null, "hostname": null, "private_ipv4": null, "AZ": null, "username": null, "connection_port": "redacted",
			 "launcher": null, "allocated_to": null, "hold_job": null, "comment": null, "user_data": null, "driver_data": null}]`},
		"request-list": {requestList(w), `[{"id": "200-0000000003", "relative_priority": 2, "state": "pending", "requestor": "zuul", "node_types": ["small"],
			"nodes": [], "declined_by": ["nl01-one-main"], "event_id": "event-1"}]`},
		"label-list": {labelList(w), `[{"label": "metal"}, {"label": "small"}]`},
		"image-list": {imageList(w), `[{"id": "0000000007", "upload_id": "0000000009", "provider": "one", "image": "debian", "external_name": "debian-1",
			"external_id": "image-1", "state": "ready", "age": 1799999940}]`},
		"dib-image-list": {dibImageList(w), `[{"id": "debian-0000000007", "image": "debian", "builder": "nb01", "formats": ["qcow2", "raw"], "state": "paused",
			"age": 1799996400}]`},
		"image-status": {imageStatus(w), `[{"image": "debian", "paused": true, "build_request": "pending", "build_request_age": null}]`},
	} {
		doc, err := json.Marshal(test.table.objects())
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		for text, into := range map[string]*any{string(doc): &got, test.want: &want} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTextIsDrawnAsInNodepool(t *testing.T) {
	w := fleet()
	for _, test := range []struct {
		table  table
		fields []string
		want   string
	}{
		{nodeList(w, "0000000001", now), []string{"locked", "label", "age", "AZ", "unknown"}, `
+-------------+-------------+--------+------+
| Label       | Age         | Locked | AZ   |
+-------------+-------------+--------+------+
| small,metal | 01:01:01:01 | locked | nova |
+-------------+-------------+--------+------+`},
		{dibImageList(w), nil, `
+-------------------+--------+---------+-----------+--------+-------------+
| ID                | Image  | Builder | Formats   | State  | Age         |
+-------------------+--------+---------+-----------+--------+-------------+
| debian-0000000007 | debian | nb01    | qcow2,raw | paused | 00:01:00:00 |
+-------------------+--------+---------+-----------+--------+-------------+`},
		{imageStatus(w), nil, `
+--------+--------+---------------+-------------------+
| Image  | Paused | Build Request | Build Request Age |
+--------+--------+---------------+-------------------+
| debian | True   | pending       |                   |
+--------+--------+---------------+-------------------+`},
		{nodeList(w, "0000000009", now), []string{"id", "connection_port"}, `
+----+------+
| ID | Port |
+----+------+
+----+------+`},
	} {
		if diff := cmp.Diff(test.want, "\n"+test.table.text(test.fields, now)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestJSONNeedsToBePreferred(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                  false,
		"*/*":                               false, // curl, requests
		"application/json":                  true,
		"APPLICATION/JSON ; q=0.5":          true,
		"application/json, text/plain, */*": false, // axios
		"application/json, text/plain;q=0.9, */*;q=0.8":                   true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": false,
		"application/*":                        true,
		"text/html, application/json;q=0.9":    false,
		"application/json;q=0":                 false,
		"text/*;q=0.1, application/json;q=x,":  false,
		"*/*, text/html;q=0.5, text/plain;q=0": true,
	} {
		if got := wantsJSON([]string{accept}); got != want {
			t.Errorf("Accept: %s: JSON is %t, want %t", accept, got, want)
		}
	}
}
