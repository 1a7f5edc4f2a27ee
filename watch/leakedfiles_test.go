package watch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/watch"
)

// TestLeakedImageFileIsDeleted also covers a builder without the nodes task.
func TestLeakedImageFileIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.Replace(fleet, `npctl { images_dir = "images" }`, "npctl {\n  images_dir = \"images\"\n  leak_age = \"10m\"\n}", 1), emulator.Options{})
		l.refresh, l.tasks = time.Minute, []watch.Task{watch.TaskImages}
		d, end := l.daemon()
		defer end()
		testutil.Await(l.t, "the image is uploaded", func() bool { return len(d.Last().Observed.Records.Uploads) == 1 && len(d.Runner().Running()) == 0 })
		kept, err := filepath.Glob(filepath.Join(l.dir, "images", "debian-*.raw"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("files of the build are %q, %v", kept, err)
		}
		leaked := filepath.Join(l.dir, "images", "debian-"+strings.Repeat("a", 32)+".raw")
		testutil.WriteFile(t, leaked, "image")
		testutil.WriteFile(t, filepath.Join(l.dir, "images", ".npctl-builds", strings.Repeat("a", 32)+"."+d.Last().Observed.Installation), "")
		foreign := filepath.Join(l.dir, "images", "debian-"+strings.Repeat("b", 32)+".raw")
		testutil.WriteFile(t, foreign, "image of Nodepool")
		exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
		time.Sleep(9 * time.Minute)
		if !exists(leaked) {
			t.Fatal("deleted before leak_age has passed")
		}
		time.Sleep(4 * time.Minute)
		if exists(leaked) || !exists(kept[0]) || !exists(foreign) {
			t.Errorf("the leaked file exists: %t; that of the build: %t; that of Nodepool: %t", exists(leaked), exists(kept[0]), exists(foreign))
		}
		if exists(filepath.Join(l.dir, "images", reconcile.BuilderIDFile)) {
			t.Error("a builder whose store is not shared has an ID")
		}
	})
}
