package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
)

func TestSummaryAlwaysHasFourActions(t *testing.T) {
	of := func(kinds ...plan.Kind) plan.Plan {
		var p plan.Plan
		for _, k := range kinds {
			p.Steps = append(p.Steps, plan.Step{Kind: k})
		}
		return p
	}
	moved := plantest.Replace(7)
	for i := range moved {
		moved[i].Pool, moved[i].Move, moved[i].Needs = fmt.Sprint("pool", i), &plan.Move{Node: "0000000007"}, nil
	}
	for _, c := range []struct {
		plan plan.Plan
		want string
	}{
		{of(), "No changes."},
		{plan.Plan{Unchanged: plantest.Unchanged(12)}, "No changes."},
		{of(plan.KindLaunch, plan.KindBuild, plan.KindLaunch, plan.KindUpload), "Plan: 1 to build, 1 to upload, 2 to launch, 0 to delete."},
		{of(plan.KindDeleteNode), "Plan: 0 to build, 0 to upload, 0 to launch, 1 to delete."},
		{of(plan.KindRegisterSlot), "Plan: 0 to build, 0 to upload, 0 to launch, 1 to register, 0 to delete."},
		{of(plan.KindForgetNode, plan.KindUpdateNode, plan.KindConvert, plan.KindRegisterSlot, plan.KindUpdateNode),
			"Plan: 0 to build, 1 to convert, 0 to upload, 0 to launch, 1 to register, 2 to update, 1 to forget, 0 to delete."},
		{plan.Plan{Steps: plantest.Replace(7)}, "Plan: 0 to build, 0 to upload, 0 to launch, 1 to replace, 0 to delete."},
		{plan.Plan{Steps: append(plantest.Replace(7), plantest.Replace(8)[0])}, "Plan: 0 to build, 0 to upload, 0 to launch, 1 to replace, 1 to delete."},
		{plan.Plan{Steps: moved}, "Plan: 0 to build, 0 to upload, 0 to launch, 1 to replace, 0 to delete."},
		{plan.Plan{Deferred: []string{"a"}}, "No known changes; 1 provider could not be listed."},
		{plan.Plan{Deferred: []string{"a", "b"}, InProgress: &plan.LockHolder{}},
			"No known changes; 2 providers could not be listed, and another npctl is working."},
		{plan.Plan{InProgress: &plan.LockHolder{}, Steps: of(plan.KindLaunch).Steps},
			"Plan: 0 to build, 0 to upload, 1 to launch, 0 to delete; another npctl is working."},
	} {
		if got := c.plan.Summary().String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestSummaryAddsUp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := plantest.DrawPlan(r)
		s, sum := p.Summary(), 0
		for _, kind := range plan.ActionKinds() {
			sum += s.Count(kind.Action)
		}
		printed := 0
		for _, c := range s.Printed() {
			printed += c.Count
			if told := strings.Contains(s.String(), fmt.Sprintf("%d to %s", c.Count, c.Word)); c.Count > 0 && !told {
				r.Fatalf("%d to %s is not in %q", c.Count, c.Word, s)
			}
		}
		if pairs := plan.Replacements(p.Steps); printed != sum-s.Replace || 2*s.Replace != len(pairs) {
			r.Fatalf("%d counts of %d steps and %d halves of replacements: %s", printed, sum, len(pairs), s)
		}
		if sum != len(p.Steps) || s.Total != sum || s.Empty() != (sum == 0) {
			r.Fatalf("%d steps, counted %d: %+v", len(p.Steps), sum, s)
		}
	})
}
