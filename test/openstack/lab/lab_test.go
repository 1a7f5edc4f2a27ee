package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

// workDir creates a work directory like that of up.sh, with source as the directory of the scripts.
func workDir(t *testing.T, source string) *Lab {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "source"), source+"\n", 0o644)
	testutil.Must(t, os.Mkdir(filepath.Join(dir, "run"), 0o755))
	t.Setenv(EnvWork, dir)
	l, err := Find()
	testutil.Must(t, err)
	return l
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	testutil.Must(t, os.WriteFile(path, []byte(content), mode))
}

func TestFindWithoutLabReturnsHint(t *testing.T) {
	t.Setenv(EnvWork, filepath.Join(t.TempDir(), "none"))
	_, err := Find()
	if !errors.Is(err, ErrNoLab) || !strings.Contains(err.Error(), "up.sh") {
		t.Errorf("Find() = %v, want an ErrNoLab that names up.sh", err)
	}
}

func TestFindUsesDefaultDirectory(t *testing.T) {
	l := workDir(t, "/src")
	t.Setenv(EnvWork, "")
	t.Setenv("TMPDIR", filepath.Dir(l.Dir()))
	testutil.Must(t, os.Rename(l.Dir(), filepath.Join(filepath.Dir(l.Dir()), "npctl-openstack")))
	found, err := Find()
	if err != nil || filepath.Base(found.CloudsYAML()) != "clouds.yaml" {
		t.Errorf("Find() = %+v, %v", found, err)
	}
}

func TestFaultsHaveTheFormatOfTheLab(t *testing.T) {
	l := workDir(t, "/src")
	rule := Rule{On: Spawn, Action: Delay, Name: "x-*", For: 1500 * time.Millisecond, Times: 2}
	testutil.Must(t, l.Faults(rule, rule))
	rules := readRules(t, l)
	if len(rules) != 2 || rules[0]["id"] == rules[1]["id"] {
		t.Fatalf("rules = %v, want two with ids of their own", rules)
	}
	delete(rules[0], "id")
	want := "map[action:delay name:x-* on:spawn seconds:1.5 times:2]"
	if got := fmt.Sprint(rules[0]); got != want {
		t.Errorf("rule = %s, want %s", got, want)
	}
	testutil.Must(t, l.Clear())
	if rules := readRules(t, l); len(rules) != 0 {
		t.Errorf("after Clear: %v", rules)
	}
}

func TestUnusedRulesAreReturned(t *testing.T) {
	l := workDir(t, "/src")
	slow := Rule{On: Destroy, Action: Delay, Name: "x-*", For: 1500 * time.Millisecond}
	testutil.Must(t, l.Faults(Rule{On: Spawn, Times: 1}, slow))
	used := fmt.Sprintf("1-1\n%s\n", readRules(t, l)[0]["id"])
	write(t, filepath.Join(l.Dir(), "faults.json.used"), used, 0o644)
	if unused, err := l.Unused(); err != nil || len(unused) != 1 || unused[0] != slow {
		t.Errorf("Unused() = %+v, %v, want %+v", unused, err, slow)
	}
	testutil.Must(t, l.Clear())
	if unused, err := l.Unused(); err != nil || len(unused) != 0 {
		t.Errorf("after Clear: Unused() = %+v, %v", unused, err)
	}
}

func readRules(t *testing.T, l *Lab) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.Dir(), "faults.json"))
	testutil.Must(t, err)
	rules := []map[string]any{}
	if err := json.Unmarshal(text, &rules); err != nil || rules == nil {
		t.Fatalf("%s: %v", text, err)
	}
	return rules
}

func TestPausedServiceContinuesAfterResume(t *testing.T) {
	l := workDir(t, "/src")
	pid := service(t, l, "glance")
	resume, err := l.Pause("glance")
	testutil.Must(t, err)
	waitForState(t, pid, "T")
	for range 2 { // t.Cleanup and the test itself may both resume
		if err := resume(); err != nil {
			t.Error(err)
		}
	}
	waitForState(t, pid, "S")
}

func TestFailedPauseResumesPausedServices(t *testing.T) {
	l := workDir(t, "/src")
	pid := service(t, l, "glance")
	if _, err := l.Pause("glance", "glanze"); err == nil || !strings.Contains(err.Error(), "glanze") {
		t.Errorf("Pause = %v, want an error that names glanze", err)
	}
	waitForState(t, pid, "S")
}

func TestPIDOfAnotherProcessIsNotSignaled(t *testing.T) {
	l := workDir(t, "/src")
	pid := service(t, l, "glance")
	write(t, filepath.Join(l.Dir(), "run", "glance.pid"), fmt.Sprintf("%d 1\n", pid), 0o644)
	if _, err := l.Pause("glance"); err == nil || !strings.Contains(err.Error(), "up.sh") {
		t.Errorf("Pause = %v, want an error that names up.sh", err)
	}
	waitForState(t, pid, "S")
}

// service starts a process that leads a process group, and writes its pid file.
func service(t *testing.T, l *Lab, name string) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	testutil.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid := cmd.Process.Pid
	write(t, filepath.Join(l.Dir(), "run", name+".pid"), fmt.Sprintf("%d %s\n", pid, startTime(pid)), 0o644)
	return pid
}

func waitForState(t *testing.T, pid int, want string) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for got := ""; got != want; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || time.Now().After(end) {
			t.Fatalf("process is %q, want %q (%v)", got, want, err)
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		got = after[:1]
	}
}

func TestQuotaIsSetAndRestored(t *testing.T) {
	scripts := t.TempDir()
	write(t, filepath.Join(scripts, "quota.sh"), "#!/bin/sh\necho \"$@\" >>\"$NPCTL_OPENSTACK_WORK/calls\"\n", 0o755)
	l := workDir(t, scripts)
	ctx, cancel := context.WithCancel(t.Context())
	restore, err := l.Quota(ctx, "npctl", map[string]int{Instances: 2, Cores: 4})
	testutil.Must(t, err)
	cancel()
	testutil.Must(t, restore())
	got, err := os.ReadFile(filepath.Join(l.Dir(), "calls"))
	if want := "npctl cores=4 instances=2\nnpctl reset\n"; err != nil || string(got) != want {
		t.Errorf("calls = %q, %v, want %q", got, err, want)
	}
}

func TestRejectedQuotaShowsScriptOutput(t *testing.T) {
	scripts := t.TempDir()
	write(t, filepath.Join(scripts, "quota.sh"), "#!/bin/sh\necho no project nobody >&2; exit 1\n", 0o755)
	_, err := workDir(t, scripts).Quota(t.Context(), "nobody", map[string]int{Instances: 2})
	if err == nil || !strings.Contains(err.Error(), "no project nobody") {
		t.Errorf("Quota = %v, want the output of the script", err)
	}
}
