package zookeeper

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var sharedKinds = []resources.Kind{resources.KindRequest, resources.KindNode, resources.KindBuild, resources.KindUpload}

// Changes leads to the same records as List after any events: records that become malformed and valid again, disappear
// and return, and uploads that a client has copied together with npctl's ID.
func TestChangesLeadToTheRecordsOfList(t *testing.T) {
	t.Parallel()
	uploads := uploadsDir("noble", buildHex, "cloud")
	paths := []string{requestsDir + "/200-0000000001", nodesDir + "/0000000001", nodesDir + "/0000000002", buildPath("noble", buildHex),
		uploads + "/0000000001", uploads + "/0000000002", uploads + "/0000000003"}
	rapid.Check(t, func(r *rapid.T) {
		m := offline()
		known := map[resources.Key]state.Entry{}
		zxid := int64(0)
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			at := rapid.SampledFrom(paths).Draw(r, "path")
			zxid++
			switch rapid.SampledFrom([]string{"put", "put", "remove", "follow", "again"}).Draw(r, "what") {
			case "put":
				m.takeText(at, drawDocument(r), zxid)
			case "remove":
				m.cache.event(zk.EventNodeDeleted, at)
			case "again": // as after a reconnection
				if z := m.cache.nodes[at]; z != nil && z.known {
					m.takeText(at, string(z.data), z.mzxid)
				}
			case "follow":
				follow(m, known)
			}
		}
		follow(m, known)
		want := m.listShared(sharedKinds)
		got := slices.SortedFunc(maps.Values(known), byKindAndID)
		if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
			r.Fatalf("(-List +Changes):\n%s", diff)
		}
		ids := map[resources.Key]bool{}
		for _, entry := range want {
			if key := entry.Record.Key(); ids[key] {
				r.Fatalf("%s is listed twice", key)
			} else {
				ids[key] = true
			}
		}
	})
}

// drawDocument draws a document that is valid for any kind, or none.
func drawDocument(r *rapid.T) string {
	own := rapid.SampledFrom([]string{"", `, "npctl": {"id": "0000000009"}`}).Draw(r, "own id")
	text := rapid.SampledFrom([]string{`{"state": "pending", "node_types": ["a"]%s}`, `{"state": "failed", "node_types": ["a"]%s}`, "{", ""}).Draw(r, "text")
	if strings.Contains(text, "%s") {
		return fmt.Sprintf(text, own)
	}
	return text
}

func follow(m *mirror, known map[resources.Key]state.Entry) {
	changed, gone, _ := m.changes()
	for _, key := range gone {
		delete(known, key)
	}
	for _, entry := range changed {
		known[entry.Record.Key()] = entry
	}
}

func TestRereadingReportsNoChange(t *testing.T) {
	t.Parallel()
	m := offline()
	at := requestsDir + "/200-0000000001"
	m.takeText(at, zuulsRequest, 7)
	m.changes()
	m.takeText(at, zuulsRequest, 7)
	if changed, gone, _ := m.changes(); len(changed)+len(gone) > 0 {
		t.Errorf("reported %v, %v", changed, gone)
	}
}

func TestOlderReadDoesNotReplaceANewerOne(t *testing.T) {
	t.Parallel()
	m := offline()
	at := requestsDir + "/200-0000000001"
	m.takeText(at, strings.Replace(zuulsRequest, "requested", "failed", 1), 8)
	m.takeText(at, zuulsRequest, 7)
	if got := m.listShared(sharedKinds); len(got) != 1 || got[0].Record.(*resources.Request).State != resources.StateFailed || got[0].Revision != 8 {
		t.Errorf("got %+v", got)
	}
}
