package buildertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/mounts"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/testutil"
)

// checkNothingLeft checks that no process that the tool recorded is alive, and that nothing is mounted or attached.
func (r *run) checkNothingLeft(t *testing.T, atLeast int) {
	t.Helper()
	pids := r.pids(t)
	if len(pids) < atLeast {
		t.Errorf("the tool noted processes %v, want %d at least: the test tests nothing", pids, atLeast)
	}
	for _, pid := range pids {
		if _, alive := process.StartTime(pid); alive {
			t.Errorf("process %d outlives the build", pid)
			if hanging, err := os.FindProcess(pid); err == nil {
				_ = hanging.Kill()
			}
		}
	}
	points, err := mounts.Below(r.job.Dir)
	if err != nil || len(points) > 0 {
		t.Errorf("mounted after the build: %v, %v", points, err)
	}
	loops, err := mounts.Loops(r.job.Dir)
	if err != nil || len(loops) > 0 {
		t.Errorf("loop devices after the build: %v, %v", loops, err)
	}
	if _, err := os.Lstat(filepath.Join(r.job.Dir, "scratch")); err == nil {
		t.Errorf("the scratch directory is still in %s", r.job.Dir)
	}
}

// noted is the file in which the tool notes its processes.
func (r *run) noted() string { return filepath.Join(r.job.Dir, r.job.Name+".pids") }

// begun reports whether the tool has noted that many processes.
func (r *run) begun(processes int) bool {
	text, _ := os.ReadFile(r.noted())
	return strings.Count(string(text), "\n") >= processes
}

func (r *run) pids(t *testing.T) []int {
	t.Helper()
	text, err := os.ReadFile(r.noted())
	if err != nil {
		t.Fatalf("the tool noted no processes: %v\nlog:\n%s", err, r.log)
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		testutil.Must(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// cancelled starts a build and cancels its context.
func (h Harness) cancelled(t *testing.T, mode string) *run {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := h.job(t, mode)
	wait := r.start(ctx, t, h.New())
	cancel(errStop)
	wait()
	r.mustFail(t, errStop.Error())
	if !errors.Is(r.err, errStop) {
		t.Errorf("error is %v, which does not wrap the context's cause", r.err)
	}
	return r
}

var errStop = errors.New("the operator pressed ^C")

func cancelLeavesNothing(t *testing.T, h Harness) {
	h.cancelled(t, "hang").checkNothingLeft(t, 2)
}

// timeoutLeavesNothing repeats the build with a longer timeout while the tool had not begun when the timeout was over.
func timeoutLeavesNothing(t *testing.T, h Harness) {
	var r *run
	for timeout := 500 * time.Millisecond; r == nil || !r.begun(2) && timeout < testutil.Patience; timeout *= 4 {
		r = h.job(t, "hang")
		r.job.Timeout = timeout
		r.build(t.Context(), t, h.New()).mustFail(t, "timeout after "+timeout.String())
	}
	if !errors.Is(r.err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want it to wrap context.DeadlineExceeded", r.err)
	}
	r.checkNothingLeft(t, 2)
}

func ignoresTerm(t *testing.T, h Harness) {
	r := h.cancelled(t, "ignore")
	r.mustFail(t, "was killed")
	r.checkNothingLeft(t, 3)
}

func cleansUp(t *testing.T, h Harness) {
	r := h.cancelled(t, "cleanup")
	if _, err := os.Stat(filepath.Join(r.job.Dir, r.job.Name+".cleaned")); err != nil {
		t.Errorf("the tool's trap did not run: %v\nlog:\n%s", err, r.log)
	}
	if _, err := os.Stat(filepath.Join(r.job.Dir, r.job.Name+".signalled")); err == nil {
		t.Error("the tool's child got the signal too")
	}
	if !strings.Contains(r.log.String(), "tool: cleaned up") {
		t.Errorf("the output of the trap is not in the log:\n%s", r.log)
	}
	r.checkNothingLeft(t, 2)
}

func lingering(t *testing.T, h Harness) {
	r := h.job(t, "linger").build(t.Context(), t, h.New())
	r.mustSucceed(t)
	r.checkFiles(t)
	r.checkNothingLeft(t, 2)
}

func mountsAreRemoved(t *testing.T, h Harness) {
	if !canMount(t) {
		t.Skip("mounting is not allowed here, and not in a tool either")
	}
	r := h.cancelled(t, "mount")
	r.checkNothingLeft(t, 2)
	if _, err := os.Stat(filepath.Join(r.job.Dir, r.job.Name+".host", "precious")); err != nil {
		t.Errorf("files bound into the tree were deleted through the mount: %v", err)
	}
}

// canMount attempts to mount: root in a container often cannot.
func canMount(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 || exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "none", dir).Run() != nil {
		t.Log("mounting is not allowed here")
		return false
	}
	testutil.Must(t, exec.CommandContext(t.Context(), "umount", dir).Run())
	return true
}

func fullDisk(t *testing.T, h Harness) {
	mode := "limited" // the closest to a full disk without root
	if canMount(t) {
		mode = "fill"
	}
	r := h.job(t, mode)
	if mode == "fill" {
		testutil.Must(t, exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=1m", "none", r.job.Dir).Run())
		t.Cleanup(func() { // after the test's own context has ended
			_ = exec.CommandContext(context.WithoutCancel(t.Context()), "umount", r.job.Dir).Run()
		})
	}
	r.build(t.Context(), t, h.New()).mustFail(t)
}

// victimVariable makes a test process run one build in that directory and hang in it until it is killed.
const victimVariable = "NPCTL_BUILDERTEST_VICTIM"

func (h Harness) beVictim(t *testing.T, images string) {
	r := h.jobIn(t, images, "img-1", "ignore")
	_, err := h.New().Build(t.Context(), r.job, r.log)
	t.Fatalf("the interrupted build ended: %v", err)
}

func sweepAfterKill(t *testing.T, h Harness) {
	b, ok := h.New().(builders.Sweeper)
	if !ok {
		t.Skip("the builder leaves nothing to sweep")
	}
	images := t.TempDir()
	top, _, _ := strings.Cut(t.Name(), "/")
	victim := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+top+"$")
	victim.Env = append(os.Environ(), victimVariable+"="+images)
	testutil.Must(t, victim.Start())
	r := &run{log: &log{}, job: builders.Job{Dir: filepath.Join(images, "img-1"), Name: "img-1"}}
	testutil.Await(t, "the tool of the interrupted build", func() bool { return r.begun(3) })
	_ = victim.Process.Kill()
	_ = victim.Wait()
	for range 2 {
		if err := b.Sweep(t.Context(), images); err != nil {
			t.Errorf("sweep: %v", err)
		}
	}
	r.checkNothingLeft(t, 3)
	if err := b.Sweep(t.Context(), filepath.Join(images, "nothing")); err != nil {
		t.Errorf("sweep of a directory that does not exist: %v", err)
	}
}

func sweepSparesLiving(t *testing.T, h Harness) {
	b := h.New()
	sweeper, ok := b.(builders.Sweeper)
	if !ok {
		t.Skip("the builder leaves nothing to sweep")
	}
	r := h.job(t, "slow")
	wait := r.start(t.Context(), t, b)
	if err := sweeper.Sweep(t.Context(), filepath.Dir(r.job.Dir)); err != nil {
		t.Errorf("sweep: %v", err)
	}
	testutil.Must(t, os.WriteFile(filepath.Join(r.job.Dir, r.job.Name+".go"), nil, 0o600))
	wait()
	r.mustSucceed(t)
	r.checkFiles(t)
}
