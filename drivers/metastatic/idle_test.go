package metastatic

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

func TestUnneeded(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	taken := func(age, since, idle time.Duration, slots int) *backing {
		b := &backing{state: resources.StateInUse, created: ago(age), since: ago(since), node: &resources.Node{}, slots: map[int64]bool{}}
		if idle > 0 {
			b.node.IdleSince = ago(idle)
		}
		for n := range slots {
			b.slots[int64(n)] = true
		}
		return b
	}
	open := func(state resources.State, since time.Duration) *backing {
		return &backing{state: state, created: ago(since), since: ago(since), slots: map[int64]bool{}}
	}
	held := taken(time.Hour, time.Hour, 0, 0)
	held.state = resources.StateHold
	retired, retiredInUse := taken(time.Hour, time.Second, 0, 0), taken(time.Hour, time.Hour, 0, 1)
	retired.node.Retired, retiredInUse.node.Retired = true, true
	s := labelSettings{MaxParallelJobs: 2, GraceTime: time.Minute}
	retained, old := s, s
	retained.MinRetentionTime = time.Hour
	old.MaxAge = time.Hour
	for name, test := range map[string]struct {
		b          *backing
		s          labelSettings
		configured bool
		want       bool
	}{
		"with a slot":                       {taken(9*time.Hour, 9*time.Hour, 0, 1), s, true, false},
		"just taken":                        {taken(time.Hour, 59*time.Second, 0, 0), s, true, false},
		"idle for less than grace_time":     {taken(time.Hour, time.Hour, 59*time.Second, 0), s, true, false},
		"idle for grace_time":               {taken(time.Hour, time.Hour, time.Minute, 0), s, true, true},
		"never used":                        {taken(time.Hour, time.Minute, 0, 0), s, true, true},
		"before min_retention_time":         {taken(59*time.Minute, 59*time.Minute, 0, 0), retained, true, false},
		"after min_retention_time":          {taken(time.Hour, time.Hour, 0, 0), retained, true, true},
		"beyond max_age, just idle":         {taken(time.Hour, time.Hour, time.Second, 0), old, true, true},
		"beyond max_age, with a slot":       {taken(2*time.Hour, 2*time.Hour, 0, 1), old, true, false},
		"not configured, just idle":         {taken(time.Hour, time.Hour, time.Second, 0), labelSettings{}, false, true},
		"not configured, with a slot":       {taken(time.Hour, time.Hour, 0, 1), labelSettings{}, false, false},
		"retired, just idle":                {retired, retained, true, true},
		"retired, with a slot":              {retiredInUse, s, true, false},
		"on hold":                           {held, s, true, false},
		"new request":                       {open(resources.StateRequested, time.Second), s, true, false},
		"request without slots":             {open(resources.StateRequested, time.Minute), s, true, true},
		"pending request without slots":     {open(resources.StatePending, time.Hour), s, true, false},
		"fulfilled request without slots":   {open(resources.StateFulfilled, time.Minute), s, true, true},
		"failed request":                    {open(resources.StateFailed, time.Hour), s, true, false},
		"request of a label that is gone":   {open(resources.StateRequested, time.Second), labelSettings{}, false, true},
		"fulfilled moments before its slot": {open(resources.StateFulfilled, time.Second), s, true, false},
	} {
		if why := test.b.unneeded(test.s, test.configured, now); (why != "") != test.want {
			t.Errorf("%s: %q, want unneeded %t", name, why, test.want)
		}
	}
}

// TestSlotsAreGivenOnce: in any order of launches, deletions and returns no slot has two nodes, no backing node has more
// than max_parallel_jobs, none beyond max_age gets a slot, and a free one is used before another is requested.
func TestSlotsAreGivenOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := labelSettings{BackingLabel: "host", MaxParallelJobs: rapid.Int64Range(1, 4).Draw(t, "parallel"), GraceTime: time.Minute, MaxAge: time.Hour}
		now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		var seen drivers.SourcedNodes
		node := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second)
			f := fleetOf(drivers.Env{}, seen, nil)
			if len(seen.Own) > 0 && rapid.Bool().Draw(t, "delete") {
				i := rapid.IntRange(0, len(seen.Own)-1).Draw(t, "which")
				seen.Own = append(seen.Own[:i:i], seen.Own[i+1:]...)
				continue
			}
			free, found := f.choose(s, true, now)
			if !found {
				for _, b := range f.backing {
					if int64(len(b.slots)) < s.MaxParallelJobs && now.Sub(b.created) < s.MaxAge {
						t.Fatalf("request %s has a free slot, and another one is requested", b.request)
					}
				}
				free = slot{request: fmt.Sprint(len(seen.InUse) + 1)}
				seen.InUse = append(seen.InUse, &resources.Node{ID: "b" + free.request, Request: free.request, Labels: []string{"host"},
					State: resources.StateInUse, Created: now, StateTime: now})
			} else if b := f.backing[free.request]; b.slots[free.number] || free.number >= s.MaxParallelJobs || now.Sub(b.created) >= s.MaxAge {
				t.Fatalf("slot %s is given: %+v", free, b)
			} else {
				for _, other := range f.backing {
					if now.Sub(other.created) < s.MaxAge && int64(len(other.slots)) < s.MaxParallelJobs && len(other.slots) > len(b.slots) {
						t.Fatalf("slot %s is given while %s has more used slots", free, other.request)
					}
				}
			}
			node++
			seen.Own = append(seen.Own, &resources.Node{ID: fmt.Sprint(node), State: resources.StateReady, ExternalID: free.String()})
		}
	})
}

func FuzzParseSlot(f *testing.F) {
	f.Add("100-0000000007-3")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, id string) {
		if s, ok := parseSlot(id); ok && s.String() != id {
			t.Errorf("%q is read as %s", id, s)
		}
	})
}
