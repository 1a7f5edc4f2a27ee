package reconcile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

func TestApplyThenNothingThenDestroy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second,
			Foreign: []emulator.ForeignServer{{Name: "np0000000001"}}})
		p, _, err := l.run(t.Context(), plan.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text(p))
		}
		if again := l.plan(plan.Options{}); len(again.Steps) > 0 {
			t.Fatalf("the second plan is not empty:\n%s", text(again))
		}
		for _, r := range l.records(resources.KindNode) {
			if n := r.(*resources.Node); n.State != resources.StateReady || n.Addresses.Interface == "" {
				t.Errorf("node %+v is not ready", n)
			}
		}
		if p, _, err := l.run(t.Context(), plan.Options{Destroy: true}); err != nil {
			t.Fatalf("destroy: %v\n%s", err, text(p))
		}
		l.empty(t)
	})
}

// empty checks that no object of this installation is left, and that foreign objects still exist.
func (l *lab) empty(t *testing.T) {
	t.Helper()
	if files, _ := filepath.Glob(filepath.Join(l.dir, "images", "*")); len(files) > 0 {
		t.Errorf("left in the images directory: %v", files)
	}
	if left, err := os.ReadDir(filepath.Join(l.dir, "images", ".npctl-builds")); err == nil {
		t.Errorf("marks of builds are left: %v", left)
	}
	for _, kind := range resources.Kinds() {
		if left := l.records(kind); len(left) > 0 && kind != resources.KindHistory {
			t.Errorf("%d records of kind %s are left", len(left), kind)
		}
	}
	for name, cloud := range l.driver.Clouds {
		things, err := cloud.Inventory()
		if err != nil {
			t.Fatal(err)
		}
		foreign := 0
		for _, thing := range things {
			switch {
			case thing.Name == "np0000000001" && thing.Metadata["npctl_installation"] == "":
				foreign++
			case thing.Type == "image" && thing.Metadata["npctl_installation"] == "", thing.Type == "port":
			default:
				t.Errorf("%s: %s %s (%s) is left", name, thing.Type, thing.Name, thing.ID)
			}
		}
		if foreign != 1 {
			t.Errorf("%s: %d servers of others are left, want 1", name, foreign)
		}
	}
}

// TestImageFilesOfOthersStay shares the images directory with Nodepool, which also names files NAME-ID.FORMAT. Only files of
// builds that this state began are leaks without their records.
func TestImageFilesOfOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		images := filepath.Join(l.dir, "images")
		foreign := func(id string) (paths []string) {
			manifests := filepath.Join(images, "ubuntu-"+id+".d")
			testutil.Must(t, os.MkdirAll(manifests, 0o700))
			paths = []string{filepath.Join(images, "ubuntu-"+id+".qcow2"), filepath.Join(manifests, "dib-manifests")}
			for _, path := range paths {
				testutil.WriteFile(t, path, "of Nodepool")
			}
			return paths
		}
		apply := func(opt plan.Options) {
			t.Helper()
			if p, _, err := l.run(t.Context(), opt); err != nil {
				t.Fatalf("%v\n%s", err, text(p))
			}
			time.Sleep(time.Minute)
		}
		others := foreign("0123456789abcdef0123456789abcdef")
		apply(plan.Options{})
		others = append(others, foreign("fedcba9876543210fedcba9876543210")...) // Nodepool builds another image

		build := l.records(resources.KindBuild)[0].(*resources.Build)
		ours := filepath.Join(images, build.Files[0].Name)
		store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
		testutil.Must(t, err)
		_, err = store.Commit(t.Context(), state.Op{Key: build.Key(), Force: true})
		testutil.Must(t, err)
		testutil.Must(t, store.Close())
		for range 3 {
			apply(plan.Options{})
		}
		if _, err := os.Stat(ours); err == nil {
			t.Errorf("%s, which has no record, is not deleted", ours)
		}
		apply(plan.Options{Destroy: true})
		for _, path := range others {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestChangedSettingsOfAnImageUploadItAgain changes a replacing attribute of an image block in one of two clouds. Ready nodes keep
// the old upload until they are gone.
func TestChangedSettingsOfAnImageUploadItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		apply := func(want int) (steps []plan.Step) {
			t.Helper()
			p, _, err := l.run(t.Context(), plan.Options{})
			testutil.Must(t, err)
			if steps = p.Steps; want >= 0 && len(steps) != want {
				t.Fatalf("want %d steps:\n%s", want, text(p))
			}
			return steps
		}
		apply(-1)
		l.config = strings.Replace(twoClouds, `provider "lab" "one" {`, "provider \"lab\" \"one\" {\n  image \"debian\" {\n    min_disk = 1\n  }\n", 1)
		s := apply(1)[0]
		if s.Kind != plan.KindUpload || s.Provider != "one" || s.Reason != plan.ReasonConfigChanged || len(s.Changes) != 1 || s.Changes[0].After != "1" {
			t.Fatalf("got %+v", s)
		}
		apply(0)
		l.config = strings.Replace(l.config, "min_disk = 1", "min_disk = 2", 1)
		if steps := apply(2); !slices.ContainsFunc(steps, func(s plan.Step) bool { return len(s.Changes) == 1 && s.Changes[0].Before == "1" }) {
			t.Errorf("no step knows the earlier value: %+v", steps)
		}
		apply(0)
		l.config = twoClouds // back to the upload of the nodes, if it is still there
		if s := apply(1)[0]; s.Action != plan.ActionDelete || s.Thing != plan.ThingUpload || s.Reason != plan.ReasonConfigChanged {
			t.Errorf("got %+v", s)
		}
		apply(0)
	})
}
