package bolt_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state/statetest"
)

// TestKilledProcessLosesNothing checks that a process that is killed at any moment loses no acknowledged commit and
// leaves no partial one, and that the next process takes over its lock. The file is on a disk, if /var/tmp is: the
// temporary files of other tests are in memory, where possible.
func TestKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	const kills = 20
	path := filepath.Join(diskDir(t), "npctl.db")
	var reached int64
	for range kills {
		printed := runAndKill(t, path, time.Duration(rand.Int64N(int64(50*time.Millisecond))))
		s := open(t, path)
		number, err := statetest.CrashCheck(t.Context(), s, printed)
		testutil.Must(t, err)
		if number < reached {
			t.Fatalf("commit %d was there, the newest now is %d", reached, number)
		}
		reached = number
	}
	if reached < kills {
		t.Fatalf("%d commits before %d kills: the processes wrote too little", reached, kills)
	}
	t.Logf("%d commits, %d kills", reached, kills)
}

// diskDir returns a temporary directory in /var/tmp, which survives a restart of the machine, where that exists.
func diskDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "npctl-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// runAndKill kills a process some time after its first commit and returns its output.
func runAndKill(t *testing.T, path string, after time.Duration) io.Reader {
	t.Helper()
	cmd := child(t, "write", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	testutil.Must(t, err)
	testutil.Must(t, cmd.Start())
	first := make([]byte, 1)
	if _, err := io.ReadFull(stdout, first); err != nil {
		_ = cmd.Wait()
		t.Fatalf("the process made no commit: %v: %s", err, stderr.String())
	}
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	rest, err := io.ReadAll(stdout)
	testutil.Must(t, err)
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process was not killed: %v: %s", err, stderr.String())
	}
	printed := slices.Concat(first, rest)
	// The kill may truncate the last line. A number that was not printed completely was not acknowledged.
	return bytes.NewReader(printed[:bytes.LastIndexByte(printed, '\n')+1])
}

// TestFullDiskLosesNothing checks that a commit fails with the reason when the file cannot grow, and that all earlier
// commits remain.
func TestFullDiskLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "npctl.db")
	open(t, path)
	var stdout, stderr bytes.Buffer
	cmd := child(t, "fill", path, limitVariable+"=200000")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err == nil {
		t.Fatal("the process ended without an error")
	}
	for _, part := range []string{path, "nothing was changed", "file too large"} {
		if !strings.Contains(stderr.String(), part) {
			t.Errorf("the error does not say %q: %s", part, stderr.String())
		}
	}
	s := open(t, path)
	entries, err := s.List(t.Context(), resources.KindNode)
	testutil.Must(t, err)
	ids := strings.Fields(stdout.String())
	if len(ids) == 0 || len(entries) != len(ids) {
		t.Errorf("%d nodes were acknowledged, %d are there", len(ids), len(entries))
	}
	if _, err := s.Commit(t.Context(), opFor(entries[0])); err != nil {
		t.Errorf("commit after there is room again: %v", err)
	}
}
