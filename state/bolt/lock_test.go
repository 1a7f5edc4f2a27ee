package bolt

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

func store(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(Options{Path: path, Version: "0.2.0"})
	testutil.Must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func tempPath(t *testing.T) string { return filepath.Join(t.TempDir(), "npctl.db") }

func TestOnlyProvablyDeadHoldersAreDead(t *testing.T) {
	self := thisProcess()
	if self.Started == "" || self.Boot == "" || self.Space == "" {
		t.Fatalf("this process has incomplete data: %+v", self)
	}
	alive := lockRecord{Holder: state.Holder{Host: self.Host, PID: self.PID, Started: self.Started}, hostIdentity: self.hostIdentity}
	for name, test := range map[string]struct {
		change func(*lockRecord)
		want   string
	}{
		"alive":                             {func(*lockRecord) {}, ""},
		"alive, start unknown":              {func(r *lockRecord) { r.Started = "" }, ""},
		"gone":                              {func(r *lockRecord) { r.PID = deadPID(t) }, "its process has ended"},
		"pid used again":                    {func(r *lockRecord) { r.Started = "1" }, "its process has ended and its PID is in use again"},
		"machine restarted":                 {func(r *lockRecord) { r.Boot = "before" }, "its machine has restarted since"},
		"another machine of the same name":  {func(r *lockRecord) { r.Boot, r.Machine = "other", "other" }, ""},
		"nameless machine":                  {func(r *lockRecord) { r.Boot, r.Machine = "other", "" }, ""},
		"another container":                 {func(r *lockRecord) { r.Space, r.PID = "pid:[1]", deadPID(t) }, ""},
		"another host":                      {func(r *lockRecord) { r.Host, r.PID = "elsewhere", deadPID(t) }, ""},
		"recorded by an unknowing process":  {func(r *lockRecord) { r.hostIdentity, r.PID = hostIdentity{}, deadPID(t) }, ""},
		"no pid":                            {func(r *lockRecord) { r.PID = 0 }, ""},
		"gone, and would be on another pid": {func(r *lockRecord) { r.PID, r.Started = deadPID(t), "" }, "its process has ended"},
	} {
		record := alive
		test.change(&record)
		if self.Machine == "" && strings.Contains(test.want, "machine") {
			test.want = ""
		}
		if got := self.whyDead(record); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// deadPID returns the PID of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	testutil.Must(t, cmd.Run())
	return cmd.Process.Pid
}

func TestDeadHoldersLockIsTakenOver(t *testing.T) {
	path := tempPath(t)
	var log bytes.Buffer
	s, err := Open(Options{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	testutil.Must(t, err)
	defer s.Close()
	pid := deadPID(t)
	dead, err := s.Lock(t.Context(), "apply", state.Holder{Operation: "destroy", UserHost: "ann@here", PID: pid})
	testutil.Must(t, err)
	next, err := store(t, path).Lock(t.Context(), "apply", state.Holder{Operation: "apply"})
	if err != nil {
		t.Fatalf("the lock of a dead process was not taken over: %v", err)
	}
	if _, err := s.Commit(t.Context(), state.Op{Record: &resources.History{Subject: "x"}}); !errors.Is(err, state.ErrLost) {
		t.Errorf("commit of who lost the lock: %v", err)
	}
	again, err := s.Lock(t.Context(), "apply", state.Holder{})
	if again != nil || !errors.Is(err, state.ErrLocked) {
		t.Errorf("lock of a living process: %v, %v", again, err)
	}
	if dead.ID() == next.ID() {
		t.Error("the new lock has the old id")
	}
}

func TestLockTakeoverIsLogged(t *testing.T) {
	path := tempPath(t)
	if _, err := store(t, path).Lock(t.Context(), "apply", state.Holder{Operation: "destroy", UserHost: "ann@here", PID: deadPID(t)}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := Open(Options{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	testutil.Must(t, err)
	defer s.Close()
	if _, err := s.Lock(t.Context(), "apply", state.Holder{}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"lock taken over", "process has ended", "ann@here", "destroy"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log does not say %q: %s", part, log.String())
		}
	}
}

func TestHolderHasDefaults(t *testing.T) {
	s := store(t, tempPath(t))
	if h, err := s.Holder(t.Context(), "apply"); h != nil || err != nil {
		t.Errorf("holder of a free lock: %v, %v", h, err)
	}
	l, err := s.Lock(t.Context(), "apply", state.Holder{Operation: "apply"})
	testutil.Must(t, err)
	got, err := s.Holder(t.Context(), "apply")
	testutil.Must(t, err)
	self := thisProcess()
	want := &state.Holder{ID: l.ID(), Operation: "apply", UserHost: state.Self(self.Host, "").UserHost, Host: self.Host, PID: os.Getpid(),
		Started: self.Started, Since: got.Since, Version: "0.2.0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if age := time.Since(got.Since); age < 0 || age > time.Minute {
		t.Errorf("held since %s", got.Since)
	}
}

func TestForceUnlock(t *testing.T) {
	s := store(t, tempPath(t))
	if _, err := s.ForceUnlock(t.Context(), "x"); !errors.Is(err, state.ErrNotFound) || !strings.Contains(err.Error(), "no lock is held") {
		t.Errorf("nothing locked: %v", err)
	}
	l, err := s.Lock(t.Context(), "apply", state.Holder{Operation: "apply", UserHost: "ann@elsewhere"})
	testutil.Must(t, err)
	_, err = s.ForceUnlock(t.Context(), "x")
	for _, part := range []string{`"x"`, l.ID(), "ann@elsewhere", "apply"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error for a wrong id does not say %q: %v", part, err)
		}
	}
	h, err := s.ForceUnlock(t.Context(), l.ID())
	if err != nil || h.UserHost != "ann@elsewhere" {
		t.Errorf("%v, %v", h, err)
	}
	if h, err := s.Holder(t.Context(), "apply"); h != nil || err != nil {
		t.Errorf("after force-unlock: %v, %v", h, err)
	}
}

func TestLockIsLostWithItsFile(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			s, err := Open(Options{Path: path + ".other"})
			if err != nil {
				return err
			}
			s.Close()
			return os.Rename(path+".other", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := tempPath(t)
			s, err := Open(Options{Path: path})
			testutil.Must(t, err)
			s.lostEvery = 10 * time.Millisecond
			l, err := s.Lock(t.Context(), "apply", state.Holder{})
			testutil.Must(t, err)
			testutil.Must(t, remove(path))
			select {
			case <-l.Lost():
			case <-time.After(testutil.Patience):
				t.Error("the loss was not detected")
			}
			if _, err := s.Commit(t.Context(), state.Op{Record: &resources.History{Subject: "x"}}); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("commit without the file: %v", err)
			}
			if _, err := os.Stat(path); name == "removed" && err == nil {
				t.Error("the file was recreated while npctl ran")
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}
