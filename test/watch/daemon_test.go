//go:build integration

package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/cloudlab"
	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// npctl is the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.MainParallel(m, &npctl, 4)) }

// logShown is how many bytes of the log the output of a failed test contains.
const logShown = 256 << 10

// site is a configuration with its state, in which daemons start and stop.
type site struct {
	t   *testing.T
	dir string
	env []string // of npctl
	*client.Client
}

// newSite creates a site whose configuration may use the clouds of projects.
func newSite(t *testing.T, configuration string, projects ...*project) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "npctl") //nolint:usetesting // the path of a socket is short
	testutil.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("log:\n%s", log[max(0, len(log)-logShown):])
		}
		if os.Getenv("NPCTL_KEEP") != "" {
			t.Logf("kept: %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	c, err := client.New(client.Options{Socket: filepath.Join(dir, "npctl.db.sock")})
	testutil.Must(t, err)
	var clouds []*cloudlab.Served
	for _, p := range projects {
		clouds = append(clouds, p.Served)
	}
	s := &site{t: t, dir: dir, env: append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+cloudlab.CloudsYAML(t, clouds...)), Client: c}
	s.write(configuration)
	return s
}

func (s *site) write(configuration string) {
	s.t.Helper()
	testutil.WriteFile(s.t, filepath.Join(s.dir, "npctl.hcl"), configuration)
}

// start starts a daemon and waits until it is ready.
func (s *site) start(options ...string) *program.Process {
	s.t.Helper()
	d := s.launch(s.command(context.WithoutCancel(s.t.Context()), append([]string{"watch", "-config=" + s.dir}, options...)...))
	testutil.Await(s.t, "the daemon is ready", func() bool { ready, err := s.Ready(s.t.Context()); return err == nil && ready })
	return d
}

// command returns a command of npctl.
func (s *site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, npctl, args...)
	cmd.Env = s.env
	return cmd
}

func (s *site) launch(cmd *exec.Cmd) *program.Process {
	s.t.Helper()
	return program.Start(s.t, cmd, filepath.Join(s.dir, "log"))
}

// nodes requests nodes, waits for them and takes them.
func (s *site) nodes(labels ...string) []wire.Node {
	s.t.Helper()
	r, err := s.CreateRequest(s.t.Context(), wire.NewRequest{Labels: labels, Requestor: "test"})
	testutil.Must(s.t, err)
	return s.take(r.ID)
}

// createdByCommand does the same with npctl request create, in the directory of the configuration.
func (s *site) createdByCommand(labels ...string) []wire.Node {
	s.t.Helper()
	args := []string{"-chdir=" + s.dir, "request", "create", "-wait", "-take", "-json"}
	for _, label := range labels {
		args = append(args, "-label="+label)
	}
	cmd := s.command(s.t.Context(), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("npctl %q: %v\n%s", args, err, out)
	}
	var answer struct {
		Nodes []wire.Node `json:"nodes"`
	}
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Nodes) != len(labels) {
		s.t.Fatalf("npctl %q: %v in\n%s", args, err, out)
	}
	return answer.Nodes
}

func (s *site) take(id string) []wire.Node {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	r, err := s.WaitRequest(ctx, id)
	testutil.Must(s.t, err)
	if r.State != resources.StateFulfilled {
		s.t.Fatalf("request %s is %s: %s", r.ID, r.State, r.Error)
	}
	nodes, err := s.TakeRequest(s.t.Context(), r.ID, "test", 0)
	testutil.Must(s.t, err)
	return nodes
}

// census counts nodes by state.
func (s *site) census() string {
	s.t.Helper()
	nodes, err := s.Nodes(s.t.Context(), wire.NodeFilter{})
	testutil.Must(s.t, err)
	counts := map[resources.State]int{}
	for _, n := range nodes {
		counts[n.State]++
	}
	return fmt.Sprint(counts)
}

// ssh runs a command on a node and returns its output. The node must show the host key that npctl reports.
func (s *site) ssh(n wire.Node, command ...string) (string, error) {
	s.t.Helper()
	at, port := n.Addresses.Interface, fmt.Sprint(n.Login.ConnectionPort)
	var known bytes.Buffer
	for _, key := range n.HostKeys {
		fmt.Fprintf(&known, "[%s]:%s %s\n", at, port, key)
	}
	file := filepath.Join(s.dir, "known_hosts")
	testutil.Must(s.t, os.WriteFile(file, known.Bytes(), 0o600))
	args := []string{"-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + file, "-o", "ConnectTimeout=10",
		"-i", filepath.Join(s.dir, "id"), "-p", port, n.Login.Username + "@" + at}
	out, err := exec.CommandContext(s.t.Context(), "ssh", append(args, command...)...).CombinedOutput()
	return string(out), err
}

// scan returns the output of ssh-keyscan for a node.
func (s *site) scan(n wire.Node) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), "ssh-keyscan", "-T", "10", "-p", fmt.Sprint(n.Login.ConnectionPort), n.Addresses.Interface).Output()
	if err != nil {
		s.t.Fatalf("ssh-keyscan %s: %v", n.Addresses.Interface, err)
	}
	return string(out)
}

func (s *site) checkLogin(n wire.Node) {
	s.t.Helper()
	if len(n.HostKeys) == 0 {
		s.t.Errorf("node %s has no host keys", n.ID)
	}
	shown := s.scan(n)
	for _, key := range n.HostKeys {
		if !strings.Contains(shown, key) {
			s.t.Errorf("node %s shows %s, and npctl reports %s", n.ID, shown, key)
		}
	}
}
