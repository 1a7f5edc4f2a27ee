package reconcile

import (
	"testing"

	"github.com/npctl/npctl/plan"
)

func TestEveryActionHasAKindAndEveryKindAFunction(t *testing.T) {
	actions := map[plan.Action]bool{}
	for _, kind := range plan.Kinds() {
		actions[kind.Action] = true
		info := kind.Info()
		if runs[kind] == nil {
			t.Errorf("%s has no function", kind)
		}
		if info.Brief && (info.Claims || info.Slot != plan.SlotProvider) {
			t.Errorf("%s is brief, so the runner neither claims its record nor takes a slot for it", kind)
		}
	}
	if len(runs) != len(plan.Kinds()) {
		t.Errorf("%d functions for %d kinds", len(runs), len(plan.Kinds()))
	}
	for _, kind := range plan.ActionKinds() {
		if !actions[kind.Action] {
			t.Errorf("no kind of step has the action %s", kind.Action)
		}
	}
}
