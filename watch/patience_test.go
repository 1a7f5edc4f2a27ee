package watch_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// TestRequestDoesNotWaitForTheDeletionOfAFailedServer: the servers of provider one fail and cannot be deleted. In the
// meantime the next attempt, or another provider, serves the request.
func TestRequestDoesNotWaitForTheDeletionOfAFailedServer(t *testing.T) {
	one := stocked[strings.Index(stocked, `provider "lab" "one"`):strings.Index(stocked, `provider "static"`)]
	for name, test := range map[string]struct {
		config   string
		servers  int // number of failing servers of provider one
		provider string
	}{
		"next attempt":   {stocked, 1, "one"},
		"other provider": {stocked + strings.Replace(strings.Replace(one, `"one"`, `"two"`, 1), `pool "main" {`, "pool \"main\" {\n    priority = 200", 1), 3, "two"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, d, end := outage(t, test.config, emulator.Answer)
				defer end()
				if err := l.driver.Clouds["one"].SetFaults(
					emulator.Fault{Operation: "server.create", Action: emulator.ServerError, Message: "the host has died", Times: test.servers},
					emulator.Fault{Operation: "server.delete", Action: emulator.Answer, Status: 500}); err != nil {
					t.Fatal(err)
				}
				id, asked := l.asks(d, watch.NewRequest{Labels: []string{"small"}}), time.Now()
				if r := l.fulfilled(d, id); r.State != resources.StateFulfilled || r.Placement.Provider != test.provider {
					t.Errorf("the request is %s by %q after %s: %s", r.State, r.Placement.Provider, time.Since(asked), r.Error)
				}
				if n := l.servers("one"); n < test.servers {
					t.Errorf("%d servers of provider one are there, want the %d that failed", n, test.servers)
				}
				testutil.Must(t, l.driver.Clouds["one"].SetFaults())
				time.Sleep(15 * time.Minute)
				if all := l.servers("one") + l.servers("two"); all != 1 {
					t.Errorf("%d servers are there in the end, want one", all)
				}
				for _, n := range d.Last().Observed.Records.Nodes {
					if !n.Static && n.State != resources.StateReady {
						t.Errorf("node %s is %s in the end", n.ID, n.State)
					}
				}
			})
		})
	}
}

// TestRefusedDeletionIsRetriedWithBackoff: the cloud refuses to delete a server for an hour. The daemon logs one
// error, and the end.
func TestRefusedDeletionIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, end := outage(t, fleet, emulator.Answer)
		defer end()
		cloud := l.driver.Clouds["one"]
		testutil.Must(t, cloud.SetFaults())
		testutil.Await(l.t, "a server", func() bool { return l.servers("one") == 1 })
		time.Sleep(time.Minute)
		testutil.Must(t, cloud.SetFaults(emulator.Fault{Operation: "server.delete", Action: emulator.Answer, Status: 409}))
		node := d.Last().Observed.Records.Nodes[slices.IndexFunc(d.Last().Observed.Records.Nodes, func(n *resources.Node) bool { return !n.Static })].ID
		if _, err := d.Clients.DeleteNode(t.Context(), node, "", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		tries := cloud.Calls()["server.delete"]
		if tries < 20 || tries > 80 { // each attempt makes four calls
			t.Errorf("in an hour the cloud was asked %d times to delete the server", tries)
		}
		failing := slices.IndexFunc(d.Last().Plan.Notes, func(n plan.Note) bool { return n.Code == plan.NoteFailing && n.Address == plan.Address("node."+node) })
		if failing < 0 {
			t.Errorf("the plan does not say that the deletion waits: %+v", d.Last().Plan.Notes)
		}
		testutil.Must(t, cloud.SetFaults())
		time.Sleep(15 * time.Minute)
		if n := l.servers("one"); n != 1 {
			t.Errorf("%d servers are there in the end, want the one that takes its place", n)
		}
		if n := l.told.logged("step failed"); n != 1 {
			t.Errorf("%d failed steps are in the log, want one", n)
		}
		if l.told.logged("failures=") != 1 {
			t.Error("the log does not say that the deletion has succeeded after failures")
		}
	})
}

// TestLastPassEndIsMonotonic runs outside a synctest bubble, because times in a bubble have no monotonic clock reading.
func TestLastPassEndIsMonotonic(t *testing.T) {
	l := newLab(t, fleet, emulator.Options{})
	d, end := l.daemon()
	defer end()
	testutil.Await(l.t, "the first pass", func() bool { return !d.LastPassEnd().IsZero() })
	if beat := d.LastPassEnd().String(); !strings.Contains(beat, " m=") {
		t.Errorf("%s has no monotonic clock reading", beat)
	}
}
