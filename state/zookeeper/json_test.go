package zookeeper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

const someLauncher = "launch1-npctl"

// offline returns a mirror without ZooKeeper.
func offline() *mirror {
	return newMirror(&session{mu: &sync.Mutex{}}, newCache(), slog.New(slog.DiscardHandler), func(bool) {}, nil)
}

func mustEncode(t interface{ Fatalf(string, ...any) }, p znodeRef, record resources.Record, old []byte) []byte {
	z := &znode{ref: p, created: 1_700_000_000_000}
	if len(old) > 0 {
		z.data, z.record = old, mustDecode(t, p, old)
	}
	text, err := encode(p, record, record, z, someLauncher)
	if err != nil {
		t.Fatalf("encode %+v: %v", record, err)
	}
	return text
}

func mustDecode(t interface{ Fatalf(string, ...any) }, p znodeRef, text []byte) resources.Record {
	record, _, err := codecOf(p.kind).decode(p, text, 1_700_000_000_000)
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return record
}

func TestRecordsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p, want := drawRecord(r)
		text := mustEncode(r, p, want, nil)
		if diff := cmp.Diff(want, mustDecode(r, p, text)); diff != "" {
			r.Fatalf("%s\n(-want +got):\n%s", text, diff)
		}
	})
}

func TestReplacedRecordsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p, first := drawRecord(r)
		old := mustEncode(r, p, first, nil)
		p2, want := drawRecord(r)
		if p2.kind != p.kind || p2.id != p.id {
			r.Skip("another kind")
		}
		text := mustEncode(r, p, want, old)
		if diff := cmp.Diff(want, mustDecode(r, p, text)); diff != "" {
			r.Fatalf("%s\nover %s\n(-want +got):\n%s", text, old, diff)
		}
	})
}

func TestUnchangedRecordKeepsItsBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p, record := drawRecord(r)
		old := withStrangers(r, mustEncode(r, p, record, nil))
		if got := mustEncode(r, p, mustDecode(r, p, old), old); !bytes.Equal(got, old) {
			r.Fatalf("\n%s became\n%s", old, got)
		}
	})
}

// withStrangers adds keys that npctl does not know among the others.
func withStrangers(r *rapid.T, text []byte) []byte {
	doc, err := parseObject(text)
	testutil.Must(r, err)
	for i := range rapid.IntRange(0, 4).Draw(r, "strangers") {
		key := fmt.Sprintf("stranger %d é", i)
		doc.set(key, json.RawMessage(strings.TrimSpace(drawJSON(r, "stranger", 3))))
	}
	doc.keys = rapid.Permutation(doc.keys).Draw(r, "order")
	return doc.bytes()
}

func TestForeignKeysKeepTheirBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p, record := drawRecord(r)
		old := withStrangers(r, mustEncode(r, p, record, nil))
		p2, other := drawRecord(r)
		if p2.kind != p.kind || p2.id != p.id {
			r.Skip("another kind")
		}
		before, _ := parseObject(old)
		after, err := parseObject(mustEncode(r, p, other, old))
		testutil.Must(r, err)
		for _, key := range before.keys {
			if strings.HasPrefix(key, "stranger") && !bytes.Equal(before.values[key], after.values[key]) {
				r.Fatalf("%q was %s and is %s", key, before.values[key], after.values[key])
			}
		}
	})
}

// A Nodepool launcher drops npctl's own key at each write. The rest must still be a record in the same state.
func TestLossOfOwnKeyIsHarmless(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p, want := drawRecord(r)
		doc, err := parseObject(mustEncode(r, p, want, nil))
		testutil.Must(r, err)
		doc.drop(ownKey)
		got := mustDecode(r, p, doc.bytes())
		if resources.StateOf(got) != resources.StateOf(want) {
			r.Fatalf("state %s, want %s", resources.StateOf(got), resources.StateOf(want))
		}
		if n, ok := got.(*resources.Node); ok {
			w := want.(*resources.Node)
			if n.Request != w.Request || n.ExternalID != w.ExternalID || n.Provider != w.Provider || !cmp.Equal(n.Labels, w.Labels) {
				r.Fatalf("got %+v, want %+v", n, w)
			}
		}
	})
}

// Zuul sets an attribute for each key of a node; these keys would replace other attributes.
func TestNoKeyHidesAnAttributeOfZuul(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := drawNode(r)
		doc, err := parseObject(mustEncode(r, parsePath(nodesDir+"/"+n.ID), n, nil))
		testutil.Must(r, err)
		for _, key := range doc.keys {
			if key[0] == '_' || slices.Contains([]string{"lock", "label", "name", "aliases"}, key) {
				r.Fatalf("key %q in %s", key, doc.bytes())
			}
		}
	})
}

func TestDocumentsHaveAllKeysOfNodepool(t *testing.T) {
	t.Parallel()
	want := map[resources.Kind]string{
		resources.KindRequest: "state state_time node_types requestor requestor_data provider event_id relative_priority created_time tenant_name declined_by nodes reuse",
		resources.KindNode: "state state_time type provider pool allocated_to launcher created_time external_id cloud region az host_id interface_ip public_ipv4 " +
			"private_ipv4 public_ipv6 connection_type connection_port ssh_port username python_path shell_type host_keys hostname image_id attributes slot " +
			"resources tenant_name requestor user_data driver_data comment hold_job hold_expiration",
		resources.KindBuild:  "state state_time builder builder_id username python_path shell_type",
		resources.KindUpload: "state state_time external_id external_name format username python_path shell_type",
	}
	rapid.Check(t, func(r *rapid.T) {
		p, record := drawRecord(r)
		doc, err := parseObject(mustEncode(r, p, record, nil))
		testutil.Must(r, err)
		for key := range strings.FieldsSeq(want[p.kind]) {
			if !doc.has(key) {
				r.Fatalf("no %s in %s", key, doc.bytes())
			}
		}
	})
}

func TestUnknownExtrasArePreserved(t *testing.T) {
	t.Parallel()
	p := parsePath(nodesDir + "/0000000001")
	old := []byte(`{"state": "ready", "type": ["a"], "npctl": {"from_the_future": [1.50], "error": "old"}}`)
	n := mustDecode(t, p, old).(*resources.Node)
	n.Error, n.Comment = "", "mine"
	doc, err := parseObject(mustEncode(t, p, n, old))
	testutil.Must(t, err)
	own, err := parseObject(doc.values[ownKey])
	testutil.Must(t, err)
	if string(own.values["from_the_future"]) != "[1.50]" || own.has("error") {
		t.Errorf("npctl's own key is %s", doc.values[ownKey])
	}
}

func TestNonObjectsAreRejected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "null", "[]", "1", `"x"`, "{", `{"a":1`, `{"a" 1}`, `{"a":1} {}`, `{"a":1}x`, "\xff", "{\"a\": \x00}"} {
		if o, err := parseObject([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, slices.Collect(maps.Keys(o.values)))
		}
	}
}

// Any document is either decoded or rejected.
func FuzzDocument(f *testing.F) {
	for _, text := range malformed {
		f.Add([]byte(text))
	}
	f.Add([]byte(zuulsRequest))
	f.Add([]byte(nodepoolsNode))
	places := []znodeRef{parsePath(requestsDir + "/200-0000000001"), parsePath(nodesDir + "/0000000001"), parsePath(buildPath("noble", buildHex)),
		parsePath(uploadsDir("noble", buildHex, "cloud") + "/0000000001")}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, p := range places {
			record, _, err := codecOf(p.kind).decode(p, text, 1_700_000_000_000)
			if err != nil {
				continue
			}
			if _, err := json.Marshal(record); err != nil {
				t.Fatalf("%s: %v", p.kind, err)
			}
			again, err := encode(p, record, record, &znode{data: text, record: record, created: 1_700_000_000_000}, someLauncher)
			if err != nil {
				continue // such as a duplicate key
			}
			if n, ok := record.(*resources.Node); ok && hasOwnKey(t, again) {
				n.Launcher = "" // it is read only from nodes that npctl has not written
			}
			if diff := cmp.Diff(record, mustDecode(t, p, again)); diff != "" {
				t.Fatalf("%s: %q became %q (-before +after):\n%s", p.kind, text, again, diff)
			}
		}
	})
}

func hasOwnKey(t *testing.T, document []byte) bool {
	t.Helper()
	o, err := parseObject(document)
	testutil.Must(t, err)
	return o.has(ownKey)
}

// npctl shows the keys that Zuul and Nodepool write to a node, and does not change them.
func TestForeignAttributesOfANodeAreDecoded(t *testing.T) {
	at := parsePath(nodesDir + "/0000000001")
	text := []byte(`{"state": "hold", "type": ["a"], "launcher": "nl01-PoolWorker.cloud-main", "hold_job": "tenant proj job", ` +
		`"user_data": "{\"n\": 1}", "driver_data": {"a": [1]}}`)
	n := mustDecode(t, at, text).(*resources.Node)
	if n.Launcher != "nl01-PoolWorker.cloud-main" || n.HoldJob != "tenant proj job" || n.UserData != `{"n": 1}` || n.DriverData != `{"a":[1]}` {
		t.Errorf("read %+v", n)
	}
	n.State, n.HoldJob = resources.StateUsed, "changed"
	written := string(mustEncode(t, at, n, text))
	for _, kept := range []string{`"hold_job": "tenant proj job"`, `"driver_data": {"a": [1]}`, `"launcher": "nl01-PoolWorker.cloud-main"`} {
		if !strings.Contains(written, kept) {
			t.Errorf("%s is not in %s", kept, written)
		}
	}
}

// BenchmarkDocument encodes a node over its previous state, as each step of a launch does, and decodes it.
func BenchmarkDocument(b *testing.B) {
	p := parsePath(nodesDir + "/0000000001")
	before := mustDecode(b, p, []byte(nodepoolsNode)).(*resources.Node)
	before.Hash, before.ImageID, before.Attempt = "2:tag:"+resources.Hash(strings.Repeat("0f", 32)), buildHex, 1
	old := &znode{ref: p, created: 1_700_000_000_000, record: before}
	old.data = mustEncode(b, p, before, nil)
	after := *before
	after.State, after.StateTime = resources.StateReady, before.StateTime.Add(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		text, err := encode(p, &after, &after, old, someLauncher)
		testutil.Must(b, err)
		mustDecode(b, p, text)
	}
}

// TestNodeDocumentHasEveryField compares the fields of a node with those that its document can express.
func TestNodeDocumentHasEveryField(t *testing.T) {
	// by the document itself, see nodeJSON.record
	expressed := strings.Fields("ID State StateTime Created Provider Pool Labels ExternalID Addresses Zone Cloud Region HostID Hostname Access " +
		"HostKeys Attributes Slot Comment Request Tenant Requestor HoldUntil Launcher HoldJob UserData DriverData")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[resources.Node]()) {
		if _, extra := reflect.TypeFor[nodeExtra]().FieldByName(f.Name); !extra && !slices.Contains(expressed, f.Name) {
			t.Errorf("the field %s of a node is lost in ZooKeeper", f.Name)
		}
	}
}
