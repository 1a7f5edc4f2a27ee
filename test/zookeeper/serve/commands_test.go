//go:build integration

package serve

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// listed is the output of list commands with -json.
type listed struct {
	Requests []struct {
		ID     string   `json:"id"`
		State  string   `json:"state"`
		Labels []string `json:"labels"`
		Who    string   `json:"requestor"`
	} `json:"requests"`
	Nodes []struct {
		ID      string `json:"id"`
		State   string `json:"state"`
		Request string `json:"request"`
	} `json:"nodes"`
}

func (l *listed) states() (requests, nodes []string) {
	for _, r := range l.Requests {
		requests = append(requests, r.ID+" "+r.State)
	}
	for _, n := range l.Nodes {
		nodes = append(nodes, n.ID+" "+n.State)
	}
	slices.Sort(requests)
	slices.Sort(nodes)
	return requests, nodes
}

func (s *site) says(text string, arguments ...string) {
	s.t.Helper()
	if out, code := s.npctl(arguments...); code != 0 || !strings.Contains(out, text) {
		s.t.Errorf("npctl %q: exit code %d, without %q:\n%s", arguments, code, text, out)
	}
}

// TestCommandsWorkBesideZuul has a Zuul, and operators at the command line.
func TestCommandsWorkBesideZuul(t *testing.T) {
	t.Parallel()
	s := newSite(t, rack)
	d := s.start()
	s.await("both machines are ready", func() bool { return s.census() == "map[ready:2]" })
	busy, in := s.served("big")
	s.use(busy)
	waiting := s.ask("big")
	s.await("it waits", func() bool { return s.pool("rack").Paused })
	s.check("requests and nodes of Zuul are listed", func(t *testing.T) {
		var list listed
		s.answer(&list, "request", "list")
		if got, _ := list.states(); !slices.Equal(got, []string{waiting + " requested"}) {
			t.Errorf("requests are %q", got)
		}
		s.answer(&list, "node", "list")
		if _, got := list.states(); !slices.Contains(got, in[0]+" in-use") || len(got) != 2 {
			t.Errorf("nodes are %q", got)
		}
		s.says("acme", "request", "show", waiting)
		s.says("metal2", "node", "show", in[0])
	})
	s.check("the blocker of a request is explained", func(t *testing.T) {
		s.says("big", "why", "request/"+waiting)
	})
	s.check("status shows it", func(t *testing.T) {
		s.says("rack", "status", "-once")
	})
	s.check("request create is served beside Zuul's requests, and its nodes are taken and returned", func(t *testing.T) {
		var got listed
		s.answer(&got, "request", "create", "-label=metal", "-wait", "-take")
		if len(got.Nodes) != 1 || got.Nodes[0].State != "in-use" {
			t.Fatalf("got %+v", got)
		}
		id := got.Nodes[0].ID
		s.stays("a node of npctl without a lock does not count as abandoned", time.Second, func() bool { return s.node(id).is("state", "in-use") })
		s.says("", "node", "return", id)
		s.await("the machine is ready again", func() bool { return s.census() == "map[in-use:1 ready:1]" })
	})
	s.check("a request of npctl has all fields that Zuul reads", func(t *testing.T) {
		var list listed
		s.answer(&list, "request", "create", "-label=big", "-priority=300")
		made := list.Requests[0]
		z := s.request(made.ID)
		for _, key := range []string{"state", "state_time", "node_types", "requestor", "requestor_data", "provider", "event_id", "created_time", "relative_priority",
			"tenant_name", "declined_by", "nodes", "reuse"} {
			if _, there := z.doc[key]; !there {
				t.Errorf("no %s in %s", key, z.text)
			}
		}
		if !strings.HasPrefix(made.ID, "300-") || len(made.ID) != len("300-0000000000") {
			t.Errorf("its id is %s", made.ID)
		}
		s.says("", "request", "cancel", made.ID)
		s.await("it is gone", func() bool { return s.request(made.ID) == nil })
	})
	s.check("a provider of waiting requests can be frozen and thawed", func(t *testing.T) {
		s.says("", "freeze", "rack")
		s.await("the pool is no longer registered", func() bool { return len(s.children(pools)) == 0 })
		s.must(s.zuul.Return(t.Context(), busy), "return")
		s.stays("nothing is done", time.Second, func() bool { return s.node(in[0]).is("state", "used") && s.request(waiting).is("state", "requested") })
		s.says("", "thaw", "rack")
		s.awaitEnd(waiting, "fulfilled")
		s.accept(waiting)
		s.runBuild(waiting)
	})
	s.check("Zuul's nodes can be held and deleted by hand", func(t *testing.T) {
		s.await("both machines are ready", func() bool { return s.census() == "map[ready:2]" })
		id := s.children(nodes)[0]
		s.says("", "node", "hold", id, "-reason=to look at it")
		if z := s.node(id); !z.is("state", "hold") || !z.is("comment", "to look at it") {
			t.Errorf("held: %s", z.text)
		}
		s.says("", "node", "delete", "-force", id)
		s.await("it is ready again", func() bool { return s.census() == "map[ready:2]" })
	})
	s.check("without the daemon, commands read ZooKeeper directly", func(t *testing.T) {
		id, _ := s.served("big")
		s.runBuild(id)
		s.await("both machines are ready", func() bool { return s.census() == "map[ready:2]" })
		d.Stop()
		for _, id := range s.children(nodes) {
			s.says(id, "state", "list")
		}
		s.says("No changes.", "plan")
	})
}

// TestCommandListsBuildRequestsOfOthersBesideDaemon uses a daemon that does not build: the builds are planned, and run
// once.
func TestCommandListsBuildRequestsOfOthersBesideDaemon(t *testing.T) {
	t.Parallel()
	s := newSite(t, cloud{}.String())
	s.start("-serve=nodes")
	s.says("1 built", "apply", "-auto-approve")
	s.says("No changes.", "plan")
	const wish = "/nodepool/images/debian/request-build" // as nodepool image-build and Nodepool's own tools do
	s.create(wish, "", 0)
	s.await("it is planned", func() bool { out, _ := s.npctl("plan"); return strings.Contains(out, "1 to build") })
	s.says("1 built", "apply", "-auto-approve")
	if s.get(wish) != nil {
		t.Error("it is still requested")
	}
	s.says("No changes.", "plan")
}
