//go:build integration

package integration

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/openstack/lab"
)

// The tests in this file use npctl watch as people and CI systems do. Nova boots nothing, so OpenSSH answers at the
// addresses of nodes.

// served is a fleet for a daemon: nodes with a floating IP, with a boot volume, and of another flavor without either.
const served = settings + `
label "small"  { min_ready = 1 }
label "volume" {}
label "medium" {}

provider "openstack" "acme" {
  cloud = "mine"
  rate  = 40
  cloud_image "tiny" {
    image_name = "tiny"
    username   = "root"
  }
  pool "main" {
    networks         = ["private"]
    security_groups  = ["ssh"]
    key_name         = "lab"
    auto_floating_ip = true
    create_ports     = true
    label "small" {
      image  = cloud_image.tiny
      flavor = "small"
    }
    label "volume" {
      image            = cloud_image.tiny
      flavor           = "small"
      boot_from_volume = true
      volume_size      = 20
    }
    label "medium" {
      image            = cloud_image.tiny
      flavor           = "medium"
      auto_floating_ip = false
    }
  }
}
`

// unanswered is served without host key checks and min_ready, for nodes that do not answer.
var unanswered = strings.Replace(strings.Replace(served, "networks  ", "host_key_checking = false\n    networks  ", 1), "min_ready = 1", "min_ready = 0", 1)

// serveNodes plays the instances of nodes, each with its own host key.
func (p *project) serveNodes(at *place) {
	p.t.Helper()
	key := func(address string) string {
		name := "host-" + address
		at.keygen(name)
		return name
	}
	p.sshd(at, key, func(server object) string {
		if server["metadata"].(object)["npctl_node_id"] == nil {
			return ""
		}
		floating, fixed := addressesOf(server)
		if server["metadata"].(object)["npctl_label"] != "medium" {
			return floating
		}
		return fixed
	})
}

// watched returns a place for a daemon in a new project, with a gate before the services.
func watched(t *testing.T, config string) (p *project, g *gate.Gate, at *place) {
	t.Helper()
	p = newProject(t).createUsualObjects()
	g = p.withGate()
	at = p.newPlace(config)
	at.printLogIfFailed()
	return p, g, at
}

// TestOpenStackWatchServesNodes covers the whole life of nodes: ready in advance, taken, used, held, deleted.
func TestOpenStackWatchServesNodes(t *testing.T) {
	t.Parallel()
	p, _, at := watched(t, served)
	before := p.things()
	p.quota(map[string]int{lab.Instances: 40, lab.Cores: 80, lab.FloatingIPs: 40})
	p.serveNodes(at)
	d := at.watch()
	at.eventuallyCensus("ready:1")

	nodes := at.takeNodes("small", "volume", "medium")
	at.checkLogin(nodes...)
	p.hasServersFor(nodes)
	at.eventuallyCensus("in-use:3 ready:1")
	used := p.thingsOf(nodes)
	if got := count(used); got["server"] != 3 || got["port"] < 3 || got["floating IP"] != 2 || got["volume"] != 1 {
		t.Errorf("three nodes have %v in the cloud:\n%s", got, strings.Join(lines(used), "\n"))
	}
	at.returnNodes(nodes...)
	held := at.takeNodes("small")[0]
	t.Run("Hold", func(t *testing.T) { p.with(t).checkHold(at.with(t), held) })
	at.eventuallyCensus("ready:1")
	for id, left := range p.things() {
		if _, was := used[id]; was {
			t.Errorf("%s is left of a used node", left)
		}
	}
	p.mustHave(before, map[string]int{"server": 1, "floating IP": 1})
	if _, err := at.ssh(nodes[0], "true"); err == nil {
		t.Errorf("node %s still answers", nodes[0].ID)
	}

	t.Run("ManyAtOnce", func(t *testing.T) { at.with(t).createManyRequests() })
	at.eventuallyCensus("ready:1")
	p.mustHave(before, map[string]int{"server": 1, "floating IP": 1})
	d.checkMetrics()
	t.Logf("ended within %s", d.Stop().Round(time.Millisecond))
	at.nothingToDo()
	at.gone(p, before)
}

// checkLogin logs in to nodes.
func (at *place) checkLogin(nodes ...node) {
	at.t.Helper()
	for _, n := range nodes {
		if len(n.HostKeys) == 0 {
			at.t.Errorf("node %s has no host keys", n.ID)
		}
		if _, err := at.ssh(n, "true"); err != nil {
			at.t.Errorf("node %s: %v", n.ID, err)
		}
	}
}

// hasServersFor compares npctl's view of nodes with Nova's.
func (p *project) hasServersFor(nodes []node) {
	p.t.Helper()
	servers := p.nodes()
	for _, n := range nodes {
		server := servers[n.ExternalID]
		if server == nil || server["status"] != "ACTIVE" || server["metadata"].(object)["npctl_node_id"] != n.ID {
			p.t.Errorf("node %s is server %s, for which Nova reports %v", n.ID, n.ExternalID, server)
		}
	}
}

// thingsOf returns the servers of nodes and their associated resources.
func (p *project) thingsOf(nodes []node) map[string]thing {
	p.t.Helper()
	all, found := p.things(), map[string]thing{}
	for _, n := range nodes {
		for id, t := range all {
			port, ofPort := all[text(t.object["port_id"])]
			if id == n.ExternalID || t.object["device_id"] == n.ExternalID || ofPort && port.object["device_id"] == n.ExternalID || attachedTo(t, n.ExternalID) {
				found[id] = t
			}
		}
	}
	return found
}

// attachedTo reports whether a volume is attached to a server.
func attachedTo(t thing, server string) bool {
	attachments, _ := t.object["attachments"].([]any)
	return len(attachments) > 0 && attachments[0].(object)["server_id"] == server
}

// checkHold holds a node for some seconds.
func (p *project) checkHold(at *place, n node) {
	end := time.Now().Add(12 * time.Second)
	at.mustRun(0, "node", "hold", "-reason=look at it", "-until=12s", n.ID)
	at.mustRun(0, "why", "node/"+n.ID).contains("look at it", "held")
	for time.Now().Before(end) {
		a, err := at.says("node", "show", n.ID)
		_, entered := at.ssh(n, "true")
		if now := time.Now(); now.Before(end) && (err != nil || a.Nodes[0].State != "hold" || entered != nil) { // otherwise the hold may have ended
			at.t.Fatalf("%s before its end the held node is %+v, %v, %v", end.Sub(now), a, err, entered)
		}
	}
	eventually(at.t, "the held node is gone", func() bool { return p.nodes()[n.ExternalID] == nil })
	if time.Now().Before(end) {
		at.t.Error("the node was gone before its time")
	}
}

// createManyRequests creates four requests at the same time. No node may be assigned to two of them.
func (at *place) createManyRequests() {
	at.t.Helper()
	orders := [][]string{{"small"}, {"medium", "small"}, {"medium"}, {"small", "medium", "volume"}}
	var mu sync.Mutex
	holders := map[string][]int{}
	var users sync.WaitGroup
	for i, labels := range orders {
		users.Go(func() {
			nodes, err := at.runTake(asks(labels, "-take"), labels)
			if err != nil {
				at.t.Error(err)
				return
			}
			mu.Lock()
			for _, n := range nodes {
				holders[n.ID] = append(holders[n.ID], i)
			}
			mu.Unlock()
			at.checkLogin(nodes[0])
			at.returnNodes(nodes...)
		})
	}
	users.Wait()
	for id, who := range holders {
		if len(who) > 1 {
			at.t.Errorf("node %s was assigned to requests %v", id, who)
		}
	}
}

// checkMetrics checks the metrics of the daemon.
func (d *daemon) checkMetrics() {
	t := d.at.t
	t.Helper()
	if n := d.metric(`npctl_requests_finished_total{result="fulfilled"}`); n != 6 {
		t.Errorf("metrics know %v fulfilled requests, want 6", n)
	}
	for _, phase := range []string{"queue", "quota", "create", "boot", "keyscan", "accept"} {
		if n := d.metric(`npctl_request_phase_seconds_count{phase="` + phase + `"}`); n == 0 {
			t.Errorf("metrics know nothing of the phase %s", phase)
		}
	}
	boot, keyscan := d.metric(`npctl_node_launch_seconds_sum{phase="boot",provider="acme"}`), d.metric(`npctl_node_launch_seconds_sum{phase="keyscan",provider="acme"}`)
	if launches := d.metric(`npctl_node_launches_total{provider="acme",reason="",result="ready"}`); launches < 11 || boot < launches/2 || keyscan <= 0 {
		t.Errorf("metrics know %v launches with %v s of boot and %v s of keyscan", launches, boot, keyscan)
	}
}
