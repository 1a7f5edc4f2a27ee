package reconcile

import (
	"testing"
	"time"
)

func TestPausesBetweenListings(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		before, took time.Duration
		useful       bool
		want         time.Duration
	}{
		"it begins short":                     {0, ms, false, 10 * ms},
		"it grows while nothing happens":      {100 * ms, ms, false, 150 * ms},
		"no longer than people would notice":  {150 * ms, ms, false, 200 * ms},
		"it is halved when something happens": {100 * ms, ms, true, 50 * ms},
		"listings take a third at the most":   {100 * ms, 300 * ms, true, 600 * ms},
		"also while nothing happens":          {100 * ms, 300 * ms, false, 600 * ms},
		"a cloud that hangs is still asked":   {100 * ms, time.Minute, false, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pause(c.before, c.took, c.useful); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
