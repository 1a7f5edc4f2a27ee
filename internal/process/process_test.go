package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
)

func sh(script string) Spec {
	return Spec{Args: []string{"sh", "-c", script}, Dir: "/", Env: BaseEnv(os.Environ()), Grace: 200 * time.Millisecond}
}

func TestOutputGoesToLogLinesAndError(t *testing.T) {
	var log bytes.Buffer
	var lines []string
	spec := sh(`echo one; echo two >&2; printf 'three\rfour'; exit 7`)
	spec.Log, spec.Line = &log, func(line string) { lines = append(lines, line) }
	err := Run(t.Context(), spec)
	if diff := cmp.Diff("one\ntwo\nthree\rfour\nExit code: 7\n", log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	want := []string{"one", "two", "three", "four"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 7 || !cmp.Equal(exit.Tail, want) {
		t.Errorf("error is %#v", err)
	}
	wantText := "sh ended with exit code 7; the last lines of its output:\n    one\n    two\n    three\n    four"
	if err.Error() != wantText {
		t.Errorf("error is %q, want %q", err, wantText)
	}
}

func TestProgramReadsItsInput(t *testing.T) {
	for input, script := range map[string]string{"a node\n": "cat", "": "cat", strings.Repeat("x", 1<<20): "exit 0"} { // the last one reads nothing
		spec := sh(script)
		var lines []string
		spec.Stdin, spec.Line = []byte(input), func(line string) { lines = append(lines, line) }
		if err := Run(t.Context(), spec); err != nil {
			t.Errorf("%s: %v", script, err)
		}
		if want := strings.TrimSpace(input); script == "cat" && strings.Join(lines, "\n") != want {
			t.Errorf("the program has read %q, want %q", lines, want)
		}
	}
}

func TestSilentFailureSaysSo(t *testing.T) {
	err := Run(t.Context(), sh("exit 1"))
	if want := "sh ended with exit code 1; it printed nothing"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %q", err, want)
	}
}

func TestSignalIsReported(t *testing.T) {
	err := Run(t.Context(), sh("kill -9 $$"))
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Signal != syscall.SIGKILL || !strings.Contains(err.Error(), "signal 9 (killed)") {
		t.Errorf("error is %v", err)
	}
}

func TestSIGTERMGoesOnlyToProcessGroupLeader(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	spec := sh(`
		trap 'touch leader-got-it; exit 0' TERM
		sh -c 'trap "touch child-got-it" TERM; touch ready; while :; do sleep 0.02; done' &
		wait`)
	spec.Dir, spec.Grace = dir, 20*time.Second
	done := make(chan error)
	go func() { done <- Run(ctx, spec) }()
	await := func(name string) {
		t.Helper()
		testutil.Await(t, name, func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil })
	}
	await("ready")
	cancel()
	err := <-done
	await("leader-got-it")
	var stopped *StoppedError
	if !errors.As(err, &stopped) || stopped.Killed || !errors.Is(err, context.Canceled) {
		t.Errorf("error is %#v, want a stop without a kill", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "child-got-it")); err == nil {
		t.Error("the child got the signal too: the leader's clean-up would lose its children")
	}
}

func TestLogThatCannotBeWrittenDoesNotStopTheProgram(t *testing.T) {
	dir := t.TempDir()
	spec := sh("head -c 1000000 /dev/zero; touch done; exit 1")
	spec.Dir, spec.Log = dir, fullLog{}
	err := Run(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "its log is incomplete: no space left on device") {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "done")); err != nil {
		t.Errorf("the program did not run to its end: %v", err)
	}
}

type fullLog struct{}

func (fullLog) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestLogLimitKeepsFirstAndLastLines(t *testing.T) {
	var log bytes.Buffer
	spec := sh(`for i in $(seq 1000); do echo "line $i"; done`)
	spec.Log, spec.LogLimit = &log, 100
	testutil.Must(t, Run(t.Context(), spec))
	text := log.String()
	for _, want := range []string{"line 1\n", "reached its limit of 100 bytes", "8793 bytes were omitted", "line 1000\nExit code: 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("log lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "line 500\n") {
		t.Error("log holds a line from the middle")
	}
}

func TestLineThatNeverEndsIsCut(t *testing.T) {
	var longest int
	spec := sh("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo after")
	spec.Line = func(line string) { longest = max(longest, len(line)) }
	testutil.Must(t, Run(t.Context(), spec))
	if longest != longestLine {
		t.Errorf("longest line has %d bytes, want %d", longest, longestLine)
	}
}

func TestReparentedDescendantsAreFound(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	spec := sh(fmt.Sprintf(`
		sleep 1000 & echo $! >> %[1]s
		setsid sleep 1001 & echo $! >> %[1]s
		env -i setsid sleep 1002 > /dev/null 2>&1 & echo $! >> %[1]s
		echo started; wait`, pids))
	ctx, cancel := context.WithCancel(t.Context())
	spec.Line = func(string) { cancel() }
	// The third process has neither the group nor the environment: only its parent links it to the run, while the
	// parent lives.
	if err := Run(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	text, err := os.ReadFile(pids)
	if err != nil || strings.Count(string(text), "\n") != 3 {
		t.Fatalf("processes %q, %v", text, err)
	}
	for _, field := range strings.Fields(string(text)) {
		var pid int
		_, _ = fmt.Sscan(field, &pid)
		if _, alive := StartTime(pid); alive {
			t.Errorf("process %d is alive", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func TestKillIgnoresProcessWithReusedID(t *testing.T) {
	started := make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	spec := sh("exec sleep 1000")
	spec.RunID = "run-of-the-test"
	spec.Started = func(pid int) { started <- pid }
	done := make(chan error)
	go func() { done <- Run(ctx, spec) }()
	pid := <-started
	for range 10000 { // while sh executes sleep, the process has no readable environment
		if running, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.HasPrefix(running, []byte("sleep")) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	now, _ := StartTime(pid)
	Kill(pid, now+1, "another-run")
	if _, alive := StartTime(pid); !alive {
		t.Error("a stranger was killed")
	}
	Kill(0, 0, spec.RunID)
	var exit *ExitError
	if err := <-done; !errors.As(err, &exit) || exit.Signal != syscall.SIGKILL {
		t.Errorf("a process with the run's id was not killed: %v", err)
	}
	cancel()
}

func TestNothingRunsAfterTheContext(t *testing.T) {
	ctx, cancel := WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	err := Run(ctx, sh("exit 0"))
	if want := "sh was not started: timeout after 1ns: context deadline exceeded"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %q", err, want)
	}
}
