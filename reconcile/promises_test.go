package reconcile_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/test/kill"
)

// Two provider blocks of one project.
func TestTwoProvidersOfOneProjectLeaveEachOtherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second})
		l.driver.Clouds["two"] = l.driver.Clouds["one"]
		for range 3 {
			p, _, err := l.run(t.Context(), plan.Options{})
			t.Logf("apply: %v\n%s", err, text(p))
			time.Sleep(time.Minute)
		}
		if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
			t.Errorf("never settles:\n%s", text(p))
		}
	})
}

// The block of a provider is changed to another cloud.
func TestMovingAProviderLeaksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		l.mustRun(t, plan.Options{})
		old := l.driver.Clouds["one"]
		other, err := emulator.Open(emulator.Options{})
		testutil.Must(t, err)
		t.Cleanup(func() { _ = other.Close() })
		l.driver.Clouds["one"], l.driver.moved["one"] = other, true // as `cloud = "other"` or `region = "other"` does
		p, _, err := l.run(t.Context(), plan.Options{})
		t.Logf("apply: %v\n%s", err, text(p))
		things, err := old.Inventory()
		testutil.Must(t, err)
		recorded := map[string]bool{}
		for _, n := range l.nodes() {
			recorded[n.ID] = true
		}
		for _, thing := range things {
			if id := thing.Metadata["npctl_node_id"]; id != "" && thing.Type == "server" && !recorded[id] {
				t.Errorf("server %s of node %s runs and nobody knows of it any more", thing.Name, id)
			}
		}
	})
}

// Two files of one build.
func TestTwoFilesOfABuildAreDeletedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := strings.NewReplacer(`printf image >\"$NPCTL_OUTPUT.raw\"`, `printf image >\"$NPCTL_OUTPUT.raw\"; printf 'QFI\\373' >\"$NPCTL_OUTPUT.qcow2\"`,
			`    formats = ["raw"]
  }
`, `    formats = ["raw", "qcow2"]
  }
  formats = ["raw", "qcow2"]
  delete_after_upload = true
`).Replace(twoClouds)
		l := newLab(t, config, emulator.Options{})
		l.mustRun(t, plan.Options{})
		p, _, err := l.run(t.Context(), plan.Options{})
		t.Logf("second apply: %v\n%s", err, text(p))
		if err != nil {
			t.Error(err)
		}
		if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
			t.Errorf("still:\n%s", text(p))
		}
	})
}

// prevent_destroy is set for a provider without other changes.
func TestPreventDestroyIsRememberedWithoutOtherChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		l.mustRun(t, plan.Options{})
		l.config = strings.Replace(twoClouds, `provider "lab" "two" {`, `provider "lab" "two" {
  prevent_destroy = true`, 1)
		l.mustRun(t, plan.Options{}) // the command line does less: it does not execute an empty plan
		cut := strings.Index(l.config, `provider "lab" "two"`)
		l.config = strings.Replace(l.config[:cut], `label "large" { min_ready = 1 }`, ``, 1)
		if p := l.plan(plan.Options{}); len(p.Problems) == 0 {
			t.Errorf("all of a protected provider goes:\n%s", text(p))
		}
	})
}

// Formats without a listing.
func TestFormatWithoutRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		e, end := l.engine()
		defer end()
		looked, err := e.Observe(t.Context(), true)
		testutil.Must(t, err)
		e2, end2 := l.engine()
		defer end2()
		blind, err := e2.Observe(t.Context(), false)
		testutil.Must(t, err)
		if looked.Formats["one"] != blind.Formats["one"] {
			t.Errorf("looked: %v, blind: %v", looked.Formats, blind.Formats)
		}
		for _, s := range plan.Compute(e2.Desired, blind, plan.Options{}).Steps {
			if s.Kind == plan.KindUpload {
				t.Logf("%s as %s", s.ID, s.Format)
			}
		}
	})
}

// An engine that continues to run.
func TestAProviderThatFailedOnceIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		e, end := l.engine()
		defer end()
		l.kill.Strike("now")
		_, _ = e.Observe(t.Context(), true)
		l.kill.Revive(0)
		seen, err := e.Observe(t.Context(), true)
		testutil.Must(t, err)
		if why := seen.Providers["one"].Err; why != "" {
			t.Errorf("the second look still says: %s", why)
		}
	})
}

// Two states with one images directory.
func TestAnotherStateLeavesOurImageFilesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		l.mustRun(t, plan.Options{})
		before, _ := filepath.Glob(filepath.Join(l.dir, "images", "debian-*"))
		testutil.Must(t, os.Rename(filepath.Join(l.dir, "npctl.db"), filepath.Join(l.dir, "first.db")))
		p, _, err := l.run(t.Context(), plan.Options{}) // as `npctl -state=second.db apply`
		t.Logf("apply: %v\n%s", err, text(p))
		for _, file := range before {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%v", err)
			}
		}
	})
}

// lateStore delays the return of the first commit of a template until later commits have returned.
type lateStore struct {
	kill.Store
	once *atomic.Bool
}

func (s lateStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	entries, err := s.Store.Commit(ctx, ops...)
	for _, op := range ops {
		if _, ok := op.Record.(*resources.Template); ok {
			if n, isNode := ops[0].Record.(*resources.Node); isNode && n.Provider == "one" {
				if s.once.CompareAndSwap(false, true) {
					time.Sleep(10 * time.Millisecond)
				}
			}
		}
	}
	return entries, err
}

func TestTemplateWrittenTwiceCanBeDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		testutil.Must(t, l.driver.Clouds["one"].SetFaults(emulator.Fault{Operation: "server.create", Action: emulator.Answer, Status: 400, Times: 100}))
		e, end := l.engine()
		defer end()
		seen, err := e.Observe(t.Context(), true)
		testutil.Must(t, err)
		e.Store = lateStore{e.Store.(kill.Store), &atomic.Bool{}}
		result, err := e.Execute(t.Context(), plan.Compute(e.Desired, seen, plan.Options{}), plan.Options{}, seen)
		t.Log(result.Err())
		if err != nil {
			t.Errorf("bookkeeping after failed launches: %v", err)
		}
	})
}

func TestForgottenProviderLeavesNoSighting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		l.mustRun(t, plan.Options{})
		cloud := l.driver.Clouds["two"]
		things, _ := cloud.Inventory()
		marks := map[string]string{}
		for _, thing := range things {
			if thing.Type == "server" && thing.Metadata["npctl_node_id"] != "" {
				for k, v := range thing.Metadata {
					marks[k] = v
				}
			}
		}
		marks["npctl_node_id"] = "0000009999"
		if _, err := cloud.AddServer(emulator.ForeignServer{Name: "np0000009999", Metadata: marks}); err != nil {
			t.Fatal(err)
		}
		cut := strings.Index(l.config, `provider "lab" "two"`)
		l.config = strings.Replace(l.config[:cut], `label "large" { min_ready = 1 }`, ``, 1)
		for range 4 {
			p, _, err := l.run(t.Context(), plan.Options{AllowDestroy: plan.AllowAll})
			t.Logf("apply: %v\n%s", err, text(p))
			time.Sleep(time.Minute)
		}
		if left := l.records(resources.KindSighting); len(left) > 0 {
			t.Errorf("left: %+v", left[0])
		}
	})
}

// Nothing is left to do after an apply.
func TestDeleteAfterUploadNeedsOneApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := strings.Replace(twoClouds, `    formats = ["raw"]
  }
`, `    formats = ["raw"]
  }
  delete_after_upload = true
`, 1)
		l := newLab(t, config, emulator.Options{})
		l.mustRun(t, plan.Options{})
		if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
			t.Errorf("after an apply:\n%s", text(p))
		}
	})
}
