package watch

import (
	"slices"
	"testing"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/state"
)

func buildStep(image string) plan.Step {
	return plan.Step{ID: "build " + image, Kind: plan.KindBuild, Image: image}
}

func uploadStep(image string, needs ...string) plan.Step {
	return plan.Step{ID: "upload " + image, Kind: plan.KindUpload, Image: image, Provider: "one", Needs: needs}
}

func TestImageLockIsAcquiredWithCapacity(t *testing.T) {
	alma := state.ImageLock("alma")
	deletion := plan.Step{Kind: plan.KindDeleteBuild, Image: "alma"}
	for name, test := range map[string]struct {
		running, wanted []plan.Step
		has             []string
		want            bool
	}{
		"nothing runs":                         {wanted: []plan.Step{buildStep("alma")}, want: true},
		"as many builds run as may":            {running: []plan.Step{buildStep("centos"), buildStep("devuan")}, wanted: []plan.Step{buildStep("alma")}, has: []string{"centos", "devuan"}},
		"one less runs":                        {running: []plan.Step{buildStep("centos")}, wanted: []plan.Step{buildStep("alma")}, has: []string{"centos"}, want: true},
		"locks are held for builds to come":    {wanted: []plan.Step{buildStep("centos"), buildStep("devuan"), buildStep("alma")}, has: []string{"centos", "devuan"}},
		"others hold the locks":                {wanted: []plan.Step{buildStep("centos"), buildStep("devuan"), buildStep("alma")}, want: true},
		"a running build that is wanted again": {running: []plan.Step{buildStep("centos")}, wanted: []plan.Step{buildStep("centos"), buildStep("alma")}, has: []string{"centos"}, want: true},
		"builds of another kind run":           {running: []plan.Step{buildStep("far-1"), buildStep("far-2")}, wanted: []plan.Step{buildStep("alma")}, has: []string{"far-1", "far-2"}, want: true},
		"an upload waits for no build":         {running: []plan.Step{buildStep("centos"), buildStep("devuan")}, wanted: []plan.Step{buildStep("alma"), uploadStep("alma")}, has: []string{"centos", "devuan"}, want: true},
		"an upload of the build that is to come": {running: []plan.Step{buildStep("centos"), buildStep("devuan")}, wanted: []plan.Step{buildStep("alma"), uploadStep("alma", "build alma")},
			has: []string{"centos", "devuan"}},
		"only a deletion": {running: []plan.Step{buildStep("centos"), buildStep("devuan")}, wanted: []plan.Step{deletion}, has: []string{"centos", "devuan"}, want: true},
	} {
		has := func(lock string) bool {
			return slices.ContainsFunc(test.has, func(image string) bool { return state.ImageLock(image) == lock })
		}
		workOf := func(s plan.Step) (string, int) {
			if len(s.Image) > 4 && s.Image[:4] == "far-" {
				return "far", 2
			}
			return "here", 2
		}
		if got := hasCapacity(test.running, test.wanted, alma, has, workOf); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestStepsStartInAPassUnderTheLock(t *testing.T) {
	l := imageLocks{held: map[string]imageLock{}}
	alma := state.ImageLock("alma")
	l.startPass(true)
	l.acquired(alma) // during a pass
	if l.plannedUnder(alma) {
		t.Error("a pass that began before the lock was taken may begin steps")
	}
	l.startPass(true)
	if !l.plannedUnder(alma) {
		t.Error("a pass that began under the lock may not begin steps")
	}
}

func TestImageLockIsReleasedWhenUnneeded(t *testing.T) {
	l := imageLocks{held: map[string]imageLock{}}
	needless := l.acquired(state.ImageLock("alma"))
	step := func(wanted, running []plan.Step) bool {
		l.startPass(true)
		l.setWanted(wanted)
		l.releaseUnneeded(running)
		return isClosed(needless)
	}
	build := []plan.Step{buildStep("alma")}
	for range 2 {
		if step(build, nil) {
			t.Fatal("given back while a build is wanted")
		}
	}
	if step(nil, build) {
		t.Fatal("given back while a build runs")
	}
	if !step([]plan.Step{buildStep("centos")}, nil) {
		t.Fatal("kept though nothing is wanted and nothing runs")
	}
	l.releaseUnneeded(nil) // a repeated call changes nothing
	l.released(state.ImageLock("alma"))
	if again := l.acquired(state.ImageLock("alma")); isClosed(again) {
		t.Error("taken again, and to be given back at once")
	}
	if l.releaseUnneeded(nil); len(l.wants()) != 1 {
		t.Errorf("wanted are %v", l.wants())
	}
}

func TestNewImageLockIsKeptForACompletePass(t *testing.T) {
	l := imageLocks{held: map[string]imageLock{}}
	l.startPass(true)
	needless := l.acquired(state.ImageLock("alma"))
	l.releaseUnneeded(nil)
	l.startPass(true) // before the pass has planned
	if l.releaseUnneeded(nil); isClosed(needless) {
		t.Error("given back before a pass has planned under it")
	}
	l.startPass(true)
	if l.releaseUnneeded(nil); !isClosed(needless) {
		t.Error("kept after a pass has found nothing")
	}
}

// oneLock is a lock that is never lost.
type oneLock struct{ state.Lock }

func (oneLock) Lost() <-chan struct{} { return nil }

func TestLockIsDelegatedToOneClientAtATime(t *testing.T) {
	locks := newLeadership(nil, nil, nil, nil, nil)
	if locks.delegate("image alma") != nil {
		t.Fatal("lent what this process does not have")
	}
	locks.locks["image alma"] = oneLock{}
	for range 2 {
		lent := locks.delegate("image alma")
		if lent == nil {
			t.Fatal("not lent")
		}
		if locks.delegate("image alma") != nil {
			t.Error("lent twice")
		}
		returned := locks.delegated["image alma"].returned()
		if isClosed(returned) {
			t.Error("returned before Unlock")
		}
		for range 2 {
			if err := lent.Unlock(t.Context()); err != nil || !isClosed(returned) {
				t.Errorf("not returned: %v", err)
			}
		}
	}
	if !isClosed(locks.delegated["image alma"].returned()) {
		t.Error("what is not lent is not returned")
	}
}
