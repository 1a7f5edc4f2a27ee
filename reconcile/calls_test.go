package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/plan"
)

// TestCallsOfARefreshDoNotGrowWithNodes counts the calls of a plan to a cloud with few nodes and with many. The calls
// must be the same, except for additional pages of listings.
func TestCallsOfARefreshDoNotGrowWithNodes(t *testing.T) {
	calls := func(t *testing.T, nodes int) (total int, by map[string]int) {
		synctest.Test(t, func(t *testing.T) {
			config := strings.Replace(twoClouds, `label "small" { min_ready = 2 }`, fmt.Sprintf(`label "small" { min_ready = %d }`, nodes), 1)
			unlimited := emulator.Unlimited()
			l := newLab(t, config, emulator.Options{Quota: &unlimited, PageLimit: 20})
			l.mustRun(t, plan.Options{})
			cloud := l.driver.Clouds["one"]
			cloud.ResetCalls()
			if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
				t.Fatalf("there is something to do:\n%s", text(p))
			}
			by = cloud.Calls()
			total = by["total"]
			delete(by, "total")
		})
		return total, by
	}
	few, fewBy := calls(t, 2)
	many, manyBy := calls(t, 62)
	t.Logf("2 nodes: %d calls %v", few, fewBy)
	t.Logf("62 nodes: %d calls %v", many, manyBy)
	for operation, n := range manyBy {
		pages := 0
		if strings.HasSuffix(operation, ".list") {
			pages = 62/20 + 1
		}
		if n > fewBy[operation]+pages {
			t.Errorf("%s: %d calls with 62 nodes, %d with 2; more than %d further pages", operation, n, fewBy[operation], pages)
		}
	}
}
