package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/plan"
)

const manyLabels = `
label "l" {
  for_each = toset([for i in range(400) : tostring(i)])
}

provider "lab" "one" {
  rate = 1
  cloud_image "tiny" { username = "root" }
  pool "main" {
    networks = ["private"]
    label "l" {
      for_each = toset([for i in range(400) : tostring(i)])
      name     = "l-${each.key}"
      image    = cloud_image.tiny
      flavor   = "small"
    }
  }
}
`

// TestPlanWaitsOnlyForItsRequests computes a plan with many more names than requests.
func TestPlanWaitsOnlyForItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, manyLabels, emulator.Options{})
		began := time.Now()
		l.plan(plan.Options{})
		took, requests := time.Since(began), l.requests.Load()
		if requests > 30 || took > time.Duration(requests)*time.Second {
			t.Errorf("the plan of 400 labels took %s for %d requests at rate = 1", took, requests)
		}
		t.Logf("%s for %d requests", took, requests)
	})
}
