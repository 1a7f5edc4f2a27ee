package reconcile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// host is the configuration of a build host.
const host = `
npctl { images_dir = "images" }

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "echo built >>builds; printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}

diskimage "broken" {
  builder "exec" {
    command = ["sh", "-c", "echo no such mirror; exit 3"]
    formats = ["raw"]
  }
}

diskimage "paused" {
  pause = true
  builder "exec" {
    command = ["true"]
    formats = ["raw"]
  }
}

provider "lab" "one" { image_format = "raw" }
provider "lab" "two" { image_format = "raw" }
`

const askedID = "00000000000000000000000000000abc"

func (l *lab) workshop(t *testing.T) (*reconcile.BuildService, func()) {
	t.Helper()
	e, end := l.engine()
	w, err := reconcile.NewBuildService(t.Context(), e)
	if err != nil {
		end()
		t.Fatal(err)
	}
	return w, func() { w.Close(); end() }
}

func (l *lab) builds(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "builds"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(text) / len("built\n")
}

func (l *lab) kept(t *testing.T, w *reconcile.BuildService, want ...string) {
	t.Helper()
	got, err := w.ListBuilds(t.Context())
	testutil.Must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("kept builds are %v, want %v", got, want)
	}
}

func TestWorkshopMakesABuildOnce(t *testing.T) {
	l := newLab(t, host, emulator.Options{})
	w, end := l.workshop(t)
	if got := w.Images(); !slices.Equal(got, []string{"broken", "debian"}) {
		t.Errorf("images are %v", got)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := w.Build(t.Context(), builders.RemoteBuild{Image: "debian", BuildID: askedID, Formats: []string{"raw"}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range []string{"17", "an id of another kind"} {
		if _, err := w.Build(t.Context(), builders.RemoteBuild{Image: "debian", BuildID: id}); err != nil {
			t.Fatal(err)
		}
	}
	l.kept(t, w, askedID, "17", "an id of another kind")
	end()

	w, end = l.workshop(t)
	defer end()
	l.kept(t, w, askedID, "17", "an id of another kind")
	if _, err := w.Build(t.Context(), builders.RemoteBuild{Image: "debian", BuildID: askedID}); err != nil {
		t.Fatal(err)
	}
	if n := l.builds(t); n != 3 {
		t.Errorf("there were %d builds, want 3", n)
	}
	for _, id := range []string{askedID, "17", "an id of another kind", "never made"} {
		testutil.Must(t, w.Remove(t.Context(), id))
	}
	l.kept(t, w)
	left, _ := filepath.Glob(filepath.Join(l.dir, "images", "debian-*"))
	if len(left) > 0 {
		t.Errorf("left on the disk: %v", left)
	}
}

// versions is a builder of images with an external source.
type versions struct {
	exec.Builder
	list []resources.Version
}

func (v *versions) Versions(context.Context, string, cty.Value, string) ([]resources.Version, error) {
	return v.list, nil
}

func TestWorkshopListsVersions(t *testing.T) {
	l := newLab(t, host, emulator.Options{})
	e, end := l.engine()
	defer end()
	w, err := reconcile.NewBuildService(t.Context(), e)
	testutil.Must(t, err)
	defer w.Close()
	if _, err := w.Versions(t.Context(), "debian"); !errors.Is(err, builders.ErrNoVersions) || len(w.VersionedImages()) > 0 {
		t.Errorf("images without a source: got %v and error %v, want none and ErrNoVersions", w.VersionedImages(), err)
	}
	if _, err := w.Versions(t.Context(), "unknown"); err == nil || errors.Is(err, builders.ErrNoVersions) {
		t.Errorf("an unknown image: got error %v", err)
	}
	e.Builders["exec"] = &versions{list: []resources.Version{{ID: "v1"}}}
	if got := w.VersionedImages(); !slices.Equal(got, []string{"broken", "debian"}) { // paused has no function
		t.Errorf("versioned images are %v", got)
	}
	if got, err := w.Versions(t.Context(), "debian"); err != nil || len(got) != 1 || got[0].ID != "v1" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := w.Build(t.Context(), builders.RemoteBuild{Image: "debian", BuildID: askedID, Version: "v1", Formats: []string{"raw"}}); err != nil {
		t.Fatal(err)
	}
	if b := l.theBuild(t); b.Version != "v1" {
		t.Errorf("the build has version %q, want v1", b.Version)
	}
}

func TestWorkshopFailsAndForgets(t *testing.T) {
	l := newLab(t, host, emulator.Options{})
	w, end := l.workshop(t)
	defer end()
	for _, image := range []string{"broken", "unknown"} {
		if _, err := w.Build(t.Context(), builders.RemoteBuild{Image: image, BuildID: askedID, Formats: []string{"raw"}}); err == nil {
			t.Errorf("%s was made", image)
		}
	}
	l.kept(t, w)
	if _, err := w.Upload(t.Context(), builders.UploadJob{BuildID: askedID, Provider: "one"}); err == nil {
		t.Error("a build that is not there was sent")
	}
}

func (l *lab) marked(t *testing.T, cloud string) []resources.OwnerTags {
	t.Helper()
	things, err := l.driver.Clouds[cloud].Inventory()
	testutil.Must(t, err)
	var marks []resources.OwnerTags
	for _, thing := range things {
		if thing.Metadata["npctl_installation"] != "" {
			marks = append(marks, resources.OwnerTags{Installation: thing.Metadata["npctl_installation"], ID: thing.Metadata["npctl_upload_id"]})
		}
	}
	return marks
}

func TestWorkshopSendsForOthers(t *testing.T) {
	l := newLab(t, host, emulator.Options{})
	w, end := l.workshop(t)
	if _, err := w.Build(t.Context(), builders.RemoteBuild{Image: "debian", BuildID: askedID, Formats: []string{"raw"}}); err != nil {
		t.Fatal(err)
	}
	marks := resources.OwnerTags{Installation: "theirs", Kind: resources.KindUpload, ID: "0000000042", Provider: "one"}
	sending := builders.UploadJob{BuildID: askedID, Image: "debian", Provider: "one", Format: "raw", Name: "debian-42", Marks: marks}
	first, err := w.Upload(t.Context(), sending)
	testutil.Must(t, err)
	again, err := w.Upload(t.Context(), sending)
	if err != nil || again != first {
		t.Errorf("sent again: %q, %v; want %q", again, err, first)
	}
	if got := l.marked(t, "one"); len(got) != 1 || got[0].Installation != "theirs" || got[0].ID != "0000000042" {
		t.Errorf("the cloud shows %+v", got)
	}
	if _, err := w.Upload(t.Context(), builders.UploadJob{BuildID: askedID, Image: "debian", Provider: "two"}); err != nil {
		t.Fatal(err)
	}
	if got := l.marked(t, "two"); len(got) != 1 || got[0].Installation == "theirs" {
		t.Errorf("without marks the cloud shows %+v", got)
	}
	end()
	if uploads := l.records(resources.KindUpload); len(uploads) > 0 {
		t.Errorf("%d uploads are in the state of a host that keeps none", len(uploads))
	}
}

func TestWorkshopKilledAnywhereLeavesNothingHalf(t *testing.T) {
	for at, died := 1, true; died; at++ {
		synctest.Test(t, func(t *testing.T) { died = dyingWorkshop(t, at) })
	}
}

func dyingWorkshop(t *testing.T, at int) (died bool) {
	l := newLab(t, host, emulator.Options{})
	l.kill.Revive(at)
	l.workAndDie(t)
	where, died := l.kill.Died()
	l.kill.Revive(0)
	w, end := l.workshop(t)
	kept, err := w.ListBuilds(t.Context())
	testutil.Must(t, err)
	end()
	left, _ := filepath.Glob(filepath.Join(l.dir, "images", "debian-*"))
	if len(left) != len(kept) {
		t.Errorf("killed at %s: kept %v, on the disk %v", where, kept, left)
	}
	if uploads := l.records(resources.KindUpload); len(uploads) > 0 {
		t.Errorf("killed at %s: an upload is still in the state", where)
	}
	if images := l.marked(t, "one"); len(images) > 0 && died && !strings.HasPrefix(where, "after commit upload") {
		t.Errorf("killed at %s: the cloud still shows %+v", where, images)
	}
	return died
}

// workAndDie builds and uploads an image until it is killed.
func (l *lab) workAndDie(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e, end := l.engine()
	defer end()
	w, err := reconcile.NewBuildService(ctx, e)
	if err != nil {
		return
	}
	defer w.Close()
	if _, err := w.Build(ctx, builders.RemoteBuild{Image: "debian", BuildID: askedID, Formats: []string{"raw"}}); err != nil {
		return
	}
	_, _ = w.Upload(ctx, builders.UploadJob{BuildID: askedID, Image: "debian", Provider: "one"})
}

// A build host with finished builds needs no cloud before the first upload.
func TestWorkshopStartsWithoutItsClouds(t *testing.T) {
	l := newLab(t, host, emulator.Options{})
	for range 2 {
		w, end := l.workshop(t)
		_, err := w.Build(t.Context(), builders.RemoteBuild{Image: "debian", BuildID: askedID, Formats: []string{"raw"}})
		testutil.Must(t, err)
		end()
	}
	for name, cloud := range l.driver.Clouds {
		if n := cloud.Calls()["total"]; n != 0 {
			t.Errorf("%d calls to %s: %v", n, name, cloud.Calls())
		}
	}
}

func TestWorkshopUsesAnotherConfiguration(t *testing.T) {
	l := newLab(t, host, emulator.Options{})
	e, end := l.engine()
	defer end()
	w, err := reconcile.NewBuildService(t.Context(), e)
	testutil.Must(t, err)
	defer w.Close()
	var phases sync.Map
	make := func(id string) []resources.ImageFile {
		files, err := w.Build(t.Context(), builders.RemoteBuild{Image: "debian", BuildID: id, Progress: func(string, int64, int64) { phases.Store(id, true) }})
		testutil.Must(t, err)
		return files
	}
	before := make(askedID)

	desired := e.Desired
	desired.Images = slices.Clone(desired.Images)
	for i := range desired.Images {
		if img := &desired.Images[i]; img.Name == "broken" || img.Name == "paused" {
			img.Pause = !img.Pause
		}
	}
	desired.Providers = slices.DeleteFunc(slices.Clone(desired.Providers), func(p resources.Provider) bool { return p.Name == "two" })
	testutil.Must(t, w.Use(t.Context(), e.With(desired)))
	if got := w.Images(); !slices.Equal(got, []string{"debian", "paused"}) {
		t.Errorf("images are %v", got)
	}
	if again := make(askedID); len(again) != 1 || again[0].Name != before[0].Name {
		t.Errorf("the build made before is %v, want %v", again, before)
	}
	make("1" + askedID[1:])
	if _, shown := phases.Load("1" + askedID[1:]); !shown {
		t.Error("the progress of a build under the new configuration is lost")
	}
	if _, err := w.Upload(t.Context(), builders.UploadJob{BuildID: askedID, Provider: "two"}); err == nil {
		t.Error("an image was sent to a provider that is not configured any more")
	}
	if _, err := w.Upload(t.Context(), builders.UploadJob{BuildID: askedID, Provider: "one"}); err != nil {
		t.Error(err)
	}
}

func TestProvidersWantFormatsByTheirUsualNames(t *testing.T) {
	formats := strings.Replace(strings.Replace(host, `"one" { image_format = "raw" }`, `"one" { image_format = "qcow" }`, 1),
		`"two" { image_format = "raw" }`, `"two" { image_format = "vpc" }`, 1)
	e, end := newLab(t, formats, emulator.Options{}).engine()
	defer end()
	if got := e.Formats(); got["one"] != "qcow2" || got["two"] != "vhd" {
		t.Errorf("the formats are %v, want qcow2 and vhd", got)
	}
}
