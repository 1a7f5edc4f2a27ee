package reconcile

import (
	"testing"

	"github.com/npctl/npctl/plan"
)

func TestEveryActionHasAKindWithLockAndRun(t *testing.T) {
	actions := map[plan.Action]bool{}
	for key, kind := range stepKinds {
		actions[key.action] = true
		if kind.lock == 0 || kind.run == nil {
			t.Errorf("%+v has no lock or no run function", key)
		}
		if kind.brief && (kind.claims || kind.slot != slotProvider) {
			t.Errorf("%+v is brief, so the runner neither claims its record nor takes a slot for it", key)
		}
	}
	for _, kind := range plan.ActionKinds() {
		if !actions[kind.Action] {
			t.Errorf("no kind of step has the action %s", kind.Action)
		}
	}
}

func TestUpdateOfAStaticNodeChecksItsMachine(t *testing.T) {
	free := plan.Step{Action: plan.ActionUpdate, Thing: plan.ThingNode, Reason: plan.ReasonRequestGone, Node: "rack-1"}
	check := free
	check.Reason = plan.ReasonUsed
	if !stepKindOf(&free).brief || stepKindOf(&check).brief {
		t.Errorf("brief is %v for the release of a node and %v for the check of its machine", stepKindOf(&free).brief, stepKindOf(&check).brief)
	}
}
