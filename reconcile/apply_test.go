package reconcile_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

func TestApplyThenNothingThenDestroy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, sandboxcloud.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second,
			Foreign: []sandboxcloud.ForeignServer{{Name: "np0000000001"}}})
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
	if _, err := os.Stat(filepath.Join(l.dir, "images", ".npctl-installation")); err == nil {
		t.Error("the images directory is still claimed")
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
