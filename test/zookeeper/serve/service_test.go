//go:build integration

package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/test/zookeeper/lab"
)

// holdAfterBuild ends a build and keeps its node, and returns the hold request.
func (s *site) holdAfterBuild(id string, expiration time.Duration) (hold string) {
	s.t.Helper()
	s.use(id)
	hold, err := s.zuul.Hold(s.t.Context(), id, "to look at it", expiration)
	s.must(err, "hold")
	return hold
}

func TestHeldNodesStayUntilHoldEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, strings.Replace(rack, "STATE", "STATE\n  max_hold_age = \"12s\"", 1))
	s.start()
	s.await("both machines are ready", func() bool { return s.census() == "map[ready:2]" })
	one, of := s.served("metal")
	other, for12s := s.served("metal")
	began := time.Now() // before Zuul records the start of the holds
	s.holdAfterBuild(one, 4*time.Second)
	z := s.node(of[0])
	if !z.is("state", "hold") || !z.is("hold_expiration", 4) || !z.is("comment", "to look at it") || z.doc["hold_job"] == nil {
		t.Errorf("held: %+v", z)
	}
	if gone := s.request(one); gone != nil {
		t.Errorf("Zuul has left its request behind: %s", gone.text)
	}
	s.holdAfterBuild(other, 0)
	s.await("hold_expiration has passed", func() bool { return !s.node(of[0]).is("state", "hold") })
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("a hold of 4 s took %s", took)
	}
	s.await("max_hold_age has passed", func() bool { return !s.node(for12s[0]).is("state", "hold") })
	if took := time.Since(began); took < 12*time.Second {
		t.Errorf("a hold of 12 s took %s", took)
	}
	s.await("both machines are ready again", func() bool { return s.census() == "map[ready:2]" })
}

func TestExpiredHoldDoesNotAffectNextBuild(t *testing.T) {
	t.Parallel()
	s := newSite(t, single)
	s.start()
	id, first := s.served("metal")
	hold := s.holdAfterBuild(id, 0)
	s.stays("it is held", time.Second, func() bool { return s.node(first[0]).is("state", "hold") })
	s.must(s.zuul.EndHold(t.Context(), hold), "end hold")
	s.await("the machine is ready again", func() bool { return s.census() == "map[ready:1]" && s.node(first[0]) == nil })

	id, first = s.served("metal")
	hold = s.holdAfterBuild(id, time.Second)
	s.await("the hold has ended and the machine is ready again", func() bool { return s.census() == "map[ready:1]" && s.node(first[0]) == nil })
	next := s.ask("metal")
	given := s.awaitEnd(next, "fulfilled")
	s.must(s.zuul.EndHold(t.Context(), hold), "end hold")
	if z := s.node(given[0]); !z.is("state", "ready") || !z.is("allocated_to", next) {
		t.Errorf("the next build's node: %s", z.text)
	}
	s.accept(next)
	s.runBuild(next)
}

func TestNodesOfDeadZuulAreReclaimed(t *testing.T) {
	t.Parallel()
	s := newSite(t, cloud{pool: "max_servers = 3"}.String())
	s.start()
	executor := lab.StartPeer(t, s.env, lab.PeerOptions{Hosts: s.env.Hosts + s.chroot, Timeout: 5 * time.Second})
	ids := map[string]string{}
	for _, name := range []string{"in use", "in transit", "held"} {
		id := s.ask("small")
		ids[name] = s.awaitEnd(id, "fulfilled")[0]
		_, err := executor.Accept(t.Context(), id)
		s.must(err, "accept")
		if name != "in transit" {
			s.must(executor.Use(t.Context(), id), "use")
		}
		if name == "held" {
			_, err := executor.Hold(t.Context(), id, "to look at it", 0)
			s.must(err, "hold")
		}
	}
	transit := s.node(ids["in transit"]).stat.Mzxid
	s.stays("its nodes are unchanged", time.Second, func() bool {
		return s.node(ids["in use"]).is("state", "in-use") && s.node(ids["in transit"]).stat.Mzxid == transit
	})
	executor.Kill()
	s.await("the node in use is deleted", func() bool { return s.node(ids["in use"]) == nil })
	s.await("the taken node is free", func() bool {
		z := s.node(ids["in transit"])
		return z.is("state", "ready") && z.doc["allocated_to"] == nil
	})
	if z := s.node(ids["held"]); !z.is("state", "hold") {
		t.Errorf("held: %+v", z)
	}
	s.check("the free node is assigned to another request", func(t *testing.T) {
		_, got := s.served("small")
		if got[0] != ids["in transit"] {
			t.Errorf("given is %q", got)
		}
		s.must(s.zuul.Expire(t.Context()), "expire")
		s.await("the session of the other client has ended too, and the node is free", func() bool {
			z := s.node(got[0])
			return z.is("state", "ready") && z.doc["allocated_to"] == nil
		})
	})
}

func TestEphemeralRequestsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	s := newSite(t, cloud{provider: `build_time = "4s"`}.String())
	s.start()
	launcher := lab.StartPeer(t, s.env, lab.PeerOptions{Hosts: s.env.Hosts + s.chroot, Timeout: 5 * time.Second})
	const text = `{"state": "requested", "state_time": 1795204849.5, "node_types": ["small"], "requestor": "NodePool:min-ready", "requestor_data": null,
		"provider": null, "event_id": "x", "reuse": false, "declined_by": [], "nodes": [], "relative_priority": 0, "created_time": 1795204849.5, "tenant_name": null}`
	s.must(launcher.CreateEphemeral(t.Context(), requests+"/900-0000000900", text), "create")
	s.await("a node is building for it", func() bool { return s.census() == "map[building:1]" })
	launcher.Kill()
	s.await("the request ends with its session, and the node is unassigned", func() bool {
		left := s.children(nodes)
		return s.request("900-0000000900") == nil && len(left) == 1 && s.node(left[0]).is("state", "ready") && s.node(left[0]).doc["allocated_to"] == nil
	})
	s.check("a request with reuse false receives a new node", func(t *testing.T) {
		ready := s.children(nodes)[0]
		path := s.create(requests+"/900-", text, zk.FlagSequence)
		s.await("it is fulfilled", func() bool { return s.get(path).is("state", "fulfilled") })
		if got := s.get(path).list("nodes"); len(got) != 1 || got[0] == ready {
			t.Errorf("assigned is %q, ready was %s", got, ready)
		}
	})
}

// TestCrashRemainsAreCleanedUp has the records that a launcher leaves when it crashes, for each step of its work.
func TestCrashRemainsAreCleanedUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.timeout = quick
	s.write(cloud{provider: `build_time = "4s"`}.String())
	d := s.start()
	s.awaitImage()
	id := s.ask("small", "small")
	s.await("nodes are building", func() bool { return s.census() == "map[building:2]" })
	d.Kill()
	if z := s.request(id); !z.is("state", "pending") {
		t.Errorf("request: %s", z.text)
	}
	s.create(nodes+"/0000000800", fmt.Sprintf(`{"state": "deleted", "provider": "one", "pool": "main", "type": ["small"], "allocated_to": %q, "host_keys": [],
		"python_path": "auto"}`, id), 0)
	s.create(nodes+"/0000000801", `{"state": "in-use", "provider": "one", "pool": "main", "type": ["small"], "host_keys": [], "python_path": "auto"}`, 0)
	s.create(requests+"/100-0000000900", `{"state": "pending", "state_time": 1795204849.5, "node_types": ["small"], "requestor": "x", "requestor_data": null,
		"provider": null, "event_id": null}`, 0)
	s.launch()
	s.await("remnants are gone", func() bool { return s.node("0000000800") == nil && s.node("0000000801") == nil })
	if got := s.awaitEnd(id, "fulfilled"); len(got) != 2 {
		t.Errorf("assigned are %q", got)
	}
	s.accept(id)
	s.runBuild(id)
	s.await("the other lost request is served too", func() bool { return s.request("100-0000000900").is("state", "fulfilled") })
}
