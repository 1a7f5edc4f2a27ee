//go:build integration

package serve

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// slots has two slots on each server of a cloud.
func slots(grace string) string {
	return cloud{labels: `label "small" {}` + "\n" + `label "slot" {}`}.String() + `
provider "metastatic" "slots" {
  rate = 0
  pool "main" {
    node_attributes = { shared = "yes" }
    label "slot" {
      backing_label     = "small"
      max_parallel_jobs = 2
      grace_time        = "` + grace + `"
    }
  }
}
`
}

// of returns the nodes of a provider.
func (s *site) of(provider string) (found []*znode) {
	s.t.Helper()
	for _, id := range s.children(nodes) {
		if z := s.node(id); z.is("provider", provider) {
			found = append(found, z)
		}
	}
	return found
}

// TestZuulUsesSlotsOfABackingNode: two jobs of Zuul run on one server, across a restart of npctl. The server is deleted
// after grace_time.
func TestZuulUsesSlotsOfABackingNode(t *testing.T) {
	t.Parallel()
	s := newSite(t, slots("5s"))
	d := s.start("-refresh=1s")
	s.awaitImage()
	a, first := s.served("slot")
	b, second := s.served("slot")
	s.use(a)
	s.use(b)
	backing := s.of("one")
	if len(backing) != 1 {
		t.Fatalf("there are %d backing nodes, want 1", len(backing))
	}
	if z := backing[0]; !z.is("state", "in-use") || !z.is("requestor", "npctl:metastatic:slots") || z.doc["allocated_to"] == nil {
		t.Errorf("the backing node is %s", z.text)
	}
	request := backing[0].doc["allocated_to"].(string)
	for i, id := range []string{first[0], second[0]} {
		z := s.node(id)
		for _, key := range []string{"interface_ip", "private_ipv4", "az", "region", "cloud", "host_id", "username", "connection_type", "connection_port", "host_keys"} {
			if got, want := plainly(z.doc[key]), plainly(backing[0].doc[key]); !reflect.DeepEqual(got, want) {
				t.Errorf("%s of slot %d is %v, of the backing node %v", key, i, got, want)
			}
		}
		if !z.is("external_id", request+"-"+strconv.Itoa(i)) || fmt.Sprint(z.doc["attributes"]) != "map[shared:yes]" || fmt.Sprint(z.doc["slot"]) != strconv.Itoa(i) {
			t.Errorf("slot %d is %s", i, z.text)
		}
	}
	if len(s.states()) != 0 {
		t.Errorf("requests are left: %v", s.states())
	}

	d.Kill()
	s.start("-refresh=1s")
	c, _ := s.served("slot") // by the next process, which knows that both slots are used
	if n := len(s.of("one")); n != 2 {
		t.Errorf("there are %d backing nodes for three jobs, want 2", n)
	}
	s.runBuild(c)
	s.must(s.zuul.Return(t.Context(), a), "return")
	s.must(s.zuul.Return(t.Context(), b), "return")
	s.await("the slots and the backing node are gone", func() bool { return s.census() == "map[]" })
}

// TestUnservableBackingRequestFailsTheRequest: the reason reaches Zuul's request as a failure, and nothing is left.
func TestUnservableBackingRequestFailsTheRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, strings.Replace(slots("1s"), `networks          = ["private"]`, "networks = [\"private\"]\n max_servers = 0", 1))
	s.start("-refresh=1s")
	s.awaitImage()
	id := s.ask("slot")
	s.awaitEnd(id, "failed")
	s.await("no node is left", func() bool { return s.census() == "map[]" })
}
