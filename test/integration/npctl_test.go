//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// runLimit is the time limit of one npctl command.
const runLimit = 15 * time.Minute

// place is a directory with a configuration in which npctl runs.
type place struct {
	t    *testing.T
	dir  string
	args []string // appended to every command that takes a configuration
	env  []string
}

// newPlace returns a directory with npctl.hcl and clouds.yaml.
func (p *project) newPlace(config string) *place {
	p.t.Helper()
	at := emptyPlace(p.t)
	at.env = append(at.env, "OS_CLIENT_CONFIG_FILE="+p.writeClouds(at.dir))
	at.write(config)
	return at
}

func emptyPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	return &place{t: t, dir: dir, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "NPCTL_LOG=info"}}
}

// with returns the place for a subtest, with arguments of its own.
func (at *place) with(t *testing.T) *place {
	same := *at
	same.t, same.args = t, slices.Clone(at.args)
	return &same
}

func (at *place) write(config string) {
	at.t.Helper()
	testutil.WriteFile(at.t, filepath.Join(at.dir, "npctl.hcl"), config)
}

// read returns the configuration.
func (at *place) read() string {
	at.t.Helper()
	return testutil.ReadFile(at.t, filepath.Join(at.dir, "npctl.hcl"))
}

// change replaces text in the configuration.
func (at *place) change(from, to string) {
	at.t.Helper()
	old := at.read()
	if !strings.Contains(old, from) {
		at.t.Fatalf("%q is not in the configuration", from)
	}
	at.write(strings.Replace(old, from, to, 1))
}

// outcome is the result of one npctl command.
type outcome struct {
	t              *testing.T
	command        string
	code           int
	stdout, stderr string
}

// command prepares an npctl command.
func (at *place) command(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	at.t.Helper()
	if args[0] == "plan" || args[0] == "apply" || args[0] == "destroy" {
		args = append(append([]string{}, args...), at.args...)
	}
	cmd := exec.CommandContext(ctx, npctl, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = at.dir, at.env, &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second
	return cmd, &stdout, &stderr
}

// run runs npctl until it ends.
func (at *place) run(args ...string) outcome {
	at.t.Helper()
	ctx, cancel := context.WithTimeout(at.t.Context(), runLimit)
	defer cancel()
	cmd, stdout, stderr := at.command(ctx, args...)
	started := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		at.t.Fatalf("npctl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	o := outcome{at.t, "npctl " + strings.Join(args, " "), cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	at.t.Logf("%s: exit code %d in %.1f s: %s", o.command, o.code, time.Since(started).Seconds(), o.last()[:min(len(o.last()), 200)])
	return o
}

// mustRun is like run and fails the test unless npctl ends with the given exit code.
func (at *place) mustRun(code int, args ...string) outcome {
	at.t.Helper()
	o := at.run(args...)
	if o.code != code {
		at.t.Fatalf("%s: exit code %d, want %d\n%s", o.command, o.code, code, o.text())
	}
	return o
}

func (o outcome) text() string { return o.stdout + "--- stderr\n" + o.stderr }

// last returns the last line of the output.
func (o outcome) last() string {
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	return lines[len(lines)-1]
}

// took matches the duration at the end of the last line.
var took = regexp.MustCompile(` \[[0-9hms.]+\]$`)

// endsWith fails the test unless the last line is as wanted.
func (o outcome) endsWith(want string) outcome {
	o.t.Helper()
	if got := took.ReplaceAllString(o.last(), ""); got != want {
		o.t.Errorf("%s ends with\n  %s\nwant\n  %s\n%s", o.command, got, want, o.text())
	}
	return o
}

// contains fails the test unless every text is in the output. It ignores line breaks.
func (o outcome) contains(texts ...string) outcome {
	o.t.Helper()
	shown := strings.Join(strings.Fields(o.text()), " ")
	for _, want := range texts {
		if !strings.Contains(shown, strings.Join(strings.Fields(want), " ")) {
			o.t.Errorf("%s does not say %q\n%s", o.command, want, o.text())
		}
	}
	return o
}

// omits fails the test if one of the texts is in the output.
func (o outcome) omits(texts ...string) outcome {
	o.t.Helper()
	for _, bad := range texts {
		if strings.Contains(o.text(), bad) {
			o.t.Errorf("%s says %q\n%s", o.command, bad, o.text())
		}
	}
	return o
}

// nothingToDo plans and fails the test unless there is nothing to do.
func (at *place) nothingToDo() outcome {
	at.t.Helper()
	return at.mustRun(0, "plan", "-detailed-exitcode").endsWith("No changes.")
}

// note is a note of a plan.
type note struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// report contains the fields of a plan in JSON that tests read.
type report struct {
	Steps []struct {
		Address string `json:"address"`
		Action  string `json:"action"`
		Thing   string `json:"thing"`
		Reason  string `json:"action_reason"`
	} `json:"steps"`
	Notes    []note `json:"notes"`
	Problems []struct {
		Address string `json:"address"`
		Text    string `json:"text"`
		Hint    string `json:"hint"`
	} `json:"problems"`
	Deferred []string `json:"deferred"`
}

// plan returns the result of npctl plan -json. It ignores the exit code.
func (at *place) plan(args ...string) report {
	at.t.Helper()
	o := at.run(append([]string{"plan", "-json"}, args...)...)
	var r report
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		at.t.Fatalf("%s: %v\n%s", o.command, err, o.text())
	}
	return r
}

// steps returns the steps in the form "action thing: reason".
func (r report) steps() []string {
	var all []string
	for _, s := range r.Steps {
		all = append(all, s.Action+" "+s.Thing+": "+s.Reason)
	}
	return all
}
