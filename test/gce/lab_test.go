//go:build integration

package gce

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
	"time"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/npctl/npctl/drivers/gce/gcetest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// lab is a directory with a configuration, and a Compute Engine behind a proxy.
type lab struct {
	t        *testing.T
	dir      string
	args     []string // of every command that takes a configuration
	env      []string
	server   *gcetest.Server
	endpoint string
	other    *compute.Service // of another user
	*recorder
}

// recorder is a transport that counts calls by action. Its hook decides about each of them.
type recorder struct {
	mu    sync.Mutex     // guards the fields below
	calls map[string]int // by action
	hook  func(action string, after bool) error
}

// actionOf returns the method and the collection of a request, such as "POST instances" and "GET aggregated instances".
func actionOf(r *http.Request) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/compute/v1/projects/"), "/")
	parts := strings.Split(path, "/")
	switch {
	case strings.HasSuffix(path, "/wait"):
		return "wait"
	case parts[0] == "zones" && len(parts) > 2:
		return r.Method + " " + parts[2]
	default:
		return r.Method + " " + strings.Join(parts[:min(2, len(parts))], " ")
	}
}

// setHook replaces the hook. An error of the hook cuts the connection: before the call it never reaches the server.
func (r *recorder) setHook(hook func(action string, after bool) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	action := actionOf(request)
	r.mu.Lock()
	r.calls[action]++
	hook := r.hook
	r.mu.Unlock()
	if hook == nil {
		return http.DefaultTransport.RoundTrip(request)
	}
	if err := hook(action, false); err != nil {
		return nil, err
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := hook(action, true); err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	return answer, nil
}

// take returns the counted calls and starts again.
func (r *recorder) take() (calls map[string]int, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, r.calls = r.calls, map[string]int{}
	for _, n := range calls {
		total += n
	}
	return calls, total
}

func newLab(t *testing.T, configuration string) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), server: gcetest.New(t), recorder: &recorder{calls: map[string]int{}}}
	key := l.server.Credentials(t)
	l.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir, "GOOGLE_APPLICATION_CREDENTIALS=" + key}
	l.endpoint = (&gate.Gate{}).Serve(t, "gce", l.server.Endpoint(), l.recorder)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", key)
	var err error
	l.other, err = compute.NewService(context.WithoutCancel(t.Context()), option.WithEndpoint(l.server.Endpoint()))
	testutil.Must(t, err)
	testutil.WriteFile(t, filepath.Join(l.dir, "npctl.hcl"), strings.ReplaceAll(configuration, "ENDPOINT", l.endpoint))
	return l
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
	if strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "ya29.") {
		l.t.Errorf("npctl %s prints a secret", args[0])
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

const ownedFilter = "labels.npctl_installation:*"

// instances returns the instances with ownership labels that are not being deleted.
func (l *lab) instances() (all []*compute.Instance) {
	l.t.Helper()
	list, err := l.other.Instances.AggregatedList(gcetest.Project).Filter(ownedFilter).Do()
	testutil.Must(l.t, err)
	for _, scope := range slices.Sorted(maps.Keys(list.Items)) {
		for _, i := range list.Items[scope].Instances {
			if i.Status != "STOPPING" {
				all = append(all, i)
			}
		}
	}
	return all
}

// has reports whether there are as many instances with ownership labels, and a boot disk of each.
func (l *lab) has(want int) bool {
	l.t.Helper()
	list, err := l.other.Disks.AggregatedList(gcetest.Project).Filter(ownedFilter).Do()
	testutil.Must(l.t, err)
	disks := 0
	for _, scope := range list.Items {
		disks += len(scope.Disks)
	}
	return len(l.instances()) == want && disks == want
}

func (l *lab) mustHave(want int) {
	l.t.Helper()
	testutil.AwaitFor(l.t, limit, "the number of instances and disks", func() bool { return l.has(want) })
}

func (l *lab) deleteInstance(name, zone string) {
	l.t.Helper()
	_, err := l.other.Instances.Delete(gcetest.Project, zone, name).Do()
	testutil.Must(l.t, err)
}

// foreign creates an instance of another user, with the name of a node, and returns a check that it remains.
func (l *lab) foreign() (stay func()) {
	l.t.Helper()
	const name = "np0000000001"
	_, err := l.other.Instances.Insert(gcetest.Project, gcetest.Zone, &compute.Instance{Name: name, MachineType: "zones/" + gcetest.Zone + "/machineTypes/e2-small",
		Disks:             []*compute.AttachedDisk{{Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: gcetest.Image}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Network: "global/networks/default"}}}).Do()
	testutil.Must(l.t, err)
	return func() {
		l.t.Helper()
		i, err := l.other.Instances.Get(gcetest.Project, gcetest.Zone, name).Do()
		if err != nil || i.Status != "RUNNING" || len(i.Labels) > 0 {
			l.t.Errorf("the instance of another user is %+v, %v", i, err)
		}
	}
}

// base returns the last part of a URL.
func base(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

// limit is the time limit of a wait.
const limit = time.Minute
