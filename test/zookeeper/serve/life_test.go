//go:build integration

package serve

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// facts are the expected members of a document; a pattern matches values that vary.
type facts map[string]any

type pattern string

// differs compares a document with the expected one, without npctl's own key, and returns the differences.
func differs(z *znode, want facts) string {
	got, expected := map[string]any{}, map[string]any{}
	for key, value := range z.doc {
		if key != "npctl" {
			got[key] = value
		}
	}
	for key, value := range want {
		text, _ := json.Marshal(got[key])
		if p, ok := value.(pattern); ok {
			if _, there := got[key]; there && regexp.MustCompile("^(?:"+string(p)+")$").MatchString(string(text)) {
				value = got[key]
			}
		}
		expected[key] = value
	}
	return cmp.Diff(plainly(expected), plainly(got))
}

func plainly(v any) (decoded any) {
	text, _ := json.Marshal(v)
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	_ = decoder.Decode(&decoded)
	return decoded
}

const (
	epoch = pattern(`\d{10}\.\d+`) // seconds with a fraction, never milliseconds
	none  = pattern(`null`)
)

// TestMachineServesBuildAfterBuild follows a static machine through a whole life, record by record.
func TestMachineServesBuildAfterBuild(t *testing.T) {
	t.Parallel()
	s := newSite(t, rack)
	d := s.start()
	s.await("both machines are ready", func() bool { return s.census() == "map[ready:2]" })
	hello, err := s.zuul.Hello(t.Context())
	s.must(err, "hello")

	sent, err := s.zuul.Request(t.Context(), lab.Request{Labels: []string{"big"}, RelativePriority: 3, Tenant: "acme"})
	s.must(err, "request")
	ids := s.awaitEnd(sent.ID, "fulfilled")
	request := s.request(sent.ID)
	if diff := differs(request, facts{"state": "fulfilled", "state_time": epoch, "created_time": epoch, "node_types": []string{"big"},
		"nodes": ids, "declined_by": []string{}, "reuse": true, "requestor": hello.System, "requestor_data": sent.RequestorData,
		"provider": nil, "relative_priority": 3, "event_id": pattern(`"[0-9a-f]{32}"`), "tenant_name": "acme"}); diff != "" {
		t.Errorf("fulfilled request (-want +got):\n%s", diff)
	}

	machine := facts{"state": "ready", "state_time": epoch, "created_time": epoch, "provider": "rack", "pool": "main",
		"type": []string{"metal", "big"}, "allocated_to": sent.ID, "launcher": "static driver", "external_id": "metal2", "hostname": "metal2",
		"cloud": nil, "region": nil, "az": nil, "host_id": nil, "interface_ip": "127.0.0.1", "public_ipv4": "127.0.0.1", "public_ipv6": nil,
		"private_ipv4": nil, "private_ipv6": nil, "connection_type": "ssh", "connection_port": 2222, "ssh_port": 2222, "username": "root",
		"python_path": "auto", "shell_type": nil, "host_keys": []string{}, "image_id": nil, "attributes": map[string]string{"executor-zone": "zone-1"},
		"slot": 0, "resources": nil, "tenant_name": "acme", "requestor": hello.System, "user_data": nil, "driver_data": nil, "comment": nil,
		"hold_job": nil, "hold_expiration": nil}
	if diff := differs(s.node(ids[0]), machine); diff != "" {
		t.Errorf("ready node (-want +got):\n%s", diff)
	}

	accepted := s.accept(sent.ID)
	if len(accepted) != 1 || accepted[0]["label"] != "big" || accepted[0]["interface_ip"] != "127.0.0.1" {
		t.Errorf("Zuul has %+v", accepted)
	}
	s.check("a ready node that is locked and allocated to a removed request is unchanged", func(t *testing.T) {
		before := s.node(ids[0]).stat.Mzxid
		s.stays("the node is unchanged", 2*time.Second, func() bool { return s.node(ids[0]).stat.Mzxid == before })
	})
	s.use(sent.ID)
	if z := s.node(ids[0]); !z.is("state", "in-use") {
		t.Errorf("in use: %s", z.text)
	}
	s.must(s.zuul.Return(t.Context(), sent.ID), "return")
	s.await("the machine is ready again", func() bool { return s.census() == "map[ready:2]" })
	s.check("a machine that was used comes back as a new node, which knows nothing of the build", func(t *testing.T) {
		if z := s.node(ids[0]); z != nil {
			t.Errorf("the old record is still there: %s", z.text)
		}
		machine["allocated_to"], machine["tenant_name"], machine["requestor"] = nil, nil, nil
		for _, id := range s.children(nodes) {
			if z := s.node(id); z.is("hostname", "metal2") {
				if diff := differs(z, machine); diff != "" {
					t.Errorf("ready again (-want +got):\n%s", diff)
				}
			}
		}
	})
	s.check("several labels are served in their order, independent of the idle time of the machines", func(t *testing.T) {
		for _, labels := range [][]string{{"metal", "big"}, {"big", "metal"}} {
			id, ids := s.served(labels...)
			for i, label := range labels {
				if !strings.Contains(strings.Join(s.node(ids[i]).list("type"), " "), label) {
					t.Errorf("%q are assigned for %q: %s", ids, labels, s.node(ids[i]).text)
				}
			}
			s.runBuild(id)
			s.await("ready again", func() bool { return s.census() == "map[ready:2]" })
		}
	})
	s.check("SIGTERM removes the registration at once", func(t *testing.T) {
		d.Stop()
		if left := s.children(pools); len(left) > 0 {
			t.Errorf("registered are still %q", left)
		}
	})
}

// TestServerLivesFromRequestToDeletion follows a node in a cloud.
func TestServerLivesFromRequestToDeletion(t *testing.T) {
	t.Parallel()
	openstack := cloudlab.Serve(t, "one", emulator.Options{BuildTime: 5 * time.Second, DeleteTime: 100 * time.Millisecond})
	port := openstack.ServeSSH(t)
	s := newSite(t, cloud{openstack: "one", port: port, pool: `node_attributes = { executor-zone = "zone-1" }`}.String(), openstack)
	s.start()
	hello, err := s.zuul.Hello(t.Context())
	s.must(err, "hello")
	w := s.witness()
	s.awaitImage()
	id := s.submit(lab.Request{Labels: []string{"small"}, Tenant: "acme"})

	s.await("it is pending", func() bool { return s.request(id).is("state", "pending") })
	s.check("a pending request is locked", func(t *testing.T) {
		if contenders := s.children(requestLocks + "/" + id); len(contenders) != 1 || !contender.MatchString(contenders[0]) {
			t.Errorf("contenders are %q", contenders)
		}
		if revised, err := s.zuul.Revise(t.Context(), id, 7); err != nil || revised {
			t.Errorf("Zuul could revise it: %v, %v", revised, err)
		}
	})
	var building *znode
	s.await("its server has an id before it is ready", func() bool {
		for _, n := range s.children(nodes) {
			if z := s.node(n); z.is("state", "building") && z.doc["external_id"] != nil {
				building = z
			}
		}
		return building != nil
	})
	s.check("resources and login of the server are known while it is building", func(t *testing.T) {
		for _, key := range []string{"image_id", "username", "python_path", "connection_port", "connection_type", "resources", "allocated_to", "launcher"} {
			if building.doc[key] == nil {
				t.Errorf("no %s in %s", key, building.text)
			}
		}
	})
	ids := s.awaitEnd(id, "fulfilled")
	request, node := s.request(id), s.node(ids[0])
	s.check("the node is the request's and unlocked before the request is fulfilled", func(t *testing.T) {
		_, lock, err := s.conn.Children(s.chroot + nodes + "/" + ids[0] + "/lock")
		s.must(err, "lock")
		if node.stat.Mzxid > request.stat.Mzxid || lock.Pzxid > request.stat.Mzxid || lock.NumChildren != 0 {
			t.Errorf("the request was written by change %d, the node by %d, its lock by %d", request.stat.Mzxid, node.stat.Mzxid, lock.Pzxid)
		}
	})
	if diff := differs(node, facts{"state": "ready", "state_time": epoch, "created_time": epoch, "provider": "one", "pool": "main",
		"type": []string{"small"}, "allocated_to": id, "launcher": pattern(`"` + s.pool("one").ID + `"`), "external_id": pattern(`"[0-9a-f-]{36}"`),
		"hostname": pattern(`"np\d{10}"`), "cloud": pattern(`null|".*"`), "region": pattern(`null|".*"`), "az": pattern(`"az[12]"`), "host_id": pattern(`null|".+"`),
		"interface_ip": pattern(`"[0-9.]+"`), "public_ipv4": none, "public_ipv6": none, "private_ipv4": pattern(`"[0-9.]+"`), "private_ipv6": none,
		"connection_type": "ssh", "connection_port": port, "ssh_port": port, "username": "zuul", "python_path": "auto", "shell_type": none,
		"host_keys": pattern(`\["(ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/=]+"(,.*)?\]`),
		"image_id":  pattern(`"/nodepool/images/debian/builds/[^/]+/providers/one/images/\d{10}"`), "attributes": map[string]string{"executor-zone": "zone-1"},
		"slot": none, "resources": pattern(`\{"cores":1,"instances":1,"ram":2048\}`), "tenant_name": "acme", "requestor": hello.System, "user_data": none,
		"driver_data": none, "comment": none, "hold_job": none, "hold_expiration": none}); diff != "" {
		t.Errorf("ready node (-want +got):\n%s", diff)
	}
	if image := s.get(node.doc["image_id"].(string)); !image.is("state", "ready") {
		t.Errorf("image_id names %+v", image)
	}
	s.accept(id)
	s.use(id)
	if z := s.node(ids[0]); !z.is("state", "in-use") || z.doc["user_data"] == nil {
		t.Errorf("in use: %s", z.text)
	}
	s.must(s.zuul.Return(t.Context(), id), "return")
	s.await("the used node is gone", func() bool { return s.census() == "map[]" })
	w.checkStates(t, ids[0], "building", "ready", "deleting")
}
