//go:build integration

package watch

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// slots divides machines of the rack.
const slots = `
label "job" {}
provider "metastatic" "slots" {
  launch_attempts = 1
  boot_timeout    = "2s"
  pool "main" {
    host_key_checking = true
    label "job" {
      backing_label     = "metal"
      max_parallel_jobs = 3
      grace_time        = "1h"
    }
  }
}
`

// TestBackingNodeThatDoesNotAnswerGetsNoMoreSlots: a slot fails while sshd of its backing node is stopped. After sshd runs
// again, the next slot is on another backing node, and npctl returns the first one with its last slot.
func TestBackingNodeThatDoesNotAnswerGetsNoMoreSlots(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	m := s.newMachine()
	m.start()
	s.write(rack(m, m.hostKey()) + slots)
	d := s.start("-refresh=1s")
	backing := func(n wire.Node) string { return n.ExternalID[:strings.LastIndexByte(n.ExternalID, '-')] }
	first := s.nodes("job")[0]
	s.checkLogin(first)
	m.stop()
	failing, err := s.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"job"}})
	testutil.Must(t, err)
	testutil.Await(t, "the request fails", func() bool {
		r, err := s.Request(t.Context(), failing.ID)
		return err == nil && r.State == resources.StateFailed && strings.Contains(r.Error, "does not answer within boot_timeout")
	})
	m.start()
	second := s.nodes("job")[0]
	if backing(first) == backing(second) {
		t.Errorf("slots %s and %s are on one backing node", first.ExternalID, second.ExternalID)
	}
	for _, n := range []wire.Node{first, second} {
		_, err := s.ReturnNode(t.Context(), n.ID)
		testutil.Must(t, err)
	}
	testutil.Await(t, "only the first backing node is returned", func() bool { return s.census() == "map[in-use:1 ready:1]" })
	d.Stop()
}
