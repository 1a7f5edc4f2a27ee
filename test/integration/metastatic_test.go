//go:build integration

package integration

import (
	"testing"
	"time"

	"github.com/npctl/npctl/test/openstack/lab"
)

// shared has four slots on each server. Servers present their host keys, which the slots inherit.
const shared = settings + `
label "host" {}
label "slot" {}

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
    label "host" {
      image  = cloud_image.tiny
      flavor = "small"
    }
  }
}

provider "metastatic" "slots" {
  rate = 0
  pool "main" {
    label "slot" {
      backing_label     = "host"
      max_parallel_jobs = 4
      grace_time        = "3s"
    }
  }
}
`

// TestOpenStackMetastaticSlots runs jobs in slots of servers: they share a server across a kill of npctl, a server that
// another program deletes takes its slots with it, and idle servers are deleted.
func TestOpenStackMetastaticSlots(t *testing.T) {
	t.Parallel()
	p, g, at := watched(t, shared)
	before := p.things()
	p.quota(map[string]int{lab.Instances: 40, lab.Cores: 80, lab.FloatingIPs: 40})
	p.serveNodes(at)
	d := at.watch("-refresh=3s")

	g.Set(nil, nil)
	nodes := at.takeNodes("slot", "slot", "slot")
	t.Logf("%d calls for three slots, %d of them change something", g.Count()[false], g.Count()[true])
	p.mustHave(before, map[string]int{"server": 1, "floating IP": 1})
	for _, n := range nodes {
		if len(n.HostKeys) == 0 || n.Login.Username != "root" || n.Addresses != nodes[0].Addresses {
			t.Errorf("slot %s: host keys %q, login %+v, addresses %+v", n.ExternalID, n.HostKeys, n.Login, n.Addresses)
		}
		if out, err := at.ssh(n, "true"); err != nil {
			t.Errorf("slot %s: %v\n%s", n.ExternalID, err, out)
		}
	}

	d.Kill()
	at.watch("-refresh=3s")
	more := at.takeNodes("slot", "slot")
	p.mustHave(before, map[string]int{"server": 2, "floating IP": 2})
	at.eventuallyCensus("in-use:7")

	alone := more[0] // of the two, the one on the second server
	if alone.Addresses == nodes[0].Addresses {
		alone = more[1]
	}
	for id, server := range p.nodes() {
		if floating, _ := addressesOf(server); floating == alone.Addresses.Interface {
			p.do(t, "DELETE", compute, "servers/"+id, nil)
		}
	}
	at.eventuallyCensus("in-use:5")
	for _, n := range append(nodes, more...) {
		if n.ID != alone.ID {
			at.returnNodes(n)
		}
	}
	began := time.Now()
	eventually(t, "nothing is left", func() bool { return at.census() == "" && len(without(p.things(), before)) == 0 })
	t.Logf("nothing is left after %.1f s", time.Since(began).Seconds())
	p.mustBe(before)
}
