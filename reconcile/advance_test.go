package reconcile_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
)

// TestServerOutlivesAFloatingIPWithoutAnAnswer uses a cloud that starts the server and then does not respond to the
// request for a floating IP, or refuses it temporarily. The server is kept and has one floating IP in the end.
func TestServerOutlivesAFloatingIPWithoutAnAnswer(t *testing.T) {
	for _, fault := range []emulator.Fault{{Action: emulator.LostBefore}, {Action: emulator.LostAfter}, {Action: emulator.Answer, Status: 500},
		{Action: emulator.OverQuota}} {
		fault.Operation, fault.Times = "floating_ip.create", 2
		t.Run(string(fault.Action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, strings.Replace(twoClouds, "min_ready = 2", "min_ready = 1", 1), emulator.Options{})
				cloud := l.driver.Clouds["one"]
				testutil.Must(t, cloud.SetFaults(fault))
				l.mustRun(t, plan.Options{})
				if n := cloud.Calls()["server.create"]; n != 1 {
					t.Errorf("%d servers were asked for, want 1", n)
				}
				if got := thingsIn(t, cloud); got["server"] != 1 || got["floating_ip"] != 1 {
					t.Errorf("the cloud has %v, want one server with one floating IP", got)
				}
				for _, n := range l.nodes() {
					if n.Attempt != 1 {
						t.Errorf("node %s was made by attempt %d, want the first", n.ID, n.Attempt)
					}
				}
			})
		})
	}
}

// TestFloatingIPThatIsNeverGivenEndsTheAttempt uses a cloud that refuses floating IPs permanently.
func TestFloatingIPThatIsNeverGivenEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		always := emulator.Fault{Operation: "floating_ip.create", Action: emulator.Answer, Status: 500, Times: 1000}
		testutil.Must(t, l.driver.Clouds["one"].SetFaults(always))
		if _, _, err := l.run(t.Context(), plan.Options{}); err == nil || !strings.Contains(err.Error(), "floating IP") {
			t.Fatalf("apply = %v, want an error about the floating IP", err)
		}
		l.behave(t)
		l.mustRun(t, plan.Options{})
	})
}

// thingsIn returns the number of objects in a cloud by type.
func thingsIn(t *testing.T, cloud *emulator.Cloud) map[string]int {
	t.Helper()
	things, err := cloud.Inventory()
	testutil.Must(t, err)
	got := map[string]int{}
	for _, thing := range things {
		got[thing.Type]++
	}
	return got
}
