package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSummaryAlwaysHasFourActions(t *testing.T) {
	of := func(actions ...Action) Plan {
		var p Plan
		for _, a := range actions {
			p.Steps = append(p.Steps, Step{Action: a})
		}
		return p
	}
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{of(), "No changes."},
		{Plan{Unchanged: sampleUnchanged(12)}, "No changes."},
		{of(ActionLaunch, ActionBuild, ActionLaunch, ActionUpload), "Plan: 1 to build, 1 to upload, 2 to launch, 0 to delete."},
		{of(ActionDelete), "Plan: 0 to build, 0 to upload, 0 to launch, 1 to delete."},
		{of(ActionRegister), "Plan: 0 to build, 0 to upload, 0 to launch, 1 to register, 0 to delete."},
		{of(ActionForget, ActionUpdate, ActionConvert, ActionRegister, ActionUpdate),
			"Plan: 0 to build, 1 to convert, 0 to upload, 0 to launch, 1 to register, 2 to update, 1 to forget, 0 to delete."},
		{Plan{Deferred: []string{"a"}}, "No known changes; 1 provider could not be listed."},
		{Plan{Deferred: []string{"a", "b"}, InProgress: &LockHolder{}},
			"No known changes; 2 providers could not be listed, and another npctl is working."},
		{Plan{InProgress: &LockHolder{}, Steps: of(ActionLaunch).Steps},
			"Plan: 0 to build, 0 to upload, 1 to launch, 0 to delete; another npctl is working."},
	} {
		if got := c.plan.Summary().String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestSummaryAddsUp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := anyPlan(r)
		s, sum := p.Summary(), 0
		for _, a := range summaryActions {
			n := s.Count(a.action)
			sum += n
			if told := strings.Contains(s.String(), fmt.Sprintf("%d to %s", n, a.action)); n > 0 && !told {
				r.Fatalf("%d to %s is not in %q", n, a.action, s)
			}
		}
		if sum != len(p.Steps) || s.Total != sum || s.Empty() != (sum == 0) {
			r.Fatalf("%d steps, counted %d: %+v", len(p.Steps), sum, s)
		}
	})
}

func TestUnchangedCountsExistingObjects(t *testing.T) {
	if got := Compute(fleet(), empty(), Options{}).Unchanged.Addresses(); len(got) > 0 {
		t.Errorf("before anything exists, %v is unchanged", got)
	}
	want := []Address{"diskimage.debian", "node.0000000001", "node.0000000002", "provider.cloud.image.debian", "provider.lab.pool.main.node.metal"}
	p := Compute(fleet(), settled(), Options{})
	if diff := cmp.Diff(want, p.Unchanged.Addresses()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	text := renderText(t, p, TextOptions{Verbose: true})
	for _, at := range want {
		if !strings.Contains(text, "\n  "+string(at)+"\n") {
			t.Errorf("-verbose does not list %s:\n%s", at, text)
		}
	}
	small := fleet()
	small.Providers[0].Pools[0].MaxServers = ptr(1) // one of two idle nodes goes
	if got := Compute(small, settled(), Options{}).Unchanged.Addresses(); len(got) != len(want)-1 {
		t.Errorf("%v is unchanged, want all but a node", got)
	}
}
