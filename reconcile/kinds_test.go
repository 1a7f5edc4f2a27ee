package reconcile

import (
	"testing"

	"github.com/npctl/npctl/plan"
)

func TestEveryActionHasAKindWithLockAndRun(t *testing.T) {
	actions := map[plan.Action]bool{}
	for key, kind := range stepKinds {
		actions[key.action] = true
		if kind.lock == nil || kind.run == nil {
			t.Errorf("%+v has no lock or no run function", key)
		}
		if kind.brief && (kind.claims || kind.slot != slotProvider) {
			t.Errorf("%+v is brief, so the runner neither claims its record nor takes a slot for it", key)
		}
	}
	for _, action := range []plan.Action{plan.ActionBuild, plan.ActionConvert, plan.ActionUpload, plan.ActionLaunch, plan.ActionRegister, plan.ActionUpdate,
		plan.ActionServe, plan.ActionDecline, plan.ActionForget, plan.ActionUnregister, plan.ActionDelete} {
		if !actions[action] {
			t.Errorf("no kind of step has the action %s", action)
		}
	}
}

func TestUpdateOfAStaticNodeChecksItsMachine(t *testing.T) {
	free := plan.Step{Action: plan.ActionUpdate, Thing: plan.ThingNode, Reason: plan.ReasonRequestGone, Node: "rack-1"}
	check := free
	check.Reason = plan.ReasonUsed
	if !kindOf(&free).brief || kindOf(&check).brief {
		t.Errorf("brief is %v for the release of a node and %v for the check of its machine", kindOf(&free).brief, kindOf(&check).brief)
	}
}
