package reconcile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// withRemoved is oneCloud without its objects, which removed blocks name.
func withRemoved() string {
	settings, _, _ := strings.Cut(oneCloud(), "diskimage")
	return settings + `
removed {
  from = provider.one
  lifecycle { destroy = false }
}
removed {
  from = diskimage.debian
  lifecycle { destroy = false }
}
`
}

// TestKilledForgetIsRepeated kills an apply with removed blocks at every commit and every changing call, before and after
// its effect. The next applies, also much later, forget the rest and delete nothing.
func TestKilledForgetIsRepeated(t *testing.T) {
	for at, struck := 1, true; struck; at++ {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, oneCloud(), goldenCloud)
			l.settle(t, plan.Options{}, "before")
			var objects []string
			for _, n := range l.nodes() {
				objects = append(objects, n.ExternalID)
			}
			objects = append(objects, l.records(resources.KindUpload)[0].(*resources.Upload).ExternalID)
			things, err := l.driver.Clouds["one"].Inventory()
			testutil.Must(t, err)
			for _, thing := range things {
				if thing.Type == "floating_ip" {
					objects = append(objects, thing.ID)
				}
			}
			if len(objects) < 5 {
				t.Fatalf("the fleet has only the objects %v", objects)
			}
			l.config = withRemoved()
			l.kill.Revive(at)
			_, _, _ = l.run(t.Context(), plan.Options{})
			where, died := l.kill.Died()
			l.kill.Revive(0)
			if struck = died; !died && at < 30 {
				t.Errorf("only %d points were passed; the killer sees too little", at-1)
			}
			l.settle(t, plan.Options{}, where)
			for range 3 {
				time.Sleep(time.Hour)
				l.mustRun(t, plan.Options{AllowDestroy: plan.AllowAll})
			}
			l.mustRun(t, plan.Options{Destroy: true, AllowDestroy: plan.AllowAll})
			l.stays(t, where, objects...)
			for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload, resources.KindBuild, resources.KindProvider, resources.KindSighting} {
				if left := l.records(kind); len(left) > 0 {
					t.Errorf("killed %s: %d records of kind %s are left", where, len(left), kind)
				}
			}
			things, err = l.driver.Clouds["one"].Inventory()
			testutil.Must(t, err)
			for _, thing := range things {
				for name := range thing.Metadata {
					if strings.HasPrefix(name, "npctl_") {
						t.Errorf("killed %s: %s %s still has %s", where, thing.Type, thing.ID, name)
					}
				}
			}
			if files, _ := filepath.Glob(filepath.Join(l.dir, "images", "forgotten", "debian-*.raw")); len(files) != 1 {
				entries, _ := os.ReadDir(filepath.Join(l.dir, "images"))
				t.Errorf("killed %s: the files of the forgotten build are %v, those beside them %v", where, files, entries)
			}
		})
	}
}
