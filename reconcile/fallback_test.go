package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

var debian12 = emulator.Options{Images: []emulator.PublicImage{{Name: "debian-12"}}}

// poolsByPriority returns a configuration with one pool of each flavor, in order of priority.
func poolsByPriority(flavors ...string) string {
	var b strings.Builder
	for i, flavor := range flavors {
		fmt.Fprintf(&b, "pool \"p%d\" {\n priority = %d\n networks = [\"private\"]\n host_key_checking = false\n"+
			"label \"debian\" {\n image = cloud_image.debian\n flavor = %q\n }\n}\n", i, i+1, flavor)
	}
	return "label \"debian\" {\n min_ready = 2\n}\nprovider \"lab\" \"one\" {\n launch_attempts = 1\n" +
		"cloud_image \"debian\" {\n name = \"debian-12\"\n}\n" + b.String() + "}\n"
}

// TestApplyFallsBackToTheNextPool: the clouds of the first two pools have no capacity, as the daemon finds out too.
func TestApplyFallsBackToTheNextPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, poolsByPriority("toobig", "toobig", "small"), debian12)
		p, result, err := l.run(t.Context(), plan.Options{})
		testutil.Must(t, err)
		if len(p.Steps) != 2 || p.Steps[0].Pool != "p0" || len(result.Done) != 2 {
			t.Errorf("%d steps are done of the plan:\n%s", len(result.Done), text(p))
		}
		for _, s := range result.Done {
			if s.Pool != "p2" {
				t.Errorf("done: %s", s.ID)
			}
		}
		if again := l.plan(plan.Options{}); len(again.Steps) > 0 {
			t.Errorf("the second plan is not empty:\n%s", text(again))
		}
	})
}

// fullZone is a zone without capacity, and the number of requests for instances in it.
type fullZone struct {
	name     string
	requests atomic.Int64
}

type fullCloud struct {
	*openstack.Cloud
	full *fullZone
}

func (c *fullCloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	if spec.Zone == c.full.name {
		c.full.requests.Add(1)
		return resources.Instance{}, fmt.Errorf("%w: no valid host in %s", drivers.ErrCapacity, spec.Zone)
	}
	return c.Cloud.Create(ctx, spec)
}

// TestZoneWithoutCapacityIsTriedLast launches nodes one after the other in two zones.
func TestZoneWithoutCapacityIsTriedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := strings.NewReplacer("min_ready = 2", "min_ready = 8", "launch_attempts = 1", "max_concurrency = 1").Replace(poolsByPriority("small"))
		l := newLab(t, config, debian12)
		full := &fullZone{name: "az1"}
		l.driver.wrap = func(c *openstack.Cloud) drivers.Cloud { return &fullCloud{c, full} }
		_, _, err := l.run(t.Context(), plan.Options{})
		testutil.Must(t, err)
		if n := full.requests.Load(); n != 1 {
			t.Errorf("%d requests in the zone without capacity, want one", n)
		}
		for _, n := range l.nodes() {
			if n.Zone != "az2" {
				t.Errorf("node %s is in %s", n.ID, n.Zone)
			}
		}
	})
}

// TestReplacementFallsBackToTheNextPool: the old nodes are deleted after their successors in another pool are ready.
func TestReplacementFallsBackToTheNextPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, poolsByPriority("small", "large"), debian12)
		_, _, err := l.run(t.Context(), plan.Options{})
		testutil.Must(t, err)
		l.config = poolsByPriority("toobig", "large")
		_, result, err := l.run(t.Context(), plan.Options{})
		testutil.Must(t, err)
		if done := (plan.Plan{Steps: result.Done}).Summary(); done.Launch != 2 || done.Delete != 2 {
			t.Errorf("done: %s", done)
		}
		for _, n := range l.nodes() {
			if n.Pool != "p1" || n.State != resources.StateReady {
				t.Errorf("node %s in pool %s is %s", n.ID, n.Pool, n.State)
			}
		}
	})
}

// TestReplacementWithoutCapacityKeepsTheOldNodes: without a successor in any pool, no old node is deleted.
func TestReplacementWithoutCapacityKeepsTheOldNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, poolsByPriority("small", "toobig"), debian12)
		_, _, err := l.run(t.Context(), plan.Options{})
		testutil.Must(t, err)
		l.config = poolsByPriority("toobig", "toobig")
		_, result, err := l.run(t.Context(), plan.Options{})
		if err == nil || len(result.Done) > 0 || len(result.Failed) != 2 || len(result.Skipped) != 2 {
			t.Errorf("got %+v, %v", result, err)
		}
		ready := 0
		for _, n := range l.nodes() {
			if n.State == resources.StateReady {
				ready++
			}
		}
		if ready != 2 {
			t.Errorf("%d nodes are ready, want the two old ones", ready)
		}
	})
}

// TestNoPoolHasCapacity: each pool is tried once.
func TestNoPoolHasCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, poolsByPriority("toobig", "toobig"), debian12)
		_, result, err := l.run(t.Context(), plan.Options{})
		if err == nil || len(result.Failed) != 2 || len(result.Done)+len(result.Skipped) > 0 {
			t.Errorf("got %+v, %v", result, err)
		}
		for _, f := range result.Failed {
			if f.Step.Pool != "p1" {
				t.Errorf("%s: %v", f.Step.ID, f.Err)
			}
		}
	})
}
