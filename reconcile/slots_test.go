package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestEachKindOfImageWorkHasItsSemaphore(t *testing.T) {
	t.Parallel()
	images := []resources.Image{{Name: "dib", Kind: resources.DiskImage, Builder: "dib"}, {Name: "fetched", Kind: resources.ZuulImage, Builder: "zuul"},
		{Name: "snap", Kind: resources.DiskImage, Builder: "snapshot"}}
	desired := resources.Desired{Images: images, Providers: []resources.Provider{{Name: "one", MaxUploads: 2}},
		Settings: resources.Settings{ImageWork: resources.ImageWork{Builds: 1, Fetches: 2, Snapshots: 3, Conversions: 2}}}
	e := &Engine{Options: Options{Desired: desired}}
	l := newSlots()
	take := func(what string, s plan.Step, want int) {
		t.Helper()
		for range want {
			if _, err := l.acquireFor(t.Context(), e, &s); err != nil {
				t.Fatal(err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		go func() {
			_, err := l.acquireFor(ended, e, &s)
			waiting <- err
		}()
		for queued := 0; queued == 0; {
			select {
			case err := <-waiting:
				t.Fatalf("%s: there is a place for one more than %d (%v)", what, want, err)
			case <-time.After(time.Millisecond):
			}
			l.mu.Lock()
			for _, p := range l.semaphores {
				queued += len(p.waiting)
			}
			l.mu.Unlock()
		}
		cancel()
		if err := <-waiting; !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
	}
	build := func(image string) plan.Step {
		return plan.Step{ID: image, Kind: plan.KindBuild, Image: image}
	}
	convert := plan.Step{ID: "convert", Kind: plan.KindConvert, Image: "dib"}
	upload := plan.Step{ID: "upload", Kind: plan.KindUpload, Image: "dib", Provider: "one"}
	all := map[string]struct {
		step plan.Step
		want int
	}{"local builds": {build("dib"), 1}, "downloads": {build("fetched"), 2}, "snapshots": {build("snap"), 3}, "conversions": {convert, 2}, "uploads": {upload, 2}}
	for what, kind := range all {
		take(what, kind.step, kind.want)
	}
	desired.Settings.ImageWork.Builds, desired.Providers = 2, []resources.Provider{{Name: "one", MaxUploads: 4}}
	l.resize(&Engine{Options: Options{Desired: desired}})
	take("local builds after a reload", build("dib"), 1)
	take("uploads after a reload", upload, 2)
}
