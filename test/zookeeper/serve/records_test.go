//go:build integration

package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// unusual is a request with every known key and some unknown ones, in a format that no program writes.
const unusual = `{ "relative_priority" : 0,"reuse":true , "node_types": ["metal"],  "declined_by": [], "nodes" : [],
 "requestor_data": {"build_set_uuid": "9d3c", "tenant_name": "acme", "pipeline_name": "gate", "job_name": "caf\u00e9 \/ <ünit>",
   "span_info": {"trace_id": 340282366920938463463374607431768211455, "span_id": 18446744073709551615, "big": 1e400, "exact": 0.10}, "twice": 1, "twice": 2},
 "requestor": "zuul\u0041", "provider": null, "state": "requested", "event_id": null, "tenant_name": null,
 "created_time": 1795204849.55, "state_time": 1795204849.54, "priority": "high", "labels": {"x": [1, 2.50, 36893488147419103232]} }`

func TestForeignFieldsArePreservedByteForByte(t *testing.T) {
	t.Parallel()
	s := newSite(t, single)
	s.start()
	path := s.create(requests+"/200-", unusual, zk.FlagSequence)
	s.await("it is fulfilled", func() bool { return s.get(path).is("state", "fulfilled") })
	text := s.get(path).text
	for _, kept := range []string{
		unusual[strings.Index(unusual, `{"build_set_uuid"`):strings.Index(unusual, `,`+"\n"+` "requestor"`)],
		`{"x": [1, 2.50, 36893488147419103232]}`, `"high"`, `"zuul\u0041"`, "1795204849.55",
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("%s is not in %s", kept, text)
		}
	}
	id := strings.TrimPrefix(path, requests+"/")
	node := s.get(path).list("nodes")[0]
	s.check("fields of a node", func(t *testing.T) {
		s.accept(id)
		s.set(nodes+"/"+node, strings.Replace(s.node(node).text, "{", `{"node_properties": {"spot": true}, "big": 36893488147419103232,`, 1))
		s.use(id)
		hold, err := s.zuul.Hold(t.Context(), id, "to look at it", time.Second)
		s.must(err, "hold "+hold)
		s.await("the hold has ended and the machine is ready again", func() bool { return s.census() == "map[ready:1]" && s.node(node) == nil })
	})
}

// TestMalformedRecordsDoNotAffectOthers has records in shapes that stop a Nodepool completely.
func TestMalformedRecordsDoNotAffectOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, single)
	malformed := map[string]string{}
	for i, text := range []string{``, `{`, `[]`, `null`, `"requested"`, `{}`, `{"state": "requested"}`, `{"state": "requested", "node_types": null}`,
		`{"state": "requested", "node_types": []}`, `{"state": "requested", "node_types": [1, null]}`, `{"state": "no such", "node_types": ["metal"]}`,
		`{"state": 7, "node_types": {"metal": 1}}`, "\xff\xfe", `{"state": "requested", "state_time": "yesterday", "node_types": ["metal"]}`} {
		malformed[fmt.Sprintf("%s/100-000000%04d", requests, 9000+i)] = text
		malformed[fmt.Sprintf("%s/000000%04d", nodes, 9000+i)] = text
	}
	whole := `{"state": "requested", "state_time": 1, "node_types": ["metal"], "requestor": "x", "requestor_data": null, "provider": null, "event_id": null}`
	for _, shape := range []string{"0000009100", "100", "100-", "-0000009101", "1-0000009102", "100-200-0000009103", "100-abc", "lock", "100_0000009104", "名前"} {
		malformed[requests+"/"+shape] = whole
	}
	malformed[requests+"/100-0000009200/lock"] = ""
	malformed[nodes+"/somebody"] = `{"state": "ready", "provider": "rack", "pool": "main", "type": ["metal"]}`
	malformed[pools+"/broken0000009000"] = `{"kind": "pool", "id": 7}`
	malformed[pools+"/empty0000009001"] = ``
	for path, text := range malformed {
		s.create(path, text, 0)
	}
	s.start()
	build := func() { // Zuul does not receive the end of a request while such records exist
		id := s.ask("metal")
		s.await("it is fulfilled", func() bool { return s.request(id).is("state", "fulfilled") })
		s.accept(id)
		s.runBuild(id)
	}
	build()
	build()
	s.create(requests+"/100-0000009300", `{"state": "requested", "node_types":`, 0)
	build()
	for path, text := range malformed {
		if z := s.get(path); z == nil || z.text != text || z.stat.Version != 0 {
			t.Errorf("%s was %q and is %+v", path, text, z)
		}
	}
	s.check("commands work beside them", func(t *testing.T) {
		for _, command := range [][]string{{"request", "list"}, {"node", "list"}, {"plan"}, {"state", "list"}} {
			if out, code := s.npctl(command...); code != 0 {
				t.Errorf("npctl %q: exit code %d\n%s", command, code, out)
			}
		}
	})
	s.check("a repaired request is served", func(t *testing.T) {
		path := requests + "/100-0000009001"
		s.set(path, whole)
		s.await("it is fulfilled", func() bool { return s.get(path).is("state", "fulfilled") })
	})
}

// TestForeignNodesAreUnchanged has foreign nodes in every state, locked and unlocked.
func TestForeignNodesAreUnchanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, single)
	const secret = "eyJhbGciOiJSUzI1NiIsImtpZCI6InRva2VuIn0"
	theirs := map[string]string{}
	for _, state := range nodeStates {
		path := s.create(nodes+"/", fmt.Sprintf(`{"state": %q, "state_time": 1.5, "provider": "theirs", "pool": "main", "type": "metal", "launcher": "elsewhere",
			"external_id": {"instance": "i-1"}, "connection_type": "kubectl", "connection_port": {"namespace": "x", "token": %q, "host": "https://k8s"}, "host_keys": [],
			"python_path": "auto"}`, state, secret), zk.FlagSequence)
		theirs[path] = s.get(path).text
	}
	s.start()
	id, got := s.served("metal")
	if z := s.node(got[0]); !z.is("provider", "rack") {
		t.Errorf("given is %s", z.text)
	}
	s.check("credentials in connection_port are never printed", func(t *testing.T) {
		for _, command := range [][]string{{"node", "list"}, {"node", "list", "-json"}, {"node", "show", "0000000000", "-json"}, {"state", "list"},
			{"state", "show", "node/0000000000"}, {"plan"}, {"plan", "-json"}, {"show"}, {"status", "-once"}} {
			if out, _ := s.npctl(command...); strings.Contains(out, secret[:12]) {
				t.Errorf("npctl %q printed\n%s", command, out)
			}
		}
		if s.logged(secret[:12]) {
			t.Error("it is in the log")
		}
	})
	s.runBuild(id)
	s.await("ours is ready again", func() bool {
		for _, id := range s.children(nodes) {
			if z := s.node(id); z.is("provider", "rack") && z.is("state", "ready") {
				return true
			}
		}
		return false
	})
	for path, text := range theirs {
		if z := s.get(path); z == nil || z.text != text {
			t.Errorf("%s was %s and is %+v", path, text, z)
		}
	}
}

func TestZnodesAreWritableByAll(t *testing.T) {
	t.Parallel()
	s := newSite(t, single)
	s.start()
	id, got := s.served("metal")
	s.await("the pool is registered", func() bool { return len(s.children(pools)) == 1 })
	r := s.pool("rack")
	if r.Kind != "pool" || r.API == nil || *r.API != 0 || r.Name != "main" || r.Priority != 100 || r.Paused == false && r.State != "running" ||
		len(r.Labels) != 1 || r.Hostname == "" || !strings.Contains(r.ID, "rack-main-") {
		t.Errorf("registered is %+v", r)
	}
	if launchers, err := s.zuul.Launchers(t.Context()); err != nil || len(launchers) != 1 || launchers[0].ID != r.ID {
		t.Errorf("Zuul sees %+v, %v", launchers, err)
	}
	if z := s.get(pools + "/" + s.children(pools)[0]); z.stat.EphemeralOwner == 0 {
		t.Error("the registration outlives the process")
	}
	seen := 0
	var look func(path string)
	look = func(path string) {
		acl, _, err := s.conn.GetACL(s.chroot + path)
		if err == nil {
			seen++
			if len(acl) != 1 || acl[0] != (zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}) {
				t.Errorf("%s is for %+v", path, acl)
			}
		}
		for _, kid := range s.children(path) {
			look(path + "/" + kid)
		}
	}
	for _, kid := range s.children("") {
		if kid != "zuul" && kid != "zuul-system" {
			look("/" + kid)
		}
	}
	if seen < 10 || s.node(got[0]) == nil {
		t.Errorf("only %d znodes were checked", seen)
	}
	s.runBuild(id)
}
