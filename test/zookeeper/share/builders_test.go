//go:build integration

package share

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// builderPair is two processes that build the same images, each one image at a time.
type builderPair struct {
	t     *testing.T
	zk    *lab.Lab
	a, b  *machine
	cloud *cloud
	dir   string // where builds record their start, and wait while a file named hold exists
}

var worksImages = []string{"alma", "bookworm", "centos", "devuan"}

func newBuilderPair(t *testing.T) *builderPair {
	zk := lab.Start(t, 1)
	w := &builderPair{t: t, zk: zk, cloud: newCloud(t, "one", quick), dir: t.TempDir()}
	w.a = newMachine(t, zk, "A", w.configuration(), w.cloud)
	w.b = newMachine(t, zk, "B", w.configuration(), w.cloud)
	w.a.options, w.b.options = []string{"-serve=images"}, []string{"-serve=images"}
	return w
}

func (w *builderPair) configuration() string {
	var images, offers strings.Builder
	for _, name := range worksImages {
		fmt.Fprintf(&images, "label %q {}\ndiskimage %q {\n  keep = 1\n  builder \"exec\" {\n    command = [\"sh\", \"-c\", %q]\n  }\n}\n", name, name,
			fmt.Sprintf(`echo "$NPCTL_IMAGE_NAME $NPCTL_OUTPUT_DIR" >>%s/begun; while [ -e %s/hold ]; do sleep 0.05; done; echo "$NPCTL_BUILD_ID" >"$NPCTL_OUTPUT.raw"`, w.dir, w.dir))
		fmt.Fprintf(&offers, "    label %q {\n      image  = diskimage.%s\n      flavor = \"small\"\n    }\n", name, name)
	}
	return images.String() + fmt.Sprintf(`
provider "openstack" "one" {
  cloud        = "emulator"
  rate         = 0
  image_format = "raw"
  pool "main" {
    networks = ["private"]
%s  }
}
`, offers.String())
}

// startedBuilds returns the builds that have started, each as image and machine.
func (w *builderPair) startedBuilds() (builds []string) {
	text, _ := os.ReadFile(filepath.Join(w.dir, "begun"))
	for line := range strings.Lines(string(text)) {
		image, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, m := range []*machine{w.a, w.b} {
			if strings.HasPrefix(dir, m.dir+"/") {
				builds = append(builds, image+" "+m.name)
			}
		}
	}
	return builds
}

func (w *builderPair) hold() (release func()) {
	path := filepath.Join(w.dir, "hold")
	testutil.Must(w.t, os.WriteFile(path, nil, 0o600))
	return func() { _ = os.Remove(path) }
}

// files returns the image files of a machine, without their extensions, by image.
func (w *builderPair) files(m *machine) map[string][]string {
	found, _ := filepath.Glob(filepath.Join(m.dir, "images", "*.raw"))
	files := map[string][]string{}
	for _, path := range found {
		name := strings.TrimSuffix(filepath.Base(path), ".raw")
		image := name[:strings.LastIndex(name, "-")]
		files[image] = append(files[image], name[len(image)+1:])
	}
	return files
}

// uploadedBuilds returns the builds in the cloud.
func (w *builderPair) uploadedBuilds() (builds []string) {
	things, err := w.cloud.Inventory()
	testutil.Must(w.t, err)
	for _, thing := range things {
		if id := thing.Metadata["npctl_build"]; thing.Type == "image" && id != "" && thing.Status == "active" {
			builds = append(builds, id)
		}
	}
	slices.Sort(builds)
	return builds
}

// awaitSettled waits until one build of each image is on disk and in the cloud, and checks that this does not change.
func (w *builderPair) awaitSettled(machines ...*machine) map[string][]string {
	w.t.Helper()
	state := func() (files map[string][]string, ids []string) {
		files = map[string][]string{}
		for _, m := range machines {
			for image, builds := range w.files(m) {
				files[image] = append(files[image], builds...)
				ids = append(ids, builds...)
			}
		}
		slices.Sort(ids)
		return files, ids
	}
	testutil.Await(w.t, "each image has one build, in the cloud too", func() bool {
		files, ids := state()
		return len(files) == len(worksImages) && len(ids) == len(worksImages) && slices.Equal(ids, w.uploadedBuilds())
	})
	begun := w.startedBuilds()
	time.Sleep(3 * time.Second) // several passes
	files, ids := state()
	if now := w.startedBuilds(); !slices.Equal(now, begun) || len(ids) != len(worksImages) || !slices.Equal(ids, w.uploadedBuilds()) {
		w.t.Fatalf("the result has changed: started builds were %v and are %v; files %v, in the cloud %v", begun, now, ids, w.uploadedBuilds())
	}
	return files
}

// buildOnBoth starts both processes and waits until each has built at least one image.
func (w *builderPair) buildOnBoth() {
	w.t.Helper()
	release := w.hold()
	w.a.start()
	w.b.start()
	testutil.Await(w.t, "two builds run", func() bool { return len(w.startedBuilds()) == 2 })
	time.Sleep(2 * time.Second)
	first := w.startedBuilds()
	slices.SortFunc(first, func(a, b string) int { return strings.Compare(a[len(a)-1:], b[len(b)-1:]) })
	if len(first) != 2 || !strings.HasSuffix(first[0], " A") || !strings.HasSuffix(first[1], " B") || first[0][:4] == first[1][:4] {
		w.t.Fatalf("builds that run are %v, want one at A and another at B", first)
	}
	release()
	w.awaitSettled(w.a, w.b)
}

func TestBuildersShareImages(t *testing.T) {
	t.Parallel()
	w := newBuilderPair(t)
	w.buildOnBoth()
	if begun := w.startedBuilds(); len(begun) != len(worksImages) {
		t.Fatalf("builds were %v, want one of each image", begun)
	}
	before := w.files(w.b)
	mine := slices.Sorted(maps.Keys(before))
	at := slices.Sorted(maps.Keys(w.files(w.a)))
	if len(mine) == 0 || len(at) == 0 {
		t.Fatalf("A built %v and B built %v", at, mine)
	}

	// Each process builds its own images again, whichever process receives the request; the test kills B, and A builds
	// the image that B was building.
	release := w.hold()
	w.a.mustRun("image", "build", mine[0], "-auto-approve")
	testutil.Await(t, "B makes its image again", func() bool { b := w.startedBuilds(); return b[len(b)-1] == mine[0]+" B" })
	w.b.Kill()
	testutil.Await(t, "A makes the image of B", func() bool { b := w.startedBuilds(); return b[len(b)-1] == mine[0]+" A" })
	release()
	testutil.Await(t, "A has uploaded it", func() bool {
		made := w.files(w.a)[mine[0]]
		return len(made) == 1 && slices.Contains(w.uploadedBuilds(), made[0])
	})
	for _, image := range mine[1:] {
		if now := w.files(w.b)[image]; !slices.Equal(now, before[image]) || !slices.Contains(w.uploadedBuilds(), now[0]) {
			t.Errorf("%s, which B built, was %v before B was killed and is %v", image, before[image], now)
		}
	}
	w.b.start()
	files := w.awaitSettled(w.a, w.b)
	if begun := w.startedBuilds(); len(begun) != len(worksImages)+2 {
		t.Errorf("started builds are %v; files are %v", begun, files)
	}
}

// TestCommandBuildsUnderItsImageLock runs the command beside npctl watch. Without the lock, the builder that
// returns in the meantime would manage the image and delete the build as unfinished.
func TestCommandBuildsUnderItsImageLock(t *testing.T) {
	t.Parallel()
	w := newBuilderPair(t)
	w.buildOnBoth()
	image := slices.Sorted(maps.Keys(w.files(w.b)))[0]
	begun := len(w.startedBuilds())
	w.b.Stop()

	release := w.hold()
	defer release()
	var out bytes.Buffer
	build := w.a.command("image", "build", image, "-auto-approve")
	build.Stdout, build.Stderr = &out, &out
	testutil.Must(t, build.Start())
	testutil.Await(t, "the command builds", func() bool { return len(w.startedBuilds()) == begun+1 })
	w.b.start()
	time.Sleep(3 * time.Second) // several passes of B
	release()
	if err := build.Wait(); err != nil {
		t.Fatalf("npctl image build: %v\n%s", err, out.Bytes())
	}
	if files := w.awaitSettled(w.a, w.b); len(w.startedBuilds()) != begun+1 || len(w.files(w.a)[image]) != 1 {
		t.Errorf("started builds are %v; files are %v", w.startedBuilds(), files)
	}

	third := newMachine(t, w.zk, "third", w.configuration(), w.cloud)
	refused, err := third.command("apply", "-auto-approve", "-replace=diskimage."+image).CombinedOutput()
	if err == nil || !strings.Contains(string(refused), "manages this image") {
		t.Errorf("apply on a third machine ended with %v and printed:\n%s", err, refused)
	}
	third.mustRun("image", "build", image, "-auto-approve")
	testutil.Await(t, "A builds the image that the third machine requests", func() bool { b := w.startedBuilds(); return len(b) == begun+2 && b[begun+1] == image+" A" })
	w.awaitSettled(w.a, w.b)
}
