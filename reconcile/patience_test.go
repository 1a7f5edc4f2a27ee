package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/internal/sandboxcloud"
	"github.com/npctl/npctl/plan"
)

// TestProviderThatAsksToWaitIsListed: Retry-After is respected from the first call on, the login included.
func TestProviderThatAsksToWaitIsListed(t *testing.T) {
	for _, operation := range []string{"token.create", "version.show", "server.list", "*"} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, oneCloud(), sandboxcloud.Options{})
				busy := sandboxcloud.Fault{Operation: operation, Action: sandboxcloud.Answer, Status: 429, RetryAfter: 3 * time.Second, Times: 8}
				if err := l.driver.clouds["one"].SetFaults(busy); err != nil {
					t.Fatal(err)
				}
				started := time.Now()
				p := l.plan(plan.Options{})
				if len(p.Steps) == 0 || len(p.Deferred)+len(p.Problems) > 0 {
					t.Errorf("the plan is\n%s\nwith %v deferred and problems %v", text(p), p.Deferred, p.Problems)
				}
				if took := time.Since(started); took < 3*time.Second || took > time.Minute {
					t.Errorf("the plan took %s", took)
				}
			})
		})
	}
}
