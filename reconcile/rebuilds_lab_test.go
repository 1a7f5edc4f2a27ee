package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/qemuimg/qemuimgtest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/test/kill"
)

// rebuilt is the configuration of an image for two clouds that need different formats. The mood file controls its build
// script.
const rebuilt = `
npctl {
  images_dir = "images"
  leak_age   = "30s"
}

diskimage "debian" {
  builder "exec" {
    command      = ["sh", "build.sh"]
    formats      = ["qcow2"]
    env          = { EDITION = "0" }
    stop_timeout = "200ms"
  }
  build_timeout       = "1h"
  rebuild_age         = "24h"
  keep                = 2
  delete_after_upload = false
}

label "small" {}

provider "lab" "one" {
  image_format   = "raw"
  upload_timeout = "10m"
  pool "main" {
    networks = ["private"]
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}

provider "lab" "two" {
  image_format   = "qcow2"
  upload_timeout = "10m"
  pool "main" {
    networks = ["private"]
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

// buildScript creates the image. The word in the file mood selects a failure that occurs once; the script records it in
// the file hits.
const buildScript = `
mood=$(cat mood 2>/dev/null)
rm -f mood
[ -z "$mood" ] || echo "$mood" >>hits
case $mood in
fails) echo "no such mirror" >&2; exit 3 ;;
hangs) exec sleep 1000 ;;
deaf) trap '' TERM; sleep 1000; sleep 1000; exit 0 ;;
nothing) exit 0 ;;
empty) : >"$NPCTL_OUTPUT.qcow2"; exit 0 ;;
html) echo '<!DOCTYPE html><title>Not found</title>' >"$NPCTL_OUTPUT.qcow2"; exit 0 ;;
no-space) cat good.qcow2 good.qcow2 >/dev/full || exit 4 ;;
full-disk) fallocate -l 1G "$NPCTL_OUTPUT.qcow2" || exit 4 ;;
esac
cp good.qcow2 "$NPCTL_OUTPUT.qcow2"
case $mood in
corrupt) cp corrupt.qcow2 "$NPCTL_OUTPUT.qcow2" ;;
crowds) fallocate -l "$(($(stat -f -c '%a * %S' .  "$NPCTL_OUTPUT_DIR" | tail -n 1) - 600000))" "$NPCTL_OUTPUT_DIR/filler" ;;
esac
echo "built $NPCTL_BUILD_ID" >>built
`

// qemuImg replaces the program qemu-img. The word in the file qemu-mood selects a failure that occurs once, such as
// that of a full disk, a quota or a crash; qemuImg records it in the file hits.
func (r *rebuildLab) qemuImg(ctx context.Context, spec process.Spec) error {
	mood := r.read("qemu-mood")
	if spec.Args[1] != "convert" || mood == "" {
		return qemuimgtest.Run(ctx, spec)
	}
	if mood == "together" {
		r.meeting.begin(ctx)
		return qemuimgtest.Run(ctx, spec)
	}
	r.file("qemu-mood", "")
	r.file("hits", r.read("hits")+mood+"\n")
	switch mood {
	case "file-too-large":
		return qemuimgtest.End(spec, strings.NewReader("qemu-img: error while writing: File too large\n"), 1, 0)
	case "crashes":
		return qemuimgtest.End(spec, strings.NewReader(""), -1, syscall.SIGSEGV)
	case "half":
		r.overwrite(spec.Args[len(spec.Args)-1], "half")
		return qemuimgtest.End(spec, strings.NewReader(""), 1, 0)
	default:
		return fmt.Errorf("%q is no mood of qemu-img", mood)
	}
}

// meeting blocks the first caller of begin until a second one calls, or ten simulated seconds have passed.
type meeting struct {
	begun  atomic.Int32
	second chan struct{} // closed at the second call
}

func (m *meeting) begin(ctx context.Context) {
	if m.begun.Add(1) == 2 {
		close(m.second)
	}
	select {
	case <-m.second:
	case <-time.After(testutil.Patience):
	case <-ctx.Done():
	}
}

// rebuildLab is a lab for rebuilds that fail.
type rebuildLab struct {
	*lab
	watch   *watch
	mill    *mill
	meeting meeting // of two conversions
	small   bool    // the images directory is on a small file system of its own
	builds  int     // builds at a time

	mu     sync.Mutex // guards tamper and seen
	tamper *tamper
	seen   map[string]int // faults of the clouds that have occurred
}

// rebuiltWith returns the configuration with the number of kept builds and delete_after_upload.
func rebuiltWith(keep int, deleted bool) string {
	return strings.NewReplacer("keep                = 2", fmt.Sprintf("keep = %d", keep),
		"delete_after_upload = false", fmt.Sprintf("delete_after_upload = %t", deleted)).Replace(rebuilt)
}

func newRebuildLab(t *testing.T, m *mill, config string) *rebuildLab {
	t.Helper()
	r := &rebuildLab{mill: m, meeting: meeting{second: make(chan struct{})}, seen: map[string]int{}}
	log := slog.New(faultLog{slog.DiscardHandler, r})
	r.lab = newLab(t, config, emulator.Options{ImageTime: 3 * time.Second, Log: log,
		Foreign: []emulator.ForeignServer{{Name: "np0000000001"}}})
	r.watch = &watch{lab: r.lab, turn: make(chan struct{}, 1), had: map[string]bool{}}
	r.file("build.sh", buildScript)
	r.images()
	return r
}

// file writes a file to the directory of the configuration.
func (r *rebuildLab) file(name, text string) {
	r.t.Helper()
	r.overwrite(filepath.Join(r.dir, name), text)
}

func (r *rebuildLab) overwrite(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // G306: scripts
		r.t.Fatal(err)
	}
}

// images creates the image of every successful build, and a damaged one.
func (r *rebuildLab) images() {
	r.t.Helper()
	content := make([]byte, 1<<20)
	for i := range content {
		content[i] = byte(i / 7)
	}
	good := qemuimgtest.Qcow2(content)
	r.file("good.qcow2", string(good))
	good[len(good)/2]++
	r.file("corrupt.qcow2", string(good))
}

// engine starts a new engine that the watch observes.
func (r *rebuildLab) engine() (*reconcile.Engine, func()) {
	r.t.Helper()
	e, end := r.lab.engine()
	store := e.Store.(kill.Store)
	r.watch.store = store.Store
	e.Store = watchedStore{store, r.watch}
	e.Builds = r.builds
	e.RunQemuImg = r.qemuImg
	e.Builders["exec"] = outside{&exec.Builder{}, r}
	e.WrapTransport = func(inner http.RoundTripper) http.RoundTripper {
		return r.watch.transport(r.kill.Transport(r.tampering(inner), changes))
	}
	return e, func() {
		r.watch.look("at the end")
		r.watch.store = nil
		end()
	}
}

// run executes one `npctl apply` or, with opt.HonorBackoff, one pass of a daemon.
func (r *rebuildLab) run(ctx context.Context, opt plan.Options) (plan.Plan, error) {
	r.t.Helper()
	r.kill.Revive(0)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.watch.interrupt = cancel
	e, end := r.engine()
	defer end()
	p, _, err := kill.Apply(ctx, e, opt)
	return p, err
}

// mill runs builders outside of synctest bubbles, in real time: the timeout of a hanging program needs a clock that
// advances, and the clock of a bubble stands still while a program runs. It must be created outside of bubbles and runs
// until the test ends.
type mill struct {
	jobs    chan func()
	grounds chan struct{}
}

func newMill(t *testing.T) *mill {
	m := &mill{jobs: make(chan func()), grounds: make(chan struct{})}
	var turning sync.WaitGroup
	turning.Go(func() {
		for job := range m.jobs {
			job()
			m.grounds <- struct{}{}
		}
	})
	t.Cleanup(func() {
		close(m.jobs)
		turning.Wait()
	})
	return m
}

// do runs a job and waits for its end. It runs one job at a time.
func (m *mill) do(job func()) {
	m.jobs <- job
	<-m.grounds
}

// outside is the exec builder, run by the mill.
type outside struct {
	*exec.Builder
	lab *rebuildLab
}

// hangTimeout is the build timeout of a build that should hang.
const hangTimeout = 300 * time.Millisecond

// Build implements builders.Builder. Only a build that should hang gets a short timeout, so that other builds succeed
// on a slow machine.
func (o outside) Build(ctx context.Context, job builders.Job, log io.Writer) (made builders.Artifact, err error) {
	if ctx.Err() != nil {
		return made, context.Cause(ctx)
	}
	if job.Timeout != time.Hour {
		return made, fmt.Errorf("the build may take %s, and build_timeout is 1h", job.Timeout)
	}
	mood, _ := os.ReadFile(filepath.Join(o.lab.dir, "mood"))
	if m := string(mood); m == "hangs" || m == "deaf" {
		job.Timeout = hangTimeout
	}
	job.Progress = nil // it would access the bubble from outside
	o.lab.mill.do(func() { made, err = o.Builder.Build(context.Background(), job, log) })
	return made, err
}

// faultLog records which faults of the clouds have occurred.
type faultLog struct {
	slog.Handler
	lab *rebuildLab
}

// Enabled implements slog.Handler.
func (faultLog) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelDebug }

// Handle implements slog.Handler.
func (f faultLog) Handle(_ context.Context, record slog.Record) error {
	if record.Message != "emulator fault" {
		return nil
	}
	f.lab.mu.Lock()
	defer f.lab.mu.Unlock()
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "operation" {
			f.lab.seen[a.Value.String()]++
		}
		return true
	})
	return nil
}

// watchedStore lets the watch check the state after each commit and before the next one.
type watchedStore struct {
	kill.Store
	watch *watch
}

// Commit implements state.Store.
func (s watchedStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	s.watch.turn <- struct{}{}
	defer func() { <-s.watch.turn }()
	entries, err := s.Store.Commit(ctx, ops...)
	s.watch.check("after a commit of" + kill.KeysOf(ops))
	return entries, err
}

var errTampered = errors.New("connection reset by peer")
