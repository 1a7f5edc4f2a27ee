package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

// TestFailedDeleteIsRetriedWithBackoff checks that a failed delete waits 5 s at first and at most 10 minutes,
// and that the steps that need it wait too. A plan that is executed once does not wait.
func TestFailedDeleteIsRetriedWithBackoff(t *testing.T) {
	d, o := fleet(), settled()
	o.Records.Nodes[0].State = resources.StateUsed
	id := "delete node " + o.Records.Nodes[0].ID
	for _, test := range []struct {
		count int
		after time.Duration
	}{{1, 5 * time.Second}, {2, 10 * time.Second}, {5, 80 * time.Second}, {8, 10 * time.Minute}, {30, 10 * time.Minute}} {
		for _, at := range []struct {
			age     time.Duration
			planned bool
		}{{0, false}, {test.after - time.Millisecond, false}, {test.after, true}} {
			o.FailingSteps = map[string]*resources.Failure{id: {Count: test.count, Time: now.Add(-at.age), Error: "409 in use\nmore"}}
			p := Compute(d, o, Options{HonorBackoff: true})
			planned := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.ID == id })
			note := slices.ContainsFunc(p.Notes, func(n Note) bool {
				return n.Code == NoteFailing && n.Address == nodeAddress(o.Records.Nodes[0].ID) && strings.Contains(n.Text, ": 409 in use")
			})
			if planned != at.planned || note == at.planned {
				t.Errorf("%d failures, the newest %s ago: planned %t, want %t; with a note: %t\n%s", test.count, at.age, planned, at.planned, note, lines(p))
			}
			if slices.ContainsFunc(p.Steps, func(s Step) bool { return slices.Contains(s.Needs, id) && !planned }) {
				t.Errorf("a step is planned that needs one that waits:\n%s", lines(p))
			}
			if p := Compute(d, o, Options{}); !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.ID == id }) {
				t.Errorf("an apply does not try:\n%s", lines(p))
			}
		}
	}
}

// TestFailureInTheFutureDelaysNothing has failures of a build, an upload, a launch and a deletion from a time when
// the clock was a year ahead.
func TestFailureInTheFutureDelaysNothing(t *testing.T) {
	c := &world{opt: Options{HonorBackoff: true}, seen: Observed{Now: now}}
	for ahead, want := range map[time.Duration]bool{-time.Second: true, 30 * time.Second: true, 365 * 24 * time.Hour: false} {
		for _, p := range []backoff{buildBackoff, uploadBackoff, launchBackoff, unreachableBackoff, staticBackoff, deleteBackoff} {
			if got := c.inBackoff(&resources.Failure{Count: 1, Time: now.Add(ahead)}, p); got != want {
				t.Errorf("a failure %s from now with patience %v waits: %t, want %t", ahead, p, got, want)
			}
		}
	}
}
