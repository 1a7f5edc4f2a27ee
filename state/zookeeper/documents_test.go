package zookeeper

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

const zuulsRequest = `{"requestor_data": {"build_set_uuid": "9d3c", "tenant_name": "acme", "span_info": {"trace_id": 340282366920938463463374607431768211455, "f": 1.10}},
 "node_types": ["noble", "large", "noble"], "requestor": "0f6d2c1b", "created_time": 1795204849.55, "provider": null, "state": "requested",
 "state_time": 1795204849.54, "relative_priority": 3, "event_id": "c7a1", "tenant_name": "acme"}`

const nodepoolsNode = `{"state": "ready", "state_time": 1795204853.38, "cloud": "cloud-a", "provider": "cloud-a-r1", "pool": "main", "type": ["noble"],
 "allocated_to": "200-0000000311", "az": "az1", "region": "r1", "public_ipv4": "192.0.2.17", "private_ipv4": "10.0.0.17", "public_ipv6": null,
 "host_id": "f3a9", "interface_ip": "192.0.2.17", "connection_port": 22, "ssh_port": 22,
 "image_id": "/nodepool/images/noble/builds/7b0c7b0c7b0c7b0c7b0c7b0c7b0c7b0c/providers/cloud-a-r1/images/0000000001",
 "launcher": "launch1.example.org-PoolWorker.cloud-a-r1-main-7c0d", "created_time": 1795204849.9, "external_id": "b68f4c7d", "hostname": null,
 "comment": null, "user_data": null, "hold_job": null, "host_keys": ["ssh-ed25519 AAAA"], "username": "zuul", "connection_type": "ssh",
 "shell_type": null, "hold_expiration": null, "resources": {"cores": 4, "instances": 1, "ram": 8192, "ebs-gp3": 40}, "slot": null,
 "attributes": {"executor-zone": "zone-1"}, "python_path": "auto", "tenant_name": "acme", "driver_data": null, "requestor": "0f6d2c1b"}`

func TestZuulRequestIsDecoded(t *testing.T) {
	t.Parallel()
	p := parsePath(requestsDir + "/200-0000000311")
	want := &resources.Request{ID: "200-0000000311", State: resources.StateRequested, StateTime: time.Unix(1795204849, 540_000_000).UTC(),
		Created: time.Unix(1795204849, 550_000_000).UTC(), Labels: []string{"noble", "large", "noble"}, Priority: 200, RelativePriority: 3,
		Requestor: "0f6d2c1b", Tenant: "acme", EventID: "c7a1",
		Data: json.RawMessage(`{"build_set_uuid": "9d3c", "tenant_name": "acme", "span_info": {"trace_id": 340282366920938463463374607431768211455, "f": 1.10}}`)}
	if diff := cmp.Diff(want, mustDecode(t, p, []byte(zuulsRequest))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFulfilledRequestHasTheKeysOfZuul(t *testing.T) {
	t.Parallel()
	p := parsePath(requestsDir + "/200-0000000311")
	r := mustDecode(t, p, []byte(zuulsRequest)).(*resources.Request)
	r.State, r.Nodes, r.StateTime = resources.StateFulfilled, []string{"0000000107", "0000000111", "0000000110"}, time.Unix(1795204853, 0)
	before, _ := parseObject([]byte(zuulsRequest))
	after, err := parseObject(mustEncode(t, p, r, []byte(zuulsRequest)))
	testutil.Must(t, err)
	changed := map[string]string{}
	for _, key := range after.keys {
		if now := string(after.values[key]); now != string(before.values[key]) {
			changed[key] = now
		}
	}
	want := map[string]string{"state": `"fulfilled"`, "state_time": "1795204853.0", "nodes": `["0000000107","0000000111","0000000110"]`,
		"declined_by": "[]", "reuse": "true"}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodepoolNodeIsDecoded(t *testing.T) {
	t.Parallel()
	want := &resources.Node{ID: "0000000042", State: resources.StateReady, StateTime: time.Unix(1795204853, 380_000_000).UTC(),
		Created: time.Unix(1795204849, 900_000_000).UTC(), Provider: "cloud-a-r1", Pool: "main", Labels: []string{"noble"}, ExternalID: "b68f4c7d",
		Image: "diskimage.noble", Upload: "noble/" + buildHex + "/cloud-a-r1/0000000001", Zone: "az1", Cloud: "cloud-a", Region: "r1", HostID: "f3a9",
		Addresses: resources.Addresses{Interface: "192.0.2.17", PublicIPv4: "192.0.2.17", PrivateIPv4: "10.0.0.17"},
		Login:     resources.Login{Username: "zuul", PythonPath: "auto", ConnectionType: "ssh", ConnectionPort: 22}, HostKeys: []string{"ssh-ed25519 AAAA"},
		Resources: resources.ResourceAmounts{Instances: 1, Cores: 4, RAM: 8192, Other: map[string]int64{"ebs-gp3": 40}}, Attributes: map[string]string{"executor-zone": "zone-1"},
		Request: "200-0000000311", Tenant: "acme", Requestor: "0f6d2c1b",
		Launcher: "launch1.example.org-PoolWorker.cloud-a-r1-main-7c0d"}
	if diff := cmp.Diff(want, mustDecode(t, parsePath(nodesDir+"/0000000042"), []byte(nodepoolsNode))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodepoolUploadIsUnmarked(t *testing.T) {
	t.Parallel()
	p := parsePath("/nodepool/images/noble/builds/" + buildHex + "/providers/cloud/images/0000000001")
	theirs := mustDecode(t, p, []byte(`{"state": "ready", "state_time": 1795204853.38, "external_id": "b68f4c7d", "external_name": "noble-1795204853"}`))
	u, isUpload := theirs.(*resources.Upload)
	if !isUpload || !u.Unmarked {
		t.Fatalf("%+v counts as marked: no cloud shows it so, and it would be taken for lost", theirs)
	}
	u.Unmarked = false
	if ours := mustDecode(t, p, mustEncode(t, p, u, nil)).(*resources.Upload); ours.Unmarked {
		t.Error("an upload of npctl's own comes back as one without marks")
	}
}

// valuesOf encodes a node and returns some of the keys.
func valuesOf(t *testing.T, n *resources.Node, old string, keys ...string) map[string]string {
	t.Helper()
	if n.ID = "0000000042"; n.State == "" {
		n.State = resources.StateReady
	}
	doc, err := parseObject(mustEncode(t, parsePath(nodesDir+"/"+n.ID), n, []byte(old)))
	testutil.Must(t, err)
	got := map[string]string{}
	for _, key := range keys {
		got[key] = string(doc.values[key])
	}
	return got
}

func TestNodeHasTheKeysOfZuul(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	hold := resources.Node{State: resources.StateHold, StateTime: at, HoldUntil: at.Add(90 * time.Minute)}
	past := resources.Node{State: resources.StateHold, StateTime: at, HoldUntil: at.Add(-time.Hour)}
	part := resources.Node{State: resources.StateHold, StateTime: at, HoldUntil: at.Add(1500 * time.Millisecond)}
	for name, c := range map[string]struct {
		node resources.Node
		want map[string]string
	}{
		"lists are never null":       {resources.Node{}, map[string]string{"host_keys": "[]", "type": "[]"}},
		"labels are a list":          {resources.Node{Labels: []string{"one"}}, map[string]string{"type": `["one"]`}},
		"the interpreter is named":   {resources.Node{}, map[string]string{"python_path": `"auto"`}},
		"a port is there, twice":     {resources.Node{}, map[string]string{"connection_port": "22", "ssh_port": "22"}},
		"another port, twice":        {resources.Node{Login: resources.Login{ConnectionPort: 5986}}, map[string]string{"connection_port": "5986", "ssh_port": "5986"}},
		"the user may be unset":      {resources.Node{}, map[string]string{"username": "null"}},
		"a hold is a duration":       {hold, map[string]string{"hold_expiration": "5400"}},
		"a hold rounds up":           {part, map[string]string{"hold_expiration": "2"}},
		"a hold is never 0":          {past, map[string]string{"hold_expiration": "1"}},
		"a hold may have no end":     {resources.Node{State: resources.StateHold}, map[string]string{"hold_expiration": "null"}},
		"static nodes say so":        {resources.Node{Static: true}, map[string]string{"launcher": `"static driver"`, "slot": "0"}},
		"others have no slot":        {resources.Node{}, map[string]string{"slot": "null"}},
		"a cloud image has its name": {resources.Node{Image: "cloud_image.noble", ImageID: "f00"}, map[string]string{"image_id": `"noble"`}},
		"an upload has its path": {resources.Node{Image: "diskimage.noble", Upload: "noble/" + buildHex + "/cloud/0000000001"},
			map[string]string{"image_id": `"/nodepool/images/noble/builds/` + buildHex + `/providers/cloud/images/0000000001"`}},
		"amounts by Nodepool's names": {resources.Node{Resources: resources.ResourceAmounts{Instances: 1, Cores: 2, RAM: 4096, VolumeGB: 40}},
			map[string]string{"resources": `{"cores":2,"instances":1,"ram":4096,"volume-gb":40}`}},
		"no amounts at all": {resources.Node{}, map[string]string{"resources": "null", "attributes": "null"}},
	} {
		if diff := cmp.Diff(c.want, valuesOf(t, &c.node, "", slices.Collect(maps.Keys(c.want))...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNodeIsDecodedFromAllFormats(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0).UTC()
	login := func(port int64) resources.Login { return resources.Login{Username: "zuul", ConnectionPort: port} }
	for name, c := range map[string]struct {
		text string
		want resources.Node
	}{
		"a bare label":               {`{"state": "ready", "type": "old"}`, resources.Node{Labels: []string{"old"}, Login: login(22)}},
		"only the old port":          {`{"state": "ready", "ssh_port": 2222}`, resources.Node{Login: login(2222)}},
		"the new port goes first":    {`{"state": "ready", "connection_port": 5986, "ssh_port": 22}`, resources.Node{Login: login(5986)}},
		"credentials for a port":     {`{"state": "ready", "connection_port": {"token": "s3cret"}}`, resources.Node{Login: login(0), Access: `{"token": "s3cret"}`}},
		"an id that is an object":    {`{"state": "ready", "external_id": {"instance": "i-1", "host": "h-1"}}`, resources.Node{ExternalID: `{"instance":"i-1","host":"h-1"}`, Login: login(22)}},
		"a hold without an end":      {`{"state": "hold", "state_time": 1800000000, "hold_expiration": 0}`, resources.Node{State: "hold", StateTime: at, Login: login(22)}},
		"a hold of an hour":          {`{"state": "hold", "state_time": 1800000000, "hold_expiration": 3600}`, resources.Node{State: "hold", StateTime: at, HoldUntil: at.Add(time.Hour), Login: login(22)}},
		"a hold as text":             {`{"state": "hold", "state_time": 1800000000, "hold_expiration": "3600"}`, resources.Node{State: "hold", StateTime: at, HoldUntil: at.Add(time.Hour), Login: login(22)}},
		"a hold that is no number":   {`{"state": "hold", "state_time": 1800000000, "hold_expiration": "soon"}`, resources.Node{State: "hold", StateTime: at, Login: login(22)}},
		"a hold beyond all measure":  {`{"state": "hold", "state_time": 1800000000, "hold_expiration": 1e14}`, resources.Node{State: "hold", StateTime: at, HoldUntil: at.Add(maxHold * time.Second), Login: login(22)}},
		"an unused state":            {`{"state": "testing"}`, resources.Node{State: "testing", Login: login(22)}},
		"a moment before it is gone": {`{"state": "deleted"}`, resources.Node{State: "deleting", Login: login(22)}},
		"a static one":               {`{"state": "ready", "launcher": "static driver", "slot": 2}`, resources.Node{Static: true, Slot: 2, Login: login(22)}},
		"attributes that are no text": {`{"state": "ready", "attributes": {"n": 1, "l": [1, 2], "x": null}}`,
			resources.Node{Attributes: map[string]string{"n": "1", "l": "[1,2]", "x": ""}, Login: login(22)}},
		"null wherever it can be": {`{"state": "ready", "state_time": null, "type": null, "host_keys": null, "resources": null, "attributes": null, "slot": null,
			"connection_port": null, "username": null, "external_id": null, "comment": null, "hold_expiration": null}`, resources.Node{Login: login(0)}},
	} {
		if c.want.ID = "0000000042"; c.want.State == "" {
			c.want.State = resources.StateReady
		}
		if diff := cmp.Diff(&c.want, mustDecode(t, parsePath(nodesDir+"/0000000042"), []byte(c.text)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestClusterCredentialsArePreservedAndHidden(t *testing.T) {
	t.Parallel()
	const old = `{"state": "ready", "type": ["pod"], "connection_port": {"token": "s3cret",  "skiptls": false}, "ssh_port": {"token": "s3cret",  "skiptls": false}}`
	p := parsePath(nodesDir + "/0000000042")
	n := mustDecode(t, p, []byte(old)).(*resources.Node)
	if shown, err := json.Marshal(n); err != nil || strings.Contains(string(shown), "s3cret") {
		t.Errorf("the record shows %s, %v", shown, err)
	}
	n.State, n.Comment = resources.StateDeleting, "done"
	got := valuesOf(t, n, old, "connection_port", "ssh_port")
	want := map[string]string{"connection_port": `{"token": "s3cret",  "skiptls": false}`, "ssh_port": `{"token": "s3cret",  "skiptls": false}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeclinesOfAllProgramsAreMerged(t *testing.T) {
	t.Parallel()
	p := parsePath(requestsDir + "/200-0000000311")
	r := mustDecode(t, p, []byte(zuulsRequest)).(*resources.Request)
	r.Declined = []resources.Decline{{Provider: "a", Pool: "main", Reason: "too large", PoolID: "ours"}, {PoolID: "theirs"}}
	text := mustEncode(t, p, r, []byte(zuulsRequest))
	doc, _ := parseObject(text)
	if got := string(doc.values["declined_by"]); got != `["ours","theirs"]` {
		t.Errorf("declined_by is %s", got)
	}
	// a Nodepool launcher adds itself and withdraws "theirs"; Zuul and npctl's own key remain unchanged
	doc.set("declined_by", json.RawMessage(`["ours", "third"]`))
	want := []resources.Decline{{Provider: "a", Pool: "main", Reason: "too large", PoolID: "ours"}, {PoolID: "third"}}
	if diff := cmp.Diff(want, mustDecode(t, p, doc.bytes()).(*resources.Request).Declined); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// malformed lists documents that are known to stop a Nodepool, and others.
var malformed = map[string]string{
	"empty": "", "not JSON": "{", "null": "null", "a list": "[]", "a string": `"requested"`, "no object": "12",
	"no state": `{}`, "a state that is null": `{"state": null, "node_types": ["a"], "type": ["a"]}`, "a state that is a number": `{"state": 3}`,
	"a format and labels that are numbers": `{"state": "ready", "type": 3, "node_types": 3, "formats": 3, "format": 3}`, "a time that is text": `{"state": "ready", "state_time": "now"}`,
	"a time in milliseconds": `{"state": "ready", "state_time": 1795204849000}`, "binary": "\x00\xff\xfe", "cut short": `{"state": "rea`,
	"two": `{"state": "ready"}{"state": "ready"}`, "deep": strings.Repeat("[", 100_000),
}

func TestMalformedRecordAffectsNoOtherRecord(t *testing.T) {
	t.Parallel()
	for name, text := range malformed {
		for _, at := range []string{requestsDir + "/200-0000000001", nodesDir + "/0000000001", buildPath("noble", buildHex),
			uploadsDir("noble", buildHex, "cloud") + "/0000000001"} {
			m := offline()
			good := requestsDir + "/200-0000000002"
			m.takeText(good, zuulsRequest, 1)
			m.takeText(at, text, 2)
			if got := m.listShared([]resources.Kind{resources.KindRequest, resources.KindNode, resources.KindBuild, resources.KindUpload}); len(got) != 1 {
				t.Errorf("%s at %s: %d records are listed, want the good one", name, at, len(got))
			}
			if text == "" && parsePath(at).kind == resources.KindBuild {
				continue // created as the parent of an upload
			}
			if m.cache.nodes[at].decodeError == "" {
				t.Errorf("%s at %s: nothing was logged", name, at)
			}
		}
	}
}

func TestRequestsWithInvalidNamesAreIgnored(t *testing.T) {
	t.Parallel()
	for _, at := range []string{requestsDir + "/0000000001", requestsDir + "/200-1-2", requestsDir + "/x", nodesDir + "/np1", nodesDir + "/1"} {
		m := offline()
		m.takeText(at, strings.Replace(zuulsRequest, `"node_types"`, `"type": ["a"], "node_types"`, 1), 1)
		if got := m.listShared([]resources.Kind{resources.KindRequest, resources.KindNode}); len(got) != 0 {
			t.Errorf("%s is listed as %v", at, got[0].Record)
		}
	}
}

// takeText applies a znode to the cache as the feed does.
func (m *mirror) takeText(at, text string, mzxid int64) {
	m.cache.put(at, decode(parsePath(at), content{data: []byte(text), mzxid: mzxid, created: 1_700_000_000_000}))
}
