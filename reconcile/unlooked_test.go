package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// TestNodeOfAnUnlistedProviderKeepsItsRecord: a run ends during launches, and the next one cannot log in to resume
// them. The servers that the first run has requested stay on record.
func TestNodeOfAnUnlistedProviderKeepsItsRecord(t *testing.T) {
	for name, cancelled := range map[string]bool{"the cloud refuses": false, "the run is cancelled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, oneCloud(), emulator.Options{BuildTime: 10 * time.Minute})
				short, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, _, err := l.run(short, plan.Options{}); err == nil || len(l.nodes()) == 0 {
					t.Fatalf("the first run ends with %v and %d nodes, want it interrupted in the middle of some", err, len(l.nodes()))
				}
				e, end := l.engine()
				seen, err := e.Observe(t.Context(), true)
				testutil.Must(t, err)
				p := plan.Compute(e.Desired, seen, plan.Options{})
				end()

				fault := emulator.Fault{Operation: "token.create", Action: emulator.Answer, Status: 401, Times: 1000}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if cancelled {
					fault.Action = emulator.HangBefore
					time.AfterFunc(5*time.Second, stop)
				}
				testutil.Must(t, l.driver.Clouds["one"].SetFaults(fault))
				e, end = l.engine()
				result, err := e.Execute(ctx, p, plan.Options{}, seen)
				end()
				if len(result.Failed)+len(result.Interrupted) == 0 {
					t.Fatalf("nothing failed: %v, %v", result, err)
				}
				if servers, nodes := thingsIn(t, l.driver.Clouds["one"])["server"], len(l.nodes()); servers != 2 || nodes != servers {
					t.Errorf("there are %d servers and %d records, want 2 of each", servers, nodes)
				}
				l.behave(t)
				l.settle(t, plan.Options{}, name)
				for _, r := range l.records(resources.KindSighting) {
					t.Errorf("taken for a leak: %v", r.Key())
				}
			})
		})
	}
}
