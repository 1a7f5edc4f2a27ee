package reconcile_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/internal/sandboxcloud"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
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

func TestFailedBuildRequestIsRemembered(t *testing.T) {
	l := newLab(t, strings.Replace(oneCloud(), "echo built", "exit 1; echo built", 1), sandboxcloud.Options{})
	for _, requested := range []bool{true, false} {
		opt := plan.Options{}
		if requested {
			opt.Replace = []plan.Address{"diskimage.debian"}
		}
		if _, _, err := l.run(t.Context(), opt); err == nil {
			t.Fatal("the build did not fail")
		}
		images := l.records(resources.KindImage)
		if len(images) != 1 {
			t.Fatalf("images on record are %v", images)
		}
		if f := images[0].(*resources.ImageRecord).Failure; f == nil || f.Requested != requested {
			t.Errorf("a build that was requested: %t; remembered is %+v", requested, f)
		}
	}
}
