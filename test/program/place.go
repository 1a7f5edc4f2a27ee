package program

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// Place is a directory in which npctl runs.
type Place struct {
	T       testing.TB
	Npctl   string // path of the program
	Dir     string
	Args    []string // of every command that takes a configuration
	Env     []string
	Secrets []string // that npctl must not print
}

// NewPlace returns an empty directory. The environment contains PATH, HOME and the given variables.
func NewPlace(t testing.TB, npctl string, env ...string) *Place {
	t.Helper()
	dir := t.TempDir()
	return &Place{T: t, Npctl: npctl, Dir: dir, Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)}
}

// Write replaces the configuration.
func (p *Place) Write(configuration string) {
	p.T.Helper()
	testutil.WriteFile(p.T, filepath.Join(p.Dir, "npctl.hcl"), configuration)
}

// Command prepares npctl.
func (p *Place) Command(args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	if slices.Contains([]string{"plan", "apply", "destroy", "watch"}, args[0]) {
		args = append(slices.Clone(args), p.Args...)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.CommandContext(context.WithoutCancel(p.T.Context()), p.Npctl, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, p.Env, stdout, stderr
	return cmd, stdout, stderr
}

// Run runs npctl, which must end with an exit code, and returns its output.
func (p *Place) Run(want int, args ...string) string {
	p.T.Helper()
	cmd, stdout, stderr := p.Command(args...)
	_ = cmd.Run()
	text := stdout.String() + stderr.String()
	if got := cmd.ProcessState.ExitCode(); got != want {
		p.T.Fatalf("npctl %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, want, text)
	}
	p.Quiet("npctl "+args[0], text)
	return text
}

// Quiet checks that a text contains no secret.
func (p *Place) Quiet(what, text string) {
	p.T.Helper()
	for _, secret := range p.Secrets {
		if strings.Contains(text, secret) {
			p.T.Errorf("%s contains a secret", what)
		}
	}
}

// MustContain checks an output.
func (p *Place) MustContain(text string, wanted ...string) {
	p.T.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			p.T.Errorf("output does not contain %q:\n%s", want, text)
		}
	}
}

// Watch starts the daemon and waits until it responds.
func (p *Place) Watch(t *testing.T) *Process {
	t.Helper()
	cmd, _, _ := p.Command("watch")
	cmd.Stdout, cmd.Stderr = nil, nil
	log := filepath.Join(p.Dir, "watch.log")
	process := Start(t, cmd, log)
	t.Cleanup(func() {
		text := testutil.ReadFile(t, log)
		p.Quiet("the log", text)
		if t.Failed() {
			t.Log(text)
		}
	})
	testutil.Await(t, "npctl watch responds", func() bool {
		process.Runs()
		status, _, _ := p.Command("status")
		return status.Run() == nil
	})
	return process
}

// Take requests nodes of one label as "tester" and takes them.
func (p *Place) Take(label string, number int) []resources.Node {
	p.T.Helper()
	args := []string{"request", "create", "-take", "-json", "-requestor=tester"}
	for range number {
		args = append(args, "-label="+label)
	}
	cmd, stdout, stderr := p.Command(args...)
	if err := cmd.Run(); err != nil {
		p.T.Fatalf("npctl request create: %v\n%s", err, stderr)
	}
	var request struct {
		Nodes []resources.Node `json:"nodes"`
	}
	testutil.Must(p.T, json.Unmarshal(stdout.Bytes(), &request))
	if len(request.Nodes) != number {
		p.T.Fatalf("%d nodes, want %d: %s", len(request.Nodes), number, stdout)
	}
	return request.Nodes
}

// Return returns nodes.
func (p *Place) Return(nodes ...resources.Node) {
	p.T.Helper()
	args := []string{"node", "return"}
	for _, n := range nodes {
		args = append(args, n.ID)
	}
	p.Run(0, args...)
}

// Recorder is a transport that counts calls by name.
type Recorder struct {
	Next http.RoundTripper
	Name func(*http.Request) string // "": not counted

	mu    sync.Mutex
	calls map[string]int // guarded by mu
}

// RoundTrip implements http.RoundTripper.
func (r *Recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.Note(r.Name(request))
	return r.Next.RoundTrip(request)
}

// Note counts a call.
func (r *Recorder) Note(name string) {
	if name == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]int{}
	}
	r.calls[name]++
}

// Count returns the number of calls with a name.
func (r *Recorder) Count(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[name]
}

// Taken returns the calls since the last Taken.
func (r *Recorder) Taken() (calls map[string]int, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, r.calls = r.calls, nil
	for _, n := range calls {
		total += n
	}
	return calls, total
}
