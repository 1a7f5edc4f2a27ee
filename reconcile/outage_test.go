package reconcile_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// TestApplyResumesLaunchesAfterAnOutage: an apply ends although a cloud does not respond, and the next one uses up none
// of the node's attempts.
func TestApplyResumesLaunchesAfterAnOutage(t *testing.T) {
	for _, action := range []emulator.Action{emulator.LostBefore, emulator.LostAfter, emulator.HangBefore} {
		t.Run(string(action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, strings.NewReplacer("min_ready = 2", "min_ready = 1", `image_format = "raw"`, "image_format = \"raw\"\n  launch_attempts = 1").Replace(oneCloud()),
					emulator.Options{})
				cloud := l.driver.Clouds["one"]
				testutil.Must(t, cloud.SetFaults(emulator.Fault{Operation: "server.create", Action: action, Times: 1}))
				_, result, _ := l.run(t.Context(), plan.Options{})
				if len(result.Failed) != 1 || !strings.Contains(result.Failed[0].Err.Error(), "the provider does not answer") {
					t.Fatalf("during the outage: %+v", result.Failed)
				}
				n := l.nodes()[0]
				if n.State != resources.StateBuilding || n.Attempt != 1 || n.UnansweredAttempts != 1 {
					t.Errorf("the node is %s after %d attempts, %d of them without answer", n.State, n.Attempt, n.UnansweredAttempts)
				}
				l.mustRun(t, plan.Options{})
				if after := l.nodes()[0]; after.State != resources.StateReady || after.ID != n.ID || after.Attempt-after.UnansweredAttempts > 1 {
					t.Errorf("after the outage the node is %+v, and was %+v", after, n)
				}
				if got := thingsIn(t, cloud); got["server"] != 1 {
					t.Errorf("the cloud has %v, want one server", got)
				}
			})
		})
	}
}

// TestApplyRetriesUnansweredLaunches: calls without a response are retried as often as failing launches.
func TestApplyRetriesUnansweredLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.Replace(oneCloud(), "min_ready = 2", "min_ready = 1", 1), emulator.Options{})
		cloud := l.driver.Clouds["one"]
		testutil.Must(t, cloud.SetFaults(emulator.Fault{Operation: "server.create", Action: emulator.Answer, Status: 503, Times: 2}))
		l.mustRun(t, plan.Options{})
		if n := cloud.Calls()["server.create"]; n != 3 {
			t.Errorf("the cloud was asked %d times, want 3", n)
		}
	})
}

// TestAServerThatNoListShowsIsWaitedFor even after its launch timeout: a provider without listings counts as not
// responding.
func TestAServerThatNoListShowsIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.NewReplacer("min_ready = 2", "min_ready = 1", `image_format = "raw"`, "image_format = \"raw\"\n  launch_attempts = 1\n  launch_timeout = \"5m\"").Replace(oneCloud()),
			emulator.Options{BuildTime: 20 * time.Second})
		cloud := l.driver.Clouds["one"]
		l.mustRun(t, plan.Options{Targets: []plan.Address{"diskimage.debian"}})
		testutil.Must(t, cloud.SetFaults(emulator.Fault{Operation: "server.list", Action: emulator.Answer, Status: 503, After: 1}))
		_, result, _ := l.run(t.Context(), plan.Options{})
		if len(result.Failed) != 1 || !strings.Contains(result.Failed[0].Err.Error(), "the provider does not answer") {
			t.Fatalf("without lists: %+v", result.Failed)
		}
		before := l.nodes()[0]
		l.behave(t)
		l.mustRun(t, plan.Options{})
		if n := l.nodes()[0]; n.State != resources.StateReady || n.ExternalID != before.ExternalID || n.Attempt != 1 {
			t.Errorf("with lists the node is %+v, and was %+v", n, before)
		}
		if n := cloud.Calls()["server.create"]; n != 1 {
			t.Errorf("the cloud was asked for %d servers, want one", n)
		}
	})
}
