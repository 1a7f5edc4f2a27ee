package watch

import (
	"testing"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// sharedStore is a store that other processes use. Its locks are not used.
type sharedStore struct{ state.Shared }

// dutiesOf returns the duties of a process that holds the given locks of a shared store and stands by for others.
func dutiesOf(a assignment, held, others []string) duties {
	l := newLeadership(sharedStore{}, nil, nil, nil, nil)
	for _, name := range held {
		l.locks[name] = oneLock{}
	}
	for _, name := range others {
		l.others[name] = state.Holder{ID: "other"}
	}
	a.shared = true
	return duties{a, l, &imageLocks{held: map[string]imageLock{}}}
}

func TestTasksDependOnTheAssignment(t *testing.T) {
	for _, test := range []struct {
		assignment
		nodes, images bool
	}{
		{assignment{}, true, true},
		{assignment{shared: true}, true, true},
		{assignment{providers: []string{"one"}}, true, true},
		{assignment{providers: []string{"one"}, shared: true}, true, false},
		{assignment{tasks: []Task{TaskImages}, providers: []string{"one"}, shared: true}, false, true},
		{assignment{tasks: []Task{TaskNodes}}, true, false},
	} {
		if nodes, images := test.hasTask(TaskNodes), test.hasTask(TaskImages); nodes != test.nodes || images != test.images {
			t.Errorf("%+v: nodes %t, images %t", test.assignment, nodes, images)
		}
	}
}

func TestOtherProgramsOccupyTheirProvidersOnly(t *testing.T) {
	registered := []resources.RegisteredPool{{Provider: "one", Program: "11.0.0", Host: "vm"}, {Provider: "two", Program: "npctl 1.0"}, {Provider: "three", Own: true}}
	for lock, occupied := range map[string]bool{state.ProviderLock("one"): true, state.ProviderLock("two"): false,
		state.ProviderLock("three"): false, state.ImageLock("one"): false, state.ImagesLock: false} {
		if other, found := occupant(registered, lock); found != occupied || found != (other.UserHost == "another launcher on vm") {
			t.Errorf("lock %q: %+v %t, want %t", lock, other, found, occupied)
		}
	}
}

func TestStepsRunOnlyUnderTheirLock(t *testing.T) {
	one, alma := state.ProviderLock("one"), state.ImageLock("alma")
	launch := plan.Step{Kind: plan.KindLaunch, Provider: "one"}
	build := plan.Step{Kind: plan.KindBuild, Image: "alma"}
	for _, test := range []struct {
		name           string
		duties         duties
		launches, runs bool
	}{
		{"no locks", dutiesOf(assignment{}, nil, nil), false, false},
		{"provider", dutiesOf(assignment{}, []string{one}, nil), true, false},
		{"image", dutiesOf(assignment{}, []string{alma}, nil), false, true},
		{"another provider is assigned", dutiesOf(assignment{providers: []string{"two"}}, []string{one}, nil), false, false},
		{"only images", dutiesOf(assignment{tasks: []Task{TaskImages}}, []string{one, alma}, nil), false, true},
		{"local store", duties{assignment{}, newLeadership(nil, nil, nil, nil, nil), &imageLocks{}}, true, true},
	} {
		if launches, runs := test.duties.mayRun(&launch), test.duties.mayRun(&build); launches != test.launches || runs != test.runs {
			t.Errorf("%s: launch %t, build %t", test.name, launches, runs)
		}
	}
}

func TestProviderMayBeManagedUntilAnotherProcessLeads(t *testing.T) {
	one := state.ProviderLock("one")
	for _, test := range []struct {
		name           string
		duties         duties
		manages, maybe bool
	}{
		{"before the first attempt", dutiesOf(assignment{tasks: []Task{TaskNodes}}, nil, nil), false, true},
		{"leader", dutiesOf(assignment{tasks: []Task{TaskNodes}}, []string{one}, nil), true, true},
		{"standby", dutiesOf(assignment{tasks: []Task{TaskNodes}}, nil, []string{one}), false, false},
		{"not assigned", dutiesOf(assignment{tasks: []Task{TaskNodes}, providers: []string{"two"}}, nil, nil), false, false},
	} {
		if manages, maybe := test.duties.manages("one"), test.duties.mayManage("one"); manages != test.manages || maybe != test.maybe {
			t.Errorf("%s: manages %t, may manage %t", test.name, manages, maybe)
		}
	}
}
