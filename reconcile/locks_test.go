package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

func TestStepsOfImagesAreUnderTheLockOfTheirImage(t *testing.T) {
	for name, c := range map[string]struct {
		step plan.Step
		want string
	}{
		"build":            {plan.Step{Kind: plan.KindBuild, Image: "debian"}, "image debian"},
		"upload":           {plan.Step{Kind: plan.KindUpload, Image: "debian", Provider: "cloud"}, "image debian"},
		"file":             {plan.Step{Kind: plan.KindDeleteFile, Image: "debian"}, "image debian"},
		"leaked file":      {plan.Step{Kind: plan.KindDeleteLeftover, Type: "file"}, ""},
		"leaked image":     {plan.Step{Kind: plan.KindDeleteLeftover, Type: "image", Provider: "cloud"}, state.ImagesLock},
		"record of image":  {plan.Step{Kind: plan.KindUpdateRecord, Record: resources.Key{Kind: resources.KindImage, ID: "debian"}}, "image debian"},
		"leaked server":    {plan.Step{Kind: plan.KindDeleteLeftover, Type: "instance", Provider: "cloud"}, "provider cloud"},
		"launch":           {plan.Step{Kind: plan.KindLaunch, Provider: "cloud"}, "provider cloud"},
		"validation":       {plan.Step{Kind: plan.KindValidate, Image: "debian", Provider: "cloud"}, "provider cloud"},
		"request":          {plan.Step{Kind: plan.KindServe, Provider: "cloud"}, "provider cloud"},
		"nobody's request": {plan.Step{Kind: plan.KindDecline}, ""},
	} {
		if got := LockOf(&c.step); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// someSteps returns a plan with two steps of images in one provider, and one step of a node in another.
func someSteps() plan.Plan {
	return plan.Plan{Steps: []plan.Step{{ID: "1", Kind: plan.KindBuild, Image: "alma"}, {ID: "2", Kind: plan.KindLaunch, Provider: "rack"},
		{ID: "3", Kind: plan.KindUpload, Image: "alma", Provider: "cloud"}}}
}

func TestAPlanIsDoneUnderTheLocksOfItsSteps(t *testing.T) {
	s := newShared(t)
	e := New(Options{Store: s})
	ctx, release, err := e.underLocks(t.Context(), locksOf(someSteps().Steps), true)
	testutil.Must(t, err)
	if got, want := slices.Sorted(maps.Keys(s.locks)), []string{"image alma", "provider rack"}; !slices.Equal(got, want) {
		t.Errorf("taken are %q, want %q", got, want)
	}
	close(s.locks["image alma"].lost)
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, state.ErrLost) || !strings.HasPrefix(err.Error(), "image alma: ") {
		t.Errorf("the lock of the image is lost, and it ends with %v", err)
	}
	release()
	for name, lock := range s.locks {
		if !lock.released {
			t.Errorf("lock %s was not given back", name)
		}
	}
}

func TestNothingOfAPlanIsDoneWhileAnotherHasTheLockOfAnImage(t *testing.T) {
	s := newShared(t)
	s.others = map[string]bool{"image alma": true}
	e := New(Options{Store: s})
	result, err := e.Execute(t.Context(), someSteps(), plan.Options{}, plan.Observed{})
	if !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), "zuul@there") || len(result.Failed)+len(result.Skipped) > 0 {
		t.Errorf("it ended with %v and %+v", err, result)
	}
	for name, lock := range s.locks {
		if !lock.released {
			t.Errorf("lock %s was not given back", name)
		}
	}
	p := someSteps()
	p.Steps = p.Steps[1:2]
	_, release, err := e.underLocks(t.Context(), locksOf(p.Steps), true)
	if err != nil {
		t.Fatalf("a plan without images: %v", err)
	}
	release()
}

// TestThroughADaemonAPlanIsDoneUnderLocksToo: a command that runs beside npctl watch has a store that is not a
// state.Shared, but shared nevertheless.
func TestThroughADaemonAPlanIsDoneUnderLocksToo(t *testing.T) {
	s := newShared(t)
	e := New(Options{Store: s.Store})
	for _, shared := range []bool{true, false} {
		_, release, err := e.underLocks(t.Context(), locksOf(someSteps().Steps), shared)
		testutil.Must(t, err)
		lock, err := s.Store.Lock(t.Context(), "image alma", state.Holder{})
		if errors.Is(err, state.ErrLocked) != shared {
			t.Errorf("others work in the store: %t, and the lock of an image is to be had with %v", shared, err)
		}
		if err == nil {
			_ = lock.Unlock(t.Context())
		}
		release()
	}
}
