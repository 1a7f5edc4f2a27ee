package reconcile_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/bolt"
)

// watch checks the store and the clouds after every change of either: a cloud that has had an image that nodes can boot
// from must have one at every later moment.
type watch struct {
	lab       *lab
	store     *bolt.Store // of the running engine
	interrupt func()      // ends its context, as ^C does

	// turn is full during each commit and each check, so that the store does not change; it guards the fields below. It
	// is not a mutex, because the clock of a synctest bubble stands still while a goroutine waits for one, and the
	// store may need the clock.
	turn  chan struct{}
	had   map[string]bool
	looks int
	wrong []string
}

func (w *watch) look(what string) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.check(what)
}

// check checks the state. The caller has put a value into turn.
func (w *watch) check(what string) {
	if w.store == nil {
		return
	}
	w.looks++
	usable, err := w.usable()
	if err != nil {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %v", what, err))
		return
	}
	for name := range w.lab.driver.Clouds {
		if w.had[name] && usable[name] == 0 && len(w.wrong) < 10 {
			w.wrong = append(w.wrong, fmt.Sprintf("%s: cloud %s has no usable image any more", what, name))
		}
		w.had[name] = w.had[name] || usable[name] > 0
	}
}

// usable returns the number of images that a launch could use: the build and the upload are recorded as ready, and the
// image is active in the cloud.
func (w *watch) usable() (map[string]int, error) {
	entries, err := w.store.List(context.Background(), resources.KindBuild, resources.KindUpload)
	if err != nil {
		return nil, err
	}
	ready, building := map[string]bool{}, 0
	for _, entry := range entries {
		if b, ok := entry.Record.(*resources.Build); ok {
			ready[b.ID] = b.State == resources.StateReady
			if b.State == resources.StateBuilding {
				building++
			}
		}
	}
	if building > 1 {
		return nil, fmt.Errorf("%d builds of one image are being made at once", building)
	}
	active, err := w.active()
	if err != nil {
		return nil, err
	}
	usable := map[string]int{}
	for _, entry := range entries {
		if u, ok := entry.Record.(*resources.Upload); ok && u.State == resources.StateReady && ready[u.Build] && active[u.Provider+"/"+u.ID] {
			usable[u.Provider]++
		}
	}
	return usable, nil
}

// active returns the active images of this installation, by provider and upload.
func (w *watch) active() (map[string]bool, error) {
	active := map[string]bool{}
	for name, cloud := range w.lab.driver.Clouds {
		things, err := cloud.Inventory()
		if err != nil {
			return nil, err
		}
		for _, thing := range things {
			if thing.Type == "image" && thing.Status == "active" {
				active[name+"/"+thing.Metadata["npctl_upload_id"]] = true
			}
		}
	}
	return active, nil
}

// transport checks the state after each changing call, whether it succeeded or not.
func (w *watch) transport(inner http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(req *http.Request) (*http.Response, error) {
		answer, err := inner.RoundTrip(req)
		if req.Method != http.MethodGet && !strings.HasSuffix(req.URL.Path, "/auth/tokens") {
			w.look(fmt.Sprintf("after %s %s (%v)", req.Method, req.URL.Path, err))
		}
		return answer, err
	})
}

// verdict fails the test if the watch has found an error or has not checked anything.
func (w *watch) verdict(t *testing.T) {
	t.Helper()
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	for _, wrong := range w.wrong {
		t.Errorf("%s", wrong)
	}
	if w.looks == 0 || len(w.had) < 2 {
		t.Errorf("the watch has looked %d times and seen images in %v", w.looks, w.had)
	}
	w.wrong = nil
}

// newest returns the newest ready build, and the number of ready builds.
func (r *rebuildLab) newest() (newest *resources.Build, ready int) {
	r.t.Helper()
	for _, record := range r.records(resources.KindBuild) {
		b := record.(*resources.Build)
		if b.State != resources.StateReady {
			continue
		}
		if ready++; newest == nil || b.StateTime.After(newest.StateTime) {
			newest = b
		}
	}
	return newest, ready
}

// everywhere reports whether each cloud has the build.
func (r *rebuildLab) everywhere(build string) bool {
	r.t.Helper()
	has := map[string]bool{}
	for _, record := range r.records(resources.KindUpload) {
		if u := record.(*resources.Upload); u.Build == build && u.State == resources.StateReady {
			has[u.Provider] = true
		}
	}
	return len(has) == len(r.driver.Clouds)
}

// exactly fails the test unless records, clouds and disk contain exactly the expected objects.
func (r *rebuildLab) exactly(t *testing.T, keep int, deleted bool) {
	t.Helper()
	var files []string
	builds := map[string]bool{}
	for _, record := range r.records(resources.KindBuild) {
		b := record.(*resources.Build)
		builds[b.ID] = true
		if b.State != resources.StateReady {
			t.Errorf("build %s is %s: %s", b.ID, b.State, b.Error)
		}
		if !deleted {
			files = append(files, "debian-"+b.ID+".qcow2", "debian-"+b.ID+".raw")
		}
	}
	if len(builds) != keep {
		t.Errorf("%d builds are on record, want %d", len(builds), keep)
	}
	if got := r.onDisk(t); !slices.Equal(got, slices.Sorted(slices.Values(files))) {
		t.Errorf("the images directory holds\n    %s\nwant\n    %s", strings.Join(got, "\n    "), strings.Join(files, "\n    "))
	}
	r.exactUploads(t, keep, builds)
	for _, record := range r.records(resources.KindImage) {
		if i := record.(*resources.ImageRecord); i.Failure != nil || len(i.Uploads) > 0 {
			t.Errorf("a failure is still remembered: %+v, %v", i.Failure, i.Uploads)
		}
	}
	if p := r.plan(plan.Options{}); len(p.Steps)+len(p.Problems) > 0 {
		t.Errorf("there is still something to do:\n%s", text(p))
	}
}

// noMore fails the test if there are more objects than needed while the clouds may have different builds: more uploads
// than kept, more builds than kept without an upload of each, or files that every cloud has.
func (r *rebuildLab) noMore(t *testing.T, keep int, deleted bool) {
	t.Helper()
	uploads, uploaded := map[string]int{}, map[string]bool{}
	for _, record := range r.records(resources.KindUpload) {
		u := record.(*resources.Upload)
		uploads[u.Provider]++
		uploaded[u.Build] = true
	}
	for name, n := range uploads {
		if n > keep {
			t.Errorf("%s has %d uploads, and %d are kept", name, n, keep)
		}
	}
	builds := r.records(resources.KindBuild)
	for _, record := range builds {
		if b := record.(*resources.Build); len(builds) > keep && !uploaded[b.ID] {
			t.Errorf("%d builds are on record, %d are kept, and %s is uploaded nowhere", len(builds), keep, b.ID)
		}
	}
	if files := r.onDisk(t); deleted && len(files) > 0 {
		t.Errorf("every cloud has the newest build, and these files are still there: %v", files)
	}
}

// onDisk lists the files of builds in the images directory.
func (r *rebuildLab) onDisk(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.dir, "images"))
	testutil.Must(t, err)
	for _, entry := range entries {
		if name := entry.Name(); name != "logs" && name != ".npctl-builds" {
			names = append(names, name)
		}
	}
	return names
}

// exactUploads compares records and clouds: as many uploads as are kept, of the kept builds, each with its image.
func (r *rebuildLab) exactUploads(t *testing.T, keep int, builds map[string]bool) {
	t.Helper()
	recorded := map[string][]string{}
	for _, record := range r.records(resources.KindUpload) {
		u := record.(*resources.Upload)
		recorded[u.Provider] = append(recorded[u.Provider], u.ExternalID)
		if u.State != resources.StateReady || !builds[u.Build] {
			t.Errorf("upload %s to %s of build %s is %s: %s", u.ID, u.Provider, u.Build, u.State, u.Error)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.driver.Clouds)) {
		things, err := r.driver.Clouds[name].Inventory()
		testutil.Must(t, err)
		var there []string
		foreign := 0
		for _, thing := range things {
			switch ours := thing.Metadata["npctl_installation"] != ""; {
			case ours && thing.Type == "image" && thing.Status == "active":
				there = append(there, thing.ID)
			case ours:
				t.Errorf("cloud %s: %s %s is %s", name, thing.Type, thing.Name, thing.Status)
			case thing.Type == "server":
				foreign++
			}
		}
		slices.Sort(there)
		slices.Sort(recorded[name])
		if len(there) != keep || !slices.Equal(there, recorded[name]) || foreign != 1 {
			t.Errorf("cloud %s has images %v and %d servers of others; on record are %v, and %d are to be kept",
				name, there, foreign, recorded[name], keep)
		}
	}
}
