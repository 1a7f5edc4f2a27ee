//go:build integration

package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// registerPool registers a pool of another launcher, and returns its znode.
func (s *site) registerPool(id, provider string, priority int, labels ...string) string {
	s.t.Helper()
	return s.create(pools+"/elsewhere", fmt.Sprintf(`{"hostname": "elsewhere", "id": %q, "kind": "pool", "model_api": 0, "name": "main",
		"paused": false, "priority": %d, "provider_name": %q, "state": "running", "supported_labels": ["%s"], "version": "11.0.0"}`,
		id, priority, provider, strings.Join(labels, `", "`)), zk.FlagSequence)
}

func TestUnservableRequestsFail(t *testing.T) {
	t.Parallel()
	s := newSite(t, rack+`label "iron" {}`+strings.ReplaceAll(strings.ReplaceAll(machine, `"rack"`, `"other"`), "metal", "iron"))
	s.start()
	s.await("both pools are registered", func() bool { return len(s.children(pools)) == 2 })
	own := []string{s.pool("rack").ID, s.pool("other").ID}
	slices.Sort(own)
	failed := func(t *testing.T, id string, by ...string) {
		t.Helper()
		s.awaitEnd(id, "failed")
		z := s.request(id)
		declined := z.list("declined_by")
		slices.Sort(declined)
		if nodes, there := z.doc["nodes"].([]any); !there || len(nodes) != 0 || !slices.Equal(declined, by) {
			t.Errorf("want no nodes and the declines of %q: %s", by, z.text)
		}
		s.must(s.zuul.Cancel(t.Context(), id), "cancel")
	}
	s.check("a label that no pool offers", func(t *testing.T) { failed(t, s.ask("unheard-of"), own...) })
	s.check("labels that no single pool offers", func(t *testing.T) { failed(t, s.ask("metal", "iron"), own...) })
	s.check("more machines than exist", func(t *testing.T) { failed(t, s.ask("big", "big"), own...) })
	s.check("not before every registered pool has declined", func(t *testing.T) {
		s.registerPool("elsewhere-1", "theirs", 100, "small")
		id := s.ask("unheard-of")
		declines := func() int { return len(s.request(id).list("declined_by")) }
		s.await("ours have declined", func() bool { return declines() == 2 })
		s.stays("it waits for the other one", time.Second, func() bool { return s.request(id).is("state", "requested") && declines() == 2 })
		if contenders := s.children(requestLocks + "/" + id); len(contenders) != 0 {
			t.Errorf("contenders of a request for other pools are %q", contenders)
		}
		z := s.request(id)
		s.set(requests+"/"+id, strings.Replace(z.text, `"declined_by": [`, `"declined_by": ["elsewhere-1",`, 1))
		failed(t, id, append([]string{"elsewhere-1"}, own...)...)
	})
	s.check("a pool that ends is no longer a candidate", func(t *testing.T) {
		id := s.ask("unheard-of")
		s.await("ours have declined", func() bool { return len(s.request(id).list("declined_by")) == 2 })
		for _, name := range s.children(pools) {
			if strings.HasPrefix(name, "elsewhere") {
				s.remove(pools + "/" + name)
			}
		}
		failed(t, id, own...)
	})
	s.check("a request that another pool could serve is left to it when ours cannot", func(t *testing.T) {
		at := s.registerPool("elsewhere-2", "theirs", 100, "small")
		id := s.ask("small")
		s.stays("the request is unchanged", time.Second, func() bool { z := s.request(id); return z.stat.Version == 0 })
		s.remove(at)
		failed(t, id, own...)
	})
}

func TestFailedLaunchesFailTheRequest(t *testing.T) {
	t.Parallel()
	openstack := cloudlab.Serve(t, "one", emulator.Options{BuildTime: 200 * time.Millisecond, DeleteTime: 100 * time.Millisecond,
		Faults: []emulator.Fault{{Operation: "server.create", Action: emulator.ServerError, Message: "No valid host was found.", After: 1}}})
	s := newSite(t, cloud{openstack: "one", provider: "launch_attempts = 2"}.String(), openstack)
	s.start()
	s.witness()
	id := s.ask("small", "small")
	s.awaitEnd(id, "failed")
	z := s.request(id)
	if declined := z.list("declined_by"); !slices.Equal(declined, []string{s.pool("one").ID}) || len(z.list("nodes")) != 0 {
		t.Errorf("failed request: %s", z.text)
	}
	s.must(s.zuul.Cancel(t.Context(), id), "cancel")
	s.await("the failed node is gone, and the other one is free", func() bool {
		left := s.children(nodes)
		return len(left) == 1 && s.node(left[0]).is("state", "ready") && s.node(left[0]).doc["allocated_to"] == nil
	})
}

func TestCanceledRequestsLeaveNoLocksOrNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t, cloud{provider: `build_time = "4s"`, pool: "max_servers = 1"}.String())
	s.start()
	cancel := func(id string) { s.must(s.zuul.Cancel(t.Context(), id), "cancel") }
	id := s.ask("small")
	s.await("a node is building for it", func() bool { return s.census() == "map[building:1]" })
	cancel(id)
	s.check("canceled while pending: its launch completes", func(t *testing.T) {
		s.await("the node is ready and unassigned", func() bool {
			left := s.children(nodes)
			return len(left) == 1 && s.node(left[0]).is("state", "ready") && s.node(left[0]).doc["allocated_to"] == nil
		})
		s.await("the request is not locked", func() bool { return len(s.children(requestLocks+"/"+id)) == 0 })
	})
	node := s.children(nodes)[0]
	s.check("a ready node is assigned immediately", func(t *testing.T) {
		id = s.ask("small")
		if got := s.awaitEnd(id, "fulfilled"); !slices.Equal(got, []string{node}) {
			t.Errorf("assigned is %q, ready was %s", got, node)
		}
	})
	s.check("canceled while fulfilled: its node is free again", func(t *testing.T) {
		cancel(id)
		s.await("the node is unassigned", func() bool { return s.node(node).doc["allocated_to"] == nil })
		if z := s.node(node); z.doc["tenant_name"] != nil || z.doc["requestor"] != nil {
			t.Errorf("free node: %s", z.text)
		}
	})
	s.check("canceled while it waits for capacity", func(t *testing.T) {
		first, _ := s.served("small")
		waiting := s.ask("small")
		s.await("the pool is paused", func() bool { return s.pool("one").Paused })
		cancel(waiting)
		s.await("no request waits any more", func() bool { return !s.pool("one").Paused })
		s.runBuild(first)
		s.await("the used node is gone", func() bool { return s.census() == "map[]" })
	})
	s.check("a lock directory stays for clients that may use it, and does not block", func(t *testing.T) {
		if len(s.children(requestLocks)) == 0 {
			t.Error("lock directories of requests are gone already; they stay for eight hours")
		}
		id, _ := s.served("small")
		s.runBuild(id)
	})
}

func TestRequestsAreServedInOrderOfPriority(t *testing.T) {
	t.Parallel()
	s := newSite(t, single)
	s.start()
	s.await("the machine is ready", func() bool { return s.census() == "map[ready:1]" })
	busy, _ := s.served("metal")
	ids := map[string]string{}
	for _, r := range []struct {
		name               string
		priority, relative int
	}{{"low", 300, 0}, {"third", 200, 5}, {"fourth", 200, 20}, {"first", 199, 50}, {"second", 200, 9}} {
		ids[r.name] = s.submit(lab.Request{Labels: []string{"metal"}, Priority: r.priority, RelativePriority: r.relative})
	}
	s.check("a waiting request is requested, unlocked, and can be revised", func(t *testing.T) {
		s.await("the pool is paused", func() bool { return s.pool("rack").Paused })
		for name, id := range ids {
			if z := s.request(id); !z.is("state", "requested") || len(s.children(requestLocks+"/"+id)) > 0 {
				t.Errorf("%s: %s", name, z.text)
			}
		}
		for name, relative := range map[string]int{"second": 1, "fourth": 30} {
			if revised, err := s.zuul.Revise(t.Context(), ids[name], relative); err != nil || !revised {
				t.Errorf("%s cannot be revised: %v", name, err)
			}
		}
	})
	var got []string
	for range ids {
		s.runBuild(busy)
		s.await("the next request has the machine", func() bool {
			for name, id := range ids {
				if s.request(id).is("state", "fulfilled") {
					got, busy = append(got, name), id
					return true
				}
			}
			return false
		})
		s.accept(busy)
	}
	if want := []string{"first", "second", "third", "fourth", "low"}; !slices.Equal(got, want) {
		t.Errorf("served were %q, want %q", got, want)
	}
	s.runBuild(busy)
	s.await("the pool is not paused", func() bool { return !s.pool("rack").Paused && s.census() == "map[ready:1]" })
}

func TestPreferredProvidersAndPoolsGoFirst(t *testing.T) {
	t.Parallel()
	second := strings.ReplaceAll(machine, `"rack"`, `"other"`)
	s := newSite(t, single+strings.Replace(second, "pool", "priority = 200\n  pool", 1))
	s.start()
	s.await("both machines are ready", func() bool { return s.census() == "map[ready:2]" && len(s.children(pools)) == 2 })
	of := func(r lab.Request) (id, provider string) {
		id = s.submit(r)
		return id, fmt.Sprint(s.node(s.awaitEnd(id, "fulfilled")[0]).doc["provider"])
	}
	metal := []string{"metal"}
	cancel := func(id string) {
		s.must(s.zuul.Cancel(t.Context(), id), "cancel")
		s.await("both machines are free", func() bool {
			for _, node := range s.children(nodes) {
				if z := s.node(node); !z.is("state", "ready") || z.doc["allocated_to"] != nil {
					return false
				}
			}
			return true
		})
	}
	s.check("the requested provider", func(t *testing.T) {
		for _, want := range []string{"other", "rack"} {
			id, got := of(lab.Request{Labels: metal, Provider: want})
			if got != want {
				t.Errorf("%s is requested and %s assigned", want, got)
			}
			cancel(id)
		}
	})
	s.check("an unknown provider does not block", func(t *testing.T) {
		id, _ := of(lab.Request{Labels: metal, Provider: "unheard-of"})
		cancel(id)
	})
	s.check("the pool of the better priority", func(t *testing.T) {
		id, got := of(lab.Request{Labels: metal})
		if got != "rack" {
			t.Errorf("%s is given", got)
		}
		cancel(id)
	})
	left := func(r lab.Request) string {
		id := s.submit(r)
		s.stays("the other launcher serves it", time.Second, func() bool { return s.request(id).stat.Version == 0 })
		return id
	}
	s.check("the requested provider of another launcher", func(t *testing.T) {
		at := s.registerPool("elsewhere-1", "theirs", 300, "metal")
		id := left(lab.Request{Labels: metal, Provider: "theirs"})
		s.set(requests+"/"+id, strings.Replace(s.request(id).text, "{", `{"declined_by": ["elsewhere-1"], `, 1))
		s.awaitEnd(id, "fulfilled")
		cancel(id)
		s.remove(at)
	})
	s.check("another launcher's pool of a better priority, unless it is paused", func(t *testing.T) {
		at := s.registerPool("elsewhere-2", "theirs", 10, "metal")
		id := left(lab.Request{Labels: metal})
		s.set(at, strings.Replace(s.get(at).text, `"paused": false`, `"paused": true`, 1))
		s.awaitEnd(id, "fulfilled")
		cancel(id)
		s.remove(at)
	})
	s.check("a provider of another launcher, until it is unregistered", func(t *testing.T) {
		logged := func(text string) int {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return strings.Count(string(log), text)
		}
		const acquired = `msg="lock acquired" lock="provider other"`
		before := logged(acquired)
		at := s.registerPool("elsewhere-3", "other", 200, "none")
		s.await("npctl stands by", func() bool { return logged(`msg="standing by" lock="provider other"`) == 1 })
		s.remove(at)
		s.await("npctl serves the provider again", func() bool { return logged(acquired) == before+1 })
	})
}

func TestTenantLimitsAreEnforced(t *testing.T) {
	t.Parallel()
	s := newSite(t, strings.Replace(rack, "STATE", "STATE\n  tenant_limit \"narrow\" { max_servers = 1 }", 1))
	s.start()
	s.await("both machines are ready", func() bool { return s.census() == "map[ready:2]" })
	narrow := lab.Request{Labels: []string{"metal"}, Tenant: "narrow"}
	first := s.submit(narrow)
	s.awaitEnd(first, "fulfilled")
	s.accept(first)
	s.awaitEnd(s.submit(lab.Request{Labels: []string{"metal", "metal"}, Tenant: "narrow"}), "failed") // no pool could ever serve it
	second := s.submit(narrow)
	s.stays("the second request of the tenant waits, and is not declined", time.Second, func() bool {
		z := s.request(second)
		return z.is("state", "requested") && len(z.list("declined_by")) == 0
	})
	other, _ := s.served("metal")
	s.runBuild(other)
	s.runBuild(first)
	s.awaitEnd(second, "fulfilled")
}

func TestServersOfARequestAreInOneZone(t *testing.T) {
	t.Parallel()
	s := newSite(t, cloud{labels: "label \"small\" {\n  min_ready = 2\n}"}.String())
	s.start()
	s.await("two are ready in advance and unassigned", func() bool { return s.census() == "map[ready:2]" })
	for _, id := range s.children(nodes) {
		if z := s.node(id); z.doc["allocated_to"] != nil || z.doc["tenant_name"] != nil {
			t.Errorf("ready in advance: %s", z.text)
		}
	}
	ready := s.children(nodes)
	s.check("ready nodes are assigned first, and replaced", func(t *testing.T) {
		id, got := s.served("small")
		if !slices.Contains(ready, got[0]) {
			t.Errorf("assigned is %q, ready were %q", got, ready)
		}
		s.await("two are ready again", func() bool { return s.census() == "map[ready:3]" })
		s.runBuild(id)
	})
	s.check("ready and launched nodes of several labels, in their order", func(t *testing.T) {
		for range 3 {
			labels := []string{"large", "small", "small", "large"}
			id, got := s.served(labels...)
			zones := map[any]bool{}
			for i, node := range got {
				z := s.node(node)
				zones[z.doc["az"]] = true
				if !slices.Contains(z.list("type"), labels[i]) {
					t.Errorf("%s is assigned for %s: %s", node, labels[i], z.text)
				}
			}
			if len(zones) != 1 {
				t.Errorf("zones of one request are %v", zones)
			}
			s.runBuild(id)
		}
	})
}
