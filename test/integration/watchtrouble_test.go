//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/openstack/lab"
)

// TestOpenStackWatchRespectsQuota creates requests for more than the quota, in a project that contains a foreign
// server. They wait, and npctl never sends a call that Nova or Neutron would refuse.
func TestOpenStackWatchRespectsQuota(t *testing.T) {
	t.Parallel()
	p, g, at := watched(t, strings.Replace(unanswered, "create_ports     = true", "", 1))
	p.server("np0000000001", "none")
	before := p.things()
	p.quota(map[string]int{lab.Instances: 4, lab.FloatingIPs: 2})
	serializeCalls(g, "POST network /floatingips") // of two concurrent creates Neutron counts one twice, as itself and as its reservation
	d := at.watch("-refresh=5s")                   // so that listings contain many unfinished servers

	first := at.takeNodes("small", "small")
	address := at.requests("small")
	at.checkWhy(address, "quota: 0 floating IPs left and 1 needed")
	last := at.takeNodes("medium")
	instance := at.requests("medium")
	at.checkWhy(instance, "quota: 0 instances left and 1 needed")
	at.returnNodes(append(last, first[0])...) // the time of the next listing decides which of the two is served first
	second := at.awaitNodes(address, "small")
	third := at.awaitNodes(instance, "medium")
	at.returnNodes(first[1], second[0], third[0])

	t.Run("Rush", func(t *testing.T) { at.with(t).runUsers(3, 1) })
	at.eventuallyCensus("")
	if refused := g.Refusals(); len(refused) > 0 {
		t.Errorf("calls that were refused:\n%s", strings.Join(refused, "\n"))
	}
	if n := d.metric(`npctl_request_phase_seconds_sum{phase="quota"}`); n < 5 {
		t.Errorf("metrics know of %v s of waiting for the quota", n)
	}
	d.Stop()
	p.mustBe(before)
}

// serializeCalls lets calls of a kind pass one after the other.
func serializeCalls(g *gate.Gate, kind string) {
	turn := make(chan struct{}, 1)
	g.Set(func(call string) error {
		if call != kind {
			return nil
		}
		select {
		case turn <- struct{}{}:
			return nil
		case <-time.After(testutil.Patience):
			return gate.ErrCut
		}
	}, func(call string) error {
		if call == kind {
			<-turn
		}
		return nil
	})
}

// checkWhy fails the test unless npctl why soon prints the reason why a request waits.
func (at *place) checkWhy(request, want string) {
	at.t.Helper()
	var said string
	testutil.Await(at.t, fmt.Sprintf("npctl why request/%s says %q", request, want), func() bool {
		cmd, stdout, stderr := at.command(at.t.Context(), "why", "request/"+request)
		err := cmd.Run()
		said = fmt.Sprintf("%v\n%s%s", err, stdout, stderr)
		return err == nil && strings.Contains(stdout.String(), want)
	}, func() string { return said })
	if state := at.stateOf(request); state != "requested" {
		at.t.Errorf("request %s is %s", request, state)
	}
}

// awaitNodes waits for the nodes of a request and takes them.
func (at *place) awaitNodes(request string, labels ...string) []node {
	at.t.Helper()
	began := time.Now()
	if _, err := at.says("request", "wait", request); err != nil {
		for _, about := range [][]string{{"why", "request/" + request}, {"node", "list"}} {
			cmd, stdout, _ := at.command(at.t.Context(), about...)
			_ = cmd.Run()
			at.t.Logf("npctl %s:\n%s", strings.Join(about, " "), stdout)
		}
		at.t.Fatal(err)
	}
	nodes, err := at.runTake([]string{"request", "take", request}, labels)
	testutil.Must(at.t, err)
	at.t.Logf("request %s was served within %.1f s", request, time.Since(began).Seconds())
	return nodes
}

// runUsers runs users that repeatedly take and return nodes.
func (at *place) runUsers(users, times int) {
	var all sync.WaitGroup
	for range users {
		all.Go(func() {
			for range times {
				nodes, err := at.runTake(asks([]string{"small"}, "-take"), []string{"small"})
				if err != nil {
					at.t.Error(err)
					return
				}
				at.returnNodes(nodes...)
			}
		})
	}
	all.Wait()
}

// TestOpenStackWatchIsKilled kills the daemon during launches, right after Nova or Neutron has executed a call and
// before npctl receives the response, and stops another without time to finish. Every request is fulfilled in the end,
// and no leaks remain.
func TestOpenStackWatchIsKilled(t *testing.T) {
	t.Parallel()
	p, g, at := watched(t, unanswered)
	before := p.things()
	p.quota(map[string]int{lab.Instances: 20, lab.FloatingIPs: 20})
	orders := map[string][]string{}
	ask := func(labels ...string) string {
		id := at.requests(labels...)
		orders[id] = labels
		return id
	}
	killAt(g, at, "POST compute /servers", func() {
		ask("small", "medium")
		ask("small")
		ask("volume", "small")
	})
	killAt(g, at, "POST network /floatingips", func() {})

	d := at.watch("-grace=1s")
	last := ask("small")
	var begun node
	eventually(t, "another node is on its way", func() bool {
		a, err := at.says("node", "list", "-request="+last)
		if err != nil || len(a.Nodes) == 0 {
			return false
		}
		begun = a.Nodes[0]
		return begun.ExternalID != ""
	})
	t.Logf("with a second of grace it ended within %s", d.Stop().Round(time.Millisecond))
	if a, err := at.says("node", "show", begun.ID); err != nil || a.Nodes[0].State != "building" {
		t.Errorf("the node with the started launch is %+v, %v", a, err)
	}

	d = at.watch()
	taken := map[string]bool{}
	for id, labels := range orders {
		for _, n := range at.awaitNodes(id, labels...) {
			if taken[n.ID] {
				t.Errorf("node %s was assigned twice", n.ID)
			}
			taken[n.ID] = true
			if n.ID == begun.ID && (n.Attempt != 1 || n.ExternalID != begun.ExternalID) {
				t.Errorf("the node whose launch started before SIGTERM is %+v, and was %+v", n, begun)
			}
			at.returnNodes(n)
		}
	}
	if !taken[begun.ID] {
		t.Errorf("the launch of node %s started before SIGTERM and was not resumed", begun.ID)
	}
	at.eventuallyCensus("")
	eventually(t, "nothing is left", func() bool { return len(without(p.things(), before)) == 0 })
	d.Stop()
	p.mustBe(before)
}

// killAt runs a daemon until the second call of a kind has reached the service, and kills it before the response.
// Calls of that kind wait until ready returns.
func killAt(g *gate.Gate, at *place, kind string, ready func()) {
	at.t.Helper()
	armed, struck := make(chan struct{}), make(chan struct{})
	var d *daemon
	var n atomic.Int32
	g.Set(func(call string) error {
		if call == kind {
			<-armed
		}
		return nil
	}, func(call string) error {
		if call != kind {
			return nil
		}
		switch n.Add(1) {
		case 1:
			return nil
		case 2:
			d.Kill()
			close(struck)
		}
		return gate.ErrCut
	})
	d = at.watch()
	ready()
	close(armed)
	select {
	case <-struck:
	case <-time.After(testutil.Patience):
		at.t.Fatalf("there was no second %s", kind)
	}
	g.Set(nil, nil)
	at.t.Logf("killed at %s", kind)
}

// TestOpenStackWatchSurvivesHangingNova stops Nova's API for 15 seconds at the first create of a server, several
// times longer than npctl waits for a response. Requests wait, nothing is declined or deleted, and then all of them are
// served.
func TestOpenStackWatchSurvivesHangingNova(t *testing.T) {
	p, g, at := watched(t, strings.Replace(unanswered, `label "small"  { min_ready = 0 }`, `label "small"  { min_ready = 1 }`, 1))
	at.change("rate  = 40", "rate  = 40\n  api_timeout = \"4s\"\n  launch_attempts = 2")
	// Each launch gets no answer at least twice, which uses up no attempt. Nova itself may then fail one of the servers that it
	// creates all at once, and that takes an attempt.
	before := p.things()
	p.quota(map[string]int{lab.Instances: 20, lab.FloatingIPs: 20})
	d := at.watch("-refresh=3s")
	began := time.Now()
	at.eventuallyCensus("ready:1")
	used := at.takeNodes("medium")
	resume := func() {}
	paused := make(chan struct{})
	var once sync.Once
	g.Set(func(call string) error {
		if call == "POST compute /servers" {
			once.Do(func() {
				resume = p.pause("nova-api")
				close(paused)
			})
		}
		return nil
	}, nil)
	orders := [][]string{{"medium", "medium"}, {"small"}, {"small"}}
	ids := []string{at.requests(orders[0]...)}
	<-paused
	for _, labels := range orders[1:] {
		ids = append(ids, at.requests(labels...))
	}
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		for _, id := range ids {
			if state := at.stateOf(id); !slices.Contains([]string{"requested", "pending", "fulfilled"}, state) {
				t.Errorf("request %s is %s", id, state)
			}
		}
	}
	listed := time.Unix(int64(d.metric(`npctl_provider_listed_timestamp_seconds{provider="acme"}`)), 0)
	if silent := time.Since(listed); silent < 12*time.Second || listed.Before(began) {
		t.Errorf("Nova has been hanging for 15 s, and npctl reports an answer %s ago; it has been running for %s", silent, time.Since(began))
	}
	at.mustRun(0, "why", "request/"+ids[0]).contains("acme/main in zone", "0 of 2 are ready", "has been building for")
	if calls := g.CallsWithPrefix("DELETE"); len(calls) > 0 {
		t.Errorf("while Nova hung: %v", calls)
	}
	resume()
	var nodes []node
	for i, id := range ids {
		nodes = append(nodes, at.awaitNodes(id, orders[i]...)...)
	}
	at.returnNodes(append(nodes, used...)...)
	eventually(t, "only ready nodes are left, one of them for min_ready", func() bool {
		a, err := at.says("node", "list")
		testutil.Must(t, err)
		small, other := 0, 0
		for _, n := range a.Nodes {
			switch {
			case n.State != "ready":
				return false
			case slices.Contains(n.Labels, "small"):
				small++
			default: // its sibling failed in Nova, so the request was served by other nodes
				other++
			}
		}
		left := count(without(p.things(), before))
		return small == 1 && left["server"] == 1+other && left["floating IP"] == 1+other
	})
	d.Stop()
	at.applyUntilSettled()
	at.gone(p, before)
}
