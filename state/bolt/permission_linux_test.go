package bolt

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/statetest"
)

// asSomebody runs fn without the rights of root, if the test has them. It uses a separate thread with another file
// system user, which ends with fn.
func asSomebody(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 {
			runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
			if err := unix.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		fn()
	}()
	<-done
}

// reachable returns a directory that all users can enter.
func reachable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		testutil.Must(t, os.Chmod(d, 0o755))
	}
	return dir
}

func denied(t *testing.T, err error, path string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "as the user who owns") {
		t.Errorf("%v, want an error that says what is not permitted, where, and what to do", err)
	}
}

func TestUnreadableFile(t *testing.T) {
	path := filepath.Join(reachable(t), "npctl.db")
	store(t, path)
	testutil.Must(t, os.Chmod(path, 0))
	asSomebody(t, func() {
		for _, readOnly := range []bool{true, false} {
			_, err := Open(Options{Path: path, ReadOnly: readOnly})
			denied(t, err, path)
		}
	})
}

func TestReadOnlyFileCanBeRead(t *testing.T) {
	path := filepath.Join(reachable(t), "npctl.db")
	add(t, store(t, path), statetest.Node(1))
	testutil.Must(t, os.Chmod(path, 0o444))
	asSomebody(t, func() {
		s, err := Open(Options{Path: path})
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		if got := records(t, s); len(got) != 1 {
			t.Errorf("%d records, want 1", len(got))
		}
		_, err = s.Commit(t.Context(), state.Op{Record: statetest.Node(2)})
		denied(t, err, path)
		_, err = s.Lock(t.Context(), "apply", state.Holder{})
		denied(t, err, path)
	})
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := reachable(t)
	for _, d := range []string{dir} {
		testutil.Must(t, os.Chmod(d, 0o555))
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	asSomebody(t, func() {
		for _, path := range []string{filepath.Join(dir, "npctl.db"), filepath.Join(dir, "sub", "npctl.db")} {
			_, err := Open(Options{Path: path})
			denied(t, err, path)
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
