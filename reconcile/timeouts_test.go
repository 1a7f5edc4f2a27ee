package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
)

// TestTimeoutsOfALaunchAreDistinct: an instance that does not answer, a cloud that takes too long to create one, and
// a cloud that does not respond.
func TestTimeoutsOfALaunchAreDistinct(t *testing.T) {
	for name, test := range map[string]struct {
		options   sandboxcloud.Options
		faults    []sandboxcloud.Fault
		timeouts  string
		want, not error
	}{
		"nobody answers": {timeouts: `boot_timeout = "20s"`, want: reconcile.ErrBootTimeout, not: reconcile.ErrLaunchTimeout},
		"nobody answers until the whole time is over": {timeouts: `launch_timeout = "20s"`, want: reconcile.ErrLaunchTimeout, not: reconcile.ErrBootTimeout},
		"it is not made": {options: sandboxcloud.Options{BuildTime: time.Hour}, timeouts: `launch_timeout = "20s"`,
			want: reconcile.ErrLaunchTimeout, not: reconcile.ErrBootTimeout},
		"the cloud is silent": {faults: []sandboxcloud.Fault{{Operation: "server.create", Action: sandboxcloud.HangBefore}},
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
