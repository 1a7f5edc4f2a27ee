//go:build integration

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

const (
	patience = testutil.Patience
	glance   = 20 * time.Millisecond
	logShown = 48 << 10
	quick    = "3s" // a session that ends quickly
)

var sites atomic.Int64

// site is a configuration with its own tree in ZooKeeper, and a Zuul.
type site struct {
	*tree
	env  lab.Env
	vars []string // environment variables of npctl
	dir  string
	zuul *lab.Peer
	// hosts, timeout and extra belong to the block state "zookeeper". The timeout is long enough for a busy machine, or
	// quick where the test loses sessions.
	hosts, timeout, extra string
}

// newSite writes a configuration, in which STATE stands for the state block, and starts a Zuul. The configuration may use
// emulated clouds.
func newSite(t *testing.T, configuration string, clouds ...*cloudlab.Served) *site {
	t.Helper()
	s := emptySite(t, servers.Env, root)
	s.vars = append(s.vars, "OS_CLIENT_CONFIG_FILE="+cloudlab.CloudsYAML(t, clouds...))
	s.write(configuration)
	s.zuul = lab.StartPeer(t, s.env, lab.PeerOptions{Hosts: s.env.Hosts + s.chroot})
	return s
}

// emptySite has neither a configuration nor a Zuul.
func emptySite(t *testing.T, env lab.Env, c *connection) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "npctl") //nolint:usetesting // the path of a socket is short
	testutil.Must(t, err)
	s := &site{env: env, vars: os.Environ(), dir: dir, hosts: env.Hosts, timeout: "10s", tree: &tree{t: t, conn: c.conn, chroot: fmt.Sprintf("/site-%d", sites.Add(1))}}
	s.create("", "", 0)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("log:\n%s", log[max(0, len(log)-logShown):])
		}
		_ = os.RemoveAll(dir)
	})
	return s
}

func (s *site) write(configuration string) {
	s.t.Helper()
	state := fmt.Sprintf(`state "zookeeper" {
    hosts           = ["%s"]
    chroot          = %q
    session_timeout = %q
    tls {
      cert = %q
      key  = %q
      ca   = %q
      %s
    }
  }`, strings.ReplaceAll(s.hosts, ",", `", "`), s.chroot, s.timeout, s.env.Cert, s.env.Key, s.env.CA, s.extra)
	text := strings.Replace(configuration, "STATE", state, 1)
	s.must(os.WriteFile(filepath.Join(s.dir, "npctl.hcl"), []byte(text), 0o600), "npctl.hcl")
}

// start starts a daemon and waits until its pools are registered in addition to the existing ones.
func (s *site) start(options ...string) *program.Process {
	s.t.Helper()
	before := len(s.children(pools))
	d := s.launch(options...)
	s.await("its pools are registered", func() bool { d.Runs(); return len(s.children(pools)) > before })
	return d
}

func (s *site) launch(options ...string) *program.Process {
	s.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), npctl, append([]string{"watch", "-config=" + s.dir}, options...)...)
	cmd.Env = s.vars
	return program.Start(s.t, cmd, filepath.Join(s.dir, "log"))
}

// npctl runs a command in the directory of the configuration, and returns its output and exit code.
func (s *site) npctl(arguments ...string) (out string, code int) {
	s.t.Helper()
	var text, talk bytes.Buffer
	ctx, cancel := context.WithTimeout(s.t.Context(), testutil.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, npctl, append([]string{"-chdir=" + s.dir}, arguments...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.vars, &text, &talk
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("npctl %q: %v", arguments, err)
	}
	if talk.Len() > 0 {
		s.t.Logf("npctl %s: %s", strings.Join(arguments, " "), talk.String())
	}
	return text.String(), cmd.ProcessState.ExitCode()
}

// answer runs a command with -json, which must succeed, and decodes its output.
func (s *site) answer(into any, arguments ...string) {
	s.t.Helper()
	out, code := s.npctl(append(arguments, "-json")...)
	if code != 0 {
		s.t.Fatalf("npctl %q: exit code %d\n%s", arguments, code, out)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		s.t.Fatalf("npctl %q: %v\n%s", arguments, err, out)
	}
}

func (s *site) logged(text string) bool {
	s.t.Helper()
	log, err := os.ReadFile(filepath.Join(s.dir, "log"))
	s.must(err, "log")
	return bytes.Contains(log, []byte(text))
}

// check runs an independent part of the test.
func (s *site) check(name string, f func(t *testing.T)) {
	whole := s.t
	defer func() { s.t = whole }()
	whole.Run(name, func(t *testing.T) {
		s.t = t
		f(t)
	})
}

// await polls until the condition holds.
func (s *site) await(what string, so func() bool) {
	s.t.Helper()
	testutil.Await(s.t, what, so, func() string { return fmt.Sprintf("requests are %v, nodes %s", s.states(), s.census()) })
}

// awaitImage waits until servers can be launched. An interrupted build starts again a minute later.
func (s *site) awaitImage() {
	s.t.Helper()
	s.await("the image exists", func() bool { return s.logged("upload provider") })
}

// stays checks that the condition holds during the given time.
func (s *site) stays(what string, d time.Duration, so func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(glance) {
		if !so() {
			s.t.Fatalf("no more: %s; requests are %v, nodes %s", what, s.states(), s.census())
		}
	}
}

// states returns the states of all requests, by ID.
func (s *site) states() map[string]string {
	s.t.Helper()
	states := map[string]string{}
	for _, id := range s.children(requests) {
		if z := s.request(id); z != nil {
			states[id] = fmt.Sprint(z.doc["state"])
		}
	}
	return states
}

// ask creates a request through Zuul and returns its ID.
func (s *site) ask(labels ...string) string {
	s.t.Helper()
	return s.submit(lab.Request{Labels: labels})
}

func (s *site) submit(r lab.Request) string {
	s.t.Helper()
	sent, err := s.zuul.Request(s.t.Context(), r)
	s.must(err, "request")
	return sent.ID
}

// awaitEnd waits until Zuul receives the end of a request, and returns the nodes.
func (s *site) awaitEnd(id, state string) []string {
	s.t.Helper()
	outcome, err := s.zuul.Wait(s.t.Context(), id, patience)
	if err != nil || outcome.State != state {
		s.t.Fatalf("request %s: %+v, %v; want it %s; it is %+v", id, outcome, err, state, s.request(id))
	}
	return outcome.Nodes
}

// served requests nodes, waits for them and accepts them, as Zuul does before a build.
func (s *site) served(labels ...string) (id string, nodes []string) {
	s.t.Helper()
	id = s.ask(labels...)
	nodes = s.awaitEnd(id, "fulfilled")
	s.accept(id)
	return id, nodes
}

func (s *site) accept(id string) []map[string]any {
	s.t.Helper()
	accepted, err := s.zuul.Accept(s.t.Context(), id)
	s.must(err, "accept "+id)
	return accepted
}

// runBuild starts and ends the build that has accepted a request.
func (s *site) runBuild(id string) {
	s.t.Helper()
	s.use(id)
	s.must(s.zuul.Return(s.t.Context(), id), "return "+id)
}

func (s *site) use(id string) {
	s.t.Helper()
	s.must(s.zuul.Use(s.t.Context(), id), "use "+id)
}

// pool returns the registration of a provider's pool.
func (s *site) pool(provider string) (found registration) {
	s.t.Helper()
	for _, name := range s.children(pools) {
		var r registration
		if z := s.get(pools + "/" + name); z != nil && json.Unmarshal([]byte(z.text), &r) == nil && r.Provider == provider {
			return r
		}
	}
	return found
}

// registration is a pool in the registry.
type registration struct {
	Hostname string   `json:"hostname"`
	Kind     string   `json:"kind"`
	State    string   `json:"state"`
	Version  string   `json:"version"`
	API      *int     `json:"model_api"`
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Provider string   `json:"provider_name"`
	Labels   []string `json:"supported_labels"`
	Priority int      `json:"priority"`
	Paused   bool     `json:"paused"`
}
