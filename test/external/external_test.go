//go:build integration

package external

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// wrapper counts the calls of the reference program. Before or after the call at which the test kills npctl, it waits until
// npctl is dead. A call after which npctl is killed has had its effect, and its response is lost.
const wrapper = `#!/bin/sh
here=${0%/*}
read -r calls when at <"$here/run"
n=1
until mkdir "$here/$calls/$n" 2>/dev/null; do n=$((n + 1)); done
echo "$NPCTL_CALL" >"$here/$calls/$n/call"
[ "$n" = "$at" ] || exec "$here/driver.sh" "$@"
[ "$when" = before ] || "$here/driver.sh" "$@" >/dev/null
: >"$here/$calls/strike"
until [ -e "$here/$calls/struck" ]; do sleep 0.01; done
exit 1
`

// place is a directory with a configuration and a driver.
type place struct {
	t    *testing.T
	dir  string
	runs int // number of directories with calls
}

func newPlace(t *testing.T, ready int) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir()}
	text := testutil.ReadFile(t, "../../examples/external/npctl.hcl")
	for _, edit := range [][2]string{{"driver.sh\"]", "wrapper.sh\"]"}, {`max = "20"`, `max = "1000"`}, {"min_ready = 2", fmt.Sprintf("min_ready = %d", ready)}} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("the example does not contain %s", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	testutil.WriteFile(t, filepath.Join(p.dir, "npctl.hcl"), text)
	for name, text := range map[string]string{"driver.sh": testutil.ReadFile(t, "../../examples/external/driver.sh"), "wrapper.sh": wrapper} {
		testutil.WriteProgram(t, filepath.Join(p.dir, name), text)
	}
	testutil.Must(t, os.MkdirAll(p.machines(), 0o700))
	testutil.WriteFile(t, filepath.Join(p.machines(), "theirs.json"), `{"id": "theirs", "status": "ready"}`+"\n")
	p.reset("never 0")
	return p
}

func (p *place) machines() string { return filepath.Join(p.dir, ".npctl/providers/files/machines") }

// calls is the directory of the current calls.
func (p *place) calls() string { return filepath.Join(p.dir, fmt.Sprintf("calls-%d", p.runs)) }

// reset starts to count again, in a new directory: the program of a killed npctl may still run. point is such as
// "before 3".
func (p *place) reset(point string) {
	p.t.Helper()
	p.runs++
	testutil.Must(p.t, os.Mkdir(p.calls(), 0o700))
	file := filepath.Join(p.dir, "run")
	testutil.WriteFile(p.t, file+".new", fmt.Sprintf("calls-%d %s\n", p.runs, point))
	testutil.Must(p.t, os.Rename(file+".new", file))
}

// count returns the number of calls by name since the last reset.
func (p *place) count() map[string]int {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.calls(), "*/call"))
	testutil.Must(p.t, err)
	count := map[string]int{}
	for _, file := range files {
		count[strings.TrimSpace(testutil.ReadFile(p.t, file))]++
	}
	return count
}

// killed runs a command and kills it at the point, and reports whether it reached the point.
func (p *place) killed(command, point string) bool {
	p.t.Helper()
	p.reset(point)
	cmd := p.command(command, "-auto-approve")
	testutil.Must(p.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				p.t.Errorf("npctl %s: %v\n%s", command, err, cmd.Stderr)
			}
			return false
		case <-time.After(5 * time.Millisecond):
		}
		if _, err := os.Stat(filepath.Join(p.calls(), "strike")); err == nil {
			testutil.Must(p.t, cmd.Process.Kill())
			<-ended
			testutil.WriteFile(p.t, filepath.Join(p.calls(), "struck"), "")
			if bytes.Contains(cmd.Stderr.(*bytes.Buffer).Bytes(), []byte("panic")) {
				p.t.Errorf("%s", cmd.Stderr)
			}
			return true
		}
	}
}

func (p *place) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), npctl, append([]string{"-chdir=" + p.dir}, args...)...)
	cmd.Stderr = &bytes.Buffer{}
	return cmd
}

func (p *place) run(args ...string) {
	p.t.Helper()
	cmd := p.command(args...)
	if err := cmd.Run(); err != nil {
		p.t.Fatalf("npctl %s: %v\n%s", strings.Join(args, " "), err, cmd.Stderr)
	}
}

// has fails the test unless exactly so many machines of npctl exist, and the foreign one.
func (p *place) has(want int) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(p.machines(), "*_node_*.json"))
	if err != nil || len(files) != want {
		p.t.Errorf("machines are %q, %v; want %d", files, err, want)
	}
	if _, err := os.Stat(filepath.Join(p.machines(), "theirs.json")); err != nil {
		p.t.Error(err)
	}
}

// settle applies until a plan has no changes.
func (p *place) settle(args ...string) {
	p.t.Helper()
	p.reset("never 0")
	p.run(append(args, "-auto-approve")...)
	p.run("plan", "-detailed-exitcode", "-destroy="+strconv.FormatBool(args[0] == "destroy"))
}

// TestKilledAtEveryCall kills npctl before and after every call of an apply and of a destroy.
func TestKilledAtEveryCall(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		for command, first := range map[string]string{"apply": "destroy", "destroy": "apply"} {
			t.Run(command+" "+when, func(t *testing.T) {
				p := newPlace(t, 2)
				p.settle("apply")
				for at := 1; ; at++ {
					p.settle(first)
					struck := p.killed(command, fmt.Sprintf("%s %d", when, at))
					p.settle(command)
					p.has(map[string]int{"apply": 2, "destroy": 0}[command])
					if t.Failed() {
						t.Fatalf("after a kill %s call %d", when, at)
					}
					if !struck {
						t.Logf("killed at %d calls", at-1)
						if at < 6 {
							t.Errorf("only %d calls were made", at-1)
						}
						return
					}
				}
			})
		}
	}
}

// TestCallsOfAHundredNodes counts the calls of 100 nodes from their launch to their deletion.
func TestCallsOfAHundredNodes(t *testing.T) {
	p := newPlace(t, 100)
	start := time.Now()
	p.run("apply", "-auto-approve", "-allow-destroy=all")
	applied, launch := p.count(), time.Since(start)
	p.has(100)
	p.reset("never 0")
	start = time.Now()
	p.run("destroy", "-auto-approve", "-allow-destroy=all")
	destroyed, deletion := p.count(), time.Since(start)
	p.has(0)
	t.Logf("launch in %s: %v; deletion in %s: %v", launch, applied, deletion, destroyed)
	if applied["create"] != 100 || destroyed["delete"] != 100 || applied["list"] > 60 || destroyed["list"] > 60 {
		t.Errorf("calls of the launch %v, of the deletion %v", applied, destroyed)
	}
}
