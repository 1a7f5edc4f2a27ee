package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/kill"
)

// unschedulable is a cloud that starts no instance and says why.
type unschedulable struct{ *openstack.Cloud }

func (c unschedulable) List(ctx context.Context) ([]resources.Instance, error) {
	all, err := c.Cloud.List(ctx)
	for i := range all {
		if all[i].Marks.Installation != "" {
			all[i].Status, all[i].Fault, all[i].FaultKind = resources.StatusPending, "0/3 nodes are available: 3 Insufficient cpu.", resources.FaultCapacity
		}
	}
	return all, err
}

func TestTimeoutNamesTheReasonOfAPendingInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := strings.Replace(poolsByPriority("small"), "launch_attempts = 1", "launch_attempts = 1\n launch_timeout = \"20s\"", 1)
		l := newLab(t, config, debian12)
		l.driver.wrap = func(c *openstack.Cloud) drivers.Cloud { return unschedulable{c} }
		e, end := l.engine()
		defer end()
		var phases []string
		var mu sync.Mutex
		e.Report = func(ev reconcile.Event) {
			mu.Lock()
			defer mu.Unlock()
			phases = append(phases, ev.Phase)
		}
		_, result, _ := kill.Apply(t.Context(), e, plan.Options{})
		const reason = "0/3 nodes are available: 3 Insufficient cpu."
		for _, f := range result.Failed {
			if !errors.Is(f.Err, reconcile.ErrLaunchTimeout) || !errors.Is(f.Err, drivers.ErrCapacity) || !strings.Contains(f.Err.Error(), reason) {
				t.Errorf("the launch ends with %v", f.Err)
			}
		}
		if len(result.Failed) != 2 || !slices.Contains(phases, "waiting for the instance to be ready: "+reason) {
			t.Errorf("%d launches failed, after %q", len(result.Failed), phases)
		}
	})
}

// TestTimeoutsOfALaunchAreDistinct: an instance that does not answer, a cloud that takes too long to create one, and
// a cloud that does not respond.
func TestTimeoutsOfALaunchAreDistinct(t *testing.T) {
	for name, test := range map[string]struct {
		options   emulator.Options
		faults    []emulator.Fault
		timeouts  string
		want, not error
	}{
		"nobody answers": {timeouts: `boot_timeout = "20s"`, want: reconcile.ErrBootTimeout, not: reconcile.ErrLaunchTimeout},
		"nobody answers until the whole time is over": {timeouts: `launch_timeout = "20s"`, want: reconcile.ErrLaunchTimeout, not: reconcile.ErrBootTimeout},
		"it is not made": {options: emulator.Options{BuildTime: time.Hour}, timeouts: `launch_timeout = "20s"`,
			want: reconcile.ErrLaunchTimeout, not: reconcile.ErrBootTimeout},
		"the cloud is silent": {faults: []emulator.Fault{{Operation: "server.create", Action: emulator.HangBefore}},
			timeouts: `launch_timeout = "20s"`, want: reconcile.ErrLaunchTimeout, not: reconcile.ErrBootTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, strings.NewReplacer("host_key_checking = false", `host_key_checking = true`, `image_format = "raw"`,
					`image_format = "raw"
  launch_attempts = 1
  `+test.timeouts, "min_ready = 2", "min_ready = 1", "auto_floating_ip  = true", "").Replace(oneCloud()), test.options)
				if err := l.driver.Clouds["one"].SetFaults(test.faults...); err != nil {
					t.Fatal(err)
				}
				_, result, err := l.run(t.Context(), plan.Options{})
				if len(result.Failed) != 1 {
					t.Fatalf("failed are %v, %v", result.Failed, err)
				}
				got := result.Failed[0].Err
				if !errors.Is(got, test.want) || errors.Is(got, test.not) {
					t.Errorf("the launch ends with %v", got)
				}
			})
		})
	}
}

// TestStepTakesTheTimeSinceItHasItsSlot: a step of an apply that waits for another one does not count that time.
func TestStepTakesTheTimeSinceItHasItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.Replace(oneCloud(), `image_format = "raw"`, "image_format = \"raw\"\n  max_concurrency = 1", 1),
			emulator.Options{BuildTime: time.Minute})
		var took []time.Duration
		l.events = func(e reconcile.Event) {
			if e.Kind == reconcile.EventDone && e.Step.Kind == plan.KindLaunch {
				took = append(took, e.Took)
			}
		}
		l.mustRun(t, plan.Options{})
		if len(took) != 2 || took[0] < time.Minute || took[1] >= 2*time.Minute {
			t.Errorf("two launches of a minute, one after the other, took %v", took)
		}
	})
}
