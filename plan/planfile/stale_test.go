package planfile

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/plantest"
	"github.com/npctl/npctl/resources"
)

func staleStep() plan.Step {
	return plan.Step{ID: "s", Address: "node.0000000003", Kind: plan.KindDeleteNode, Reason: plan.ReasonUsed,
		Provider: "vexxhost", Record: resources.Key{Kind: resources.KindNode, ID: "0000000003"},
		Values:        map[string]string{"flavor": "small"},
		Preconditions: []plan.Fingerprint{{Subject: "node/0000000003", Digest: "7"}, {Subject: "provider.vexxhost/server/4f1c", Digest: "aa"}}}
}

func staleWhys(saved, now plan.Plan) []string {
	var whys []string
	for _, m := range (File{Plan: saved}).Stale(now, &plan.Records{}) {
		whys = append(whys, m.String())
	}
	return whys
}

func TestStaleNamesChanges(t *testing.T) {
	for _, c := range []struct {
		name  string
		world func(*plan.Plan)
		want  []string
	}{
		{"nothing", func(*plan.Plan) {}, nil},
		{"the record", func(p *plan.Plan) { p.Steps[0].Preconditions[0].Digest = "8" },
			[]string{"node.0000000003: node/0000000003 has changed since the plan was computed"}},
		{"the server is gone", func(p *plan.Plan) { p.Steps[0].Preconditions = p.Steps[0].Preconditions[:1] },
			[]string{"node.0000000003: provider.vexxhost/server/4f1c existed when the plan was computed, and does not exist any more"}},
		{"something new matters", func(p *plan.Plan) {
			p.Steps[0].Preconditions = append(p.Steps[0].Preconditions, plan.Fingerprint{Subject: "upload/1", Digest: "1"})
		},
			[]string{"node.0000000003: upload/1 is new since the plan was computed, and this step relies on it"}},
		{"order of what is touched", func(p *plan.Plan) {
			s := p.Steps[0].Preconditions
			s[0], s[1] = s[1], s[0]
		}, nil},
		{"another server", func(p *plan.Plan) { p.Steps[0].External = "77" },
			[]string{"node.0000000003: cloud id was nothing, is now 77"}},
		{"why it is needed", func(p *plan.Plan) {
			p.Steps[0].Reason, p.Steps[0].Evidence = plan.ReasonFailed, []plan.Fact{{Name: "error", Value: "x"}}
		}, nil},
		{"it has to wait", func(p *plan.Plan) { p.Steps[0].Needs = []string{"upload x"} },
			[]string{`node.0000000003: it now has to wait for "upload x"`}},
		{"further steps", func(p *plan.Plan) { p.Steps = append(p.Steps, plantest.Launch("debian-small", 0)) }, nil},
		{"done meanwhile", func(p *plan.Plan) { p.Steps = nil },
			[]string{"node.0000000003: no longer planned: to delete the node was done meanwhile or is not needed any more"}},
		{"something else is to be done", func(p *plan.Plan) {
			p.Steps[0].ID, p.Steps[0].Action, p.Steps[0].Reason = "t", plan.ActionForget, plan.ReasonLost
		},
			[]string{"node.0000000003: was to delete the node, now to forget the node because the cloud no longer has it"}},
		{"the cloud is away", func(p *plan.Plan) { p.Steps, p.Deferred = nil, []string{"vexxhost"} },
			[]string{"node.0000000003: provider vexxhost could not be listed, so it is unknown whether to delete the node"}},
		{"a problem", func(p *plan.Plan) {
			p.Steps, p.Problems = nil, []plan.Problem{{Address: "provider.vexxhost.pool.main", Provider: "vexxhost", Text: "no such\nflavor"}}
		},
			[]string{`node.0000000003: no longer planned because of a problem with provider.vexxhost.pool.main: no such\nflavor`}},
	} {
		saved, now := plan.Plan{Steps: []plan.Step{staleStep()}}, plan.Plan{Steps: []plan.Step{staleStep()}}
		c.world(&now)
		if diff := cmp.Diff(c.want, staleWhys(saved, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestStaleComparesEveryField changes each field of a step in turn: the change must make the step stale, unless the
// field only explains the step.
func TestStaleComparesEveryField(t *testing.T) {
	indifferent := map[string]bool{"ID": true, "Reason": true, "Evidence": true, "Files": true, "Estimate": true, "Source": true}
	fields := reflect.TypeFor[plan.Step]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		now := staleStep()
		switch f := reflect.ValueOf(&now).Elem().Field(i); {
		case name == "ID":
			continue
		case name == "Kind":
			now.Kind = plan.KindLaunch
		case f.Kind() == reflect.String:
			f.SetString("another")
		case f.CanInt():
			f.SetInt(3)
		case f.CanFloat():
			f.SetFloat(1.5)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{"another"}))
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case f.Kind() == reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"flavor": "another"}))
		case f.Type() == reflect.TypeFor[*plan.Move]():
			now.Move = &plan.Move{Node: "another"}
		case f.Type() == reflect.TypeFor[resources.Key]():
			now.Record.ID = "another"
		case f.Type() == reflect.TypeFor[resources.Source]():
			now.Source.Line = 99
		default:
			t.Fatalf("change %s here", name)
		}
		stale := len(staleWhys(plan.Plan{Steps: []plan.Step{staleStep()}}, plan.Plan{Steps: []plan.Step{now}})) > 0
		if stale == indifferent[name] {
			t.Errorf("a change of %s makes the step stale: %v, want %v", name, stale, !indifferent[name])
		}
	}
}

func TestStaleEscapesForeignText(t *testing.T) {
	gone := staleStep()
	gone.Address, gone.External = plantest.HostileName, plantest.HostileName
	now := staleStep()
	for _, why := range staleWhys(plan.Plan{Steps: []plan.Step{gone}}, plan.Plan{Steps: []plan.Step{now}}) {
		for _, c := range why {
			if text.Hostile(c) {
				t.Errorf("%q in %q", c, why)
			}
		}
	}
}

func TestStaleNamesTheAttributesThatDiffer(t *testing.T) {
	node := func(state resources.State, lease *resources.Lease) *plan.Records {
		r := &plan.Records{}
		r.Put(&resources.Node{ID: "0000000003", State: state, Provider: "vexxhost", Lease: lease}, 1)
		return r
	}
	step := func(r *plan.Records) plan.Plan {
		s := staleStep()
		s.Preconditions = []plan.Fingerprint{{Subject: s.Record.String(), Digest: plan.AttributesOf(r.Get(s.Record)).Digest()}}
		return plan.Plan{Steps: []plan.Step{s}}
	}
	before := node(resources.StateReady, nil)
	f := File{Plan: step(before)}
	f.Records = Reviewed(f.Plan, before)
	for _, c := range []struct {
		name string
		now  *plan.Records
		plan func(*plan.Records) plan.Plan
		want []string
	}{
		{"a lease", node(resources.StateReady, &resources.Lease{Holder: "x"}), step, nil},
		{"the state", node(resources.StateInUse, nil), step,
			[]string{`node/0000000003: state was "ready", is now "in-use"`}},
		{"the state, and the step is gone", node(resources.StateInUse, nil), func(*plan.Records) plan.Plan { return plan.Plan{} },
			[]string{"no longer planned: to delete the node was done meanwhile or is not needed any more",
				`node/0000000003: state was "ready", is now "in-use"`}},
		{"the record is gone", &plan.Records{}, step, []string{"node/0000000003 has changed since the plan was computed"}},
	} {
		var got []string
		for _, m := range f.Stale(c.plan(c.now), c.now) {
			got = append(got, m.Why)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestStaleStepIsNamedWithoutRepetition(t *testing.T) {
	for want, step := range map[string]plan.Step{
		"build it":        {Kind: plan.KindBuild},
		"upload it":       {Kind: plan.KindUpload},
		"delete the node": {Kind: plan.KindDeleteNode},
	} {
		if got := actionText(&step); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDifferentPlannedValuesMakePlanStale(t *testing.T) {
	saved := File{Plan: plan.Plan{Steps: []plan.Step{staleStep()}}}
	now := plan.Plan{Steps: []plan.Step{staleStep()}}
	now.Steps[0].Values = map[string]string{"flavor": "medium", "cores": "4"}
	if why := saved.Stale(now, &plan.Records{}); len(why) != 1 || why[0].Why != `flavor was small, is now medium` {
		t.Errorf("%v", why)
	}
	saved.Meta.Options.NoRefresh = true
	if why := saved.Stale(now, &plan.Records{}); len(why) != 0 {
		t.Errorf("planned with -refresh=false: %v", why)
	}
}
