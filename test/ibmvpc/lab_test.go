//go:build integration

package ibmvpc

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/npctl/npctl/drivers/ibmvpc/ibmvpctest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// lab is a directory with a configuration, and a cloud behind a proxy.
type lab struct {
	*ibmvpctest.Server
	*recorder

	t    *testing.T
	dir  string
	args []string // of every command that takes a configuration
	env  []string
}

// recorder is a transport that records calls. Its hook decides about each of them.
type recorder struct {
	mu    sync.Mutex // guards the fields below
	calls []string
	hook  func(call string, after bool) error
}

// setHook replaces the hook. An error of the hook cuts the connection: before the call it never reaches the cloud.
func (r *recorder) setHook(hook func(call string, after bool) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	call := request.Method + " " + request.URL.Path
	r.mu.Lock()
	r.calls = append(r.calls, call)
	hook := r.hook
	r.mu.Unlock()
	if hook == nil {
		return http.DefaultTransport.RoundTrip(request)
	}
	if err := hook(call, false); err != nil {
		return nil, err
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := hook(call, true); err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	return answer, nil
}

// changes reports whether a call changes something.
func changes(call string) bool {
	return !strings.HasPrefix(call, "GET ") && !strings.Contains(call, "/identity/")
}

// take returns the recorded calls and starts again.
func (r *recorder) take() (calls []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, r.calls = r.calls, nil
	return calls
}

func newLab(t *testing.T, configuration string) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), Server: ibmvpctest.New(t), recorder: &recorder{}}
	proxy := (&gate.Gate{}).Serve(t, "ibm", l.URL, l.recorder)
	l.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir, "TEST_STORAGE=" + proxy + "/cos"}
	for name, value := range l.Env() {
		l.env = append(l.env, name+"="+strings.Replace(value, l.URL, proxy, 1))
	}
	l.write(strings.ReplaceAll(configuration, "STORAGE", proxy+"/cos"))
	return l
}

func (l *lab) write(configuration string) {
	l.t.Helper()
	testutil.WriteFile(l.t, filepath.Join(l.dir, "npctl.hcl"), configuration)
}

// command prepares npctl in the directory.
func (l *lab) command(args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	if slices.Contains([]string{"plan", "apply", "destroy", "watch"}, args[0]) {
		args = append(slices.Clone(args), l.args...)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.CommandContext(context.WithoutCancel(l.t.Context()), npctl, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = l.dir, l.env, stdout, stderr
	return cmd, stdout, stderr
}

// run runs npctl to its end and returns its output.
func (l *lab) run(want int, args ...string) string {
	l.t.Helper()
	cmd, stdout, stderr := l.command(args...)
	_ = cmd.Run()
	text := stdout.String() + stderr.String()
	if got := cmd.ProcessState.ExitCode(); got != want {
		l.t.Fatalf("npctl %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, want, text)
	}
	if strings.Contains(text, ibmvpctest.APIKey) {
		l.t.Errorf("npctl %s prints the API key", args[0])
	}
	return text
}

func (l *lab) mustContain(text string, wanted ...string) {
	l.t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			l.t.Errorf("output does not contain %q:\n%s", want, text)
		}
	}
}

// owned counts the objects with names of npctl.
func (l *lab) owned() map[string]int {
	numbers := map[string]int{}
	count := func(kind string, names []string) {
		for _, name := range names {
			if strings.HasPrefix(name, "npctl-") || strings.Contains(name, " npctl-") {
				numbers[kind]++
			}
		}
	}
	for _, kind := range []string{"instances", "volumes", "floating_ips", "images"} {
		count(kind, l.Names(kind))
	}
	count("objects", l.Objects())
	return numbers
}

// mustHave waits until the numbers of owned objects are as wanted: the cloud deletes boot volumes after their instances.
func (l *lab) mustHave(want map[string]int) {
	l.t.Helper()
	if now := l.owned(); !maps.Equal(now, want) {
		l.t.Errorf("objects of npctl are %v, want %v", now, want)
	}
}

// foreign creates objects of another user and returns a check that they remain.
func (l *lab) foreign() (stay func()) {
	instance := l.Instance("np0000000001")
	l.Volume("data", instance)
	l.FloatingIP("theirs", instance)
	l.Image("theirs")
	l.PutObject("theirs.qcow2", []byte("x"))
	want := func() [][]string {
		var all [][]string
		for _, kind := range []string{"instances", "volumes", "floating_ips", "images"} {
			all = append(all, slices.DeleteFunc(l.Names(kind), func(name string) bool { return strings.HasPrefix(name, "npctl-") }))
		}
		return append(all, slices.DeleteFunc(l.Objects(), func(name string) bool { return strings.Contains(name, "npctl-") }))
	}
	before := want()
	return func() {
		l.t.Helper()
		if now := want(); !slices.EqualFunc(before, now, slices.Equal[[]string]) {
			l.t.Errorf("objects of another user were %q and are %q", before, now)
		}
	}
}
