//go:build integration

package azure

import (
	"bytes"
	"context"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/drivers/azure/azuretest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// lab is a directory with a configuration, and a cloud that the processes reach by HTTPS.
type lab struct {
	t     *testing.T
	dir   string
	cloud *azuretest.Cloud
	args  []string // of every command that takes a configuration
	env   []string
	*recorder
}

// recorder is a handler that counts calls by API. Its hook decides about each of them.
type recorder struct {
	next http.Handler

	mu    sync.Mutex     // guards the fields below
	calls map[string]int // by API
	hook  func(api string, after bool) (pass bool)
}

// setHook replaces the hook. If it returns false, the connection is cut: before the call it has no effect.
func (r *recorder) setHook(hook func(api string, after bool) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

// take returns the calls since the last take.
func (r *recorder) take() (calls map[string]int, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, r.calls = r.calls, map[string]int{}
	for _, n := range calls {
		total += n
	}
	return calls, total
}

// ServeHTTP implements http.Handler.
func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	api := azuretest.APIOf(request.Method, request.URL.Path)
	r.mu.Lock()
	hook := r.hook
	if api != "login" {
		r.calls[api]++
	}
	r.mu.Unlock()
	if hook != nil && !hook(api, false) {
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	r.next.ServeHTTP(answer, request)
	if hook != nil && !hook(api, true) {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// changes reports whether a call changes the cloud. The end of an upload is only one of its steps.
func changes(api string) bool {
	return api == "network.Delete" || strings.Contains(api, ".Begin") && !strings.HasSuffix(api, "Access")
}

func newLab(t *testing.T, configuration string) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), cloud: azuretest.New(), recorder: &recorder{calls: map[string]int{}}}
	server := l.cloud.Serve(func(next http.Handler) http.Handler {
		l.next = next
		return l.recorder
	})
	t.Cleanup(server.Close)
	authority := filepath.Join(l.dir, "authority.pem")
	testutil.WriteFile(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	l.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.dir, "SSL_CERT_FILE=" + authority, "AZURE_AUTHORITY_HOST=" + server.URL, "AZURE_TOKEN_CREDENTIALS=EnvironmentCredential",
		"AZURE_TENANT_ID=" + azuretest.Tenant, "AZURE_CLIENT_ID=" + azuretest.Client, "AZURE_CLIENT_SECRET=" + azuretest.Secret, "AZURE_SUBSCRIPTION_ID=" + azuretest.Subscription}
	l.args = []string{"-var", "endpoint=" + server.URL}
	testutil.WriteFile(t, filepath.Join(l.dir, "npctl.hcl"), configuration)
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
	l.quiet(args[0], text)
	return text
}

// quiet checks that a text contains no secret.
func (l *lab) quiet(what, text string) {
	l.t.Helper()
	for _, secret := range []string{azuretest.Secret, "token-of-the-test", "signature-of-the-test"} {
		if strings.Contains(text, secret) {
			l.t.Errorf("%s contains a secret", what)
		}
	}
}

func (l *lab) mustContain(text string, wanted ...string) {
	l.t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			l.t.Errorf("output does not contain %q:\n%s", want, text)
		}
	}
}

// numbers returns the number of objects with npctl's ownership tags by kind.
func (l *lab) numbers() map[string]int {
	found := map[string]int{}
	for name, tags := range l.cloud.Objects() {
		kind, _, _ := strings.Cut(name, " ")
		if tags["npctl_installation"] != "" {
			found[kind]++
		}
	}
	return found
}

func (l *lab) mustHave(want map[string]int) {
	l.t.Helper()
	testutil.AwaitFor(l.t, limit, "the objects are complete", func() bool { return maps.Equal(l.numbers(), want) })
}

// limit is the time limit of a wait.
const limit = time.Minute

// nodes returns the numbers of objects of nodes.
func nodes(n int) map[string]int {
	if n == 0 {
		return map[string]int{}
	}
	return map[string]int{"vm": n, "nic": n, "ip": n, "disk": n}
}
