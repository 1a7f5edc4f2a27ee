//go:build integration

package whole

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

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/internal/testutil"
	npctlprogram "github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/test/zookeeper/lab"
	zuulsite "github.com/npctl/npctl/test/zuul/site"
)

const (
	logShown = 24 << 10

	nodes    = "/nodepool/nodes"
	requests = "/nodepool/requests"
)

var (
	program string // the npctl under test
	shared  site   // shared by all tests
)

func TestMain(m *testing.M) {
	code := 1
	dir, err := os.MkdirTemp("", "npctl-whole")
	if err == nil {
		code, err = run(m, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func run(m *testing.M, dir string) (int, error) {
	zuul, err := zuulsite.FromEnviron()
	if err != nil {
		return 1, err
	}
	env, err := lab.FromEnviron()
	if err != nil {
		return 1, err
	}
	shared = site{Site: zuul, dir: dir, env: env}
	if shared.conn, err = lab.Connect(env); err != nil {
		return 1, err
	}
	defer shared.conn.Close()
	built, remove, err := npctlprogram.Build()
	if err != nil {
		return 1, err
	}
	defer remove()
	program = built
	return m.Run(), os.WriteFile(filepath.Join(dir, "done"), nil, 0o600)
}

// site is a Zuul, its machines, and an npctl that serves them.
type site struct {
	zuulsite.Site
	t    *testing.T
	env  lab.Env
	dir  string // npctl's directory
	conn *zk.Conn

	npctl *exec.Cmd
	done  chan struct{} // closed when npctl has ended
}

// newSite starts npctl, and checks at the end of the test that all machines are free again.
func newSite(t *testing.T) *site {
	t.Helper()
	s := shared
	s.t, s.Site = t, s.With(t)
	s.configure()
	t.Cleanup(func() {
		s.end(syscall.SIGTERM)
		if t.Failed() {
			for _, file := range []string{filepath.Join(s.dir, "log"), filepath.Join(s.Dir, "log", "executor.log"), filepath.Join(s.Dir, "log", "scheduler.log")} {
				text, _ := os.ReadFile(file)
				t.Logf("%s:\n%s", file, text[max(0, len(text)-logShown):])
			}
		}
	})
	s.start()
	s.awaitAllFree()
	return &s
}

func (s *site) configure() {
	s.t.Helper()
	var machines strings.Builder
	for _, address := range s.Machines() {
		fmt.Fprintf(&machines, `
    node %q {
      labels          = ["metal"]
      username        = "root"
      python_path     = "/usr/bin/python3"
      connection_port = %s
    }`, address, s.SSHPort())
	}
	text := fmt.Sprintf(`
npctl {
  state "zookeeper" {
    hosts           = ["%s"]
    session_timeout = "4s"
    tls {
      cert = %q
      key  = %q
      ca   = %q
    }
  }
}
label "metal" {}
provider "static" "rack" {
  pool "main" {%s
  }
}
`, strings.ReplaceAll(s.env.Hosts, ",", `", "`), s.env.Cert, s.env.Key, s.env.CA, machines.String())
	s.must(os.WriteFile(filepath.Join(s.dir, "npctl.hcl"), []byte(text), 0o600), "npctl.hcl")
}

func (s *site) start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.must(err, "log")
	defer log.Close()
	s.npctl = exec.CommandContext(context.WithoutCancel(s.t.Context()), program, "watch", "-config="+s.dir)
	s.npctl.Stderr = log
	s.must(s.npctl.Start(), "npctl watch")
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait()
	}(s.npctl, s.done)
}

// kill ends npctl by SIGKILL: its session stays until it times out.
func (s *site) kill() { s.end(syscall.SIGKILL) }

func (s *site) end(with syscall.Signal) {
	_ = s.npctl.Process.Signal(with)
	<-s.done
}

// node is a node as Zuul and npctl report it.
type node struct {
	ID          string  `json:"-"`
	State       string  `json:"state"`
	AllocatedTo string  `json:"allocated_to"`
	Address     string  `json:"interface_ip"`
	Comment     string  `json:"comment"`
	Expiration  int     `json:"hold_expiration"` // duration of the hold in seconds; 0 is indefinite
	Locked      bool    `json:"-"`
	Since       float64 `json:"state_time"` // seconds since the epoch
}

func (n node) String() string { return fmt.Sprintf("%s %s %s", n.ID, n.Address, n.State) }

// nodes returns all nodes.
func (s *site) nodes() (all []node) {
	s.t.Helper()
	for _, id := range s.children(nodes) {
		n := node{ID: id}
		if s.read(nodes+"/"+id, &n) {
			n.Locked = len(s.children(nodes+"/"+id+"/lock")) > 0
			all = append(all, n)
		}
	}
	return all
}

// in returns the nodes in a state, by address.
func (s *site) in(state string) map[string]node {
	s.t.Helper()
	found := map[string]node{}
	for _, n := range s.nodes() {
		if n.State == state {
			found[n.Address] = n
		}
	}
	return found
}

// waiting counts unanswered requests for the given number of nodes.
func (s *site) waiting(count int) (requested int) {
	s.t.Helper()
	for _, id := range s.children(requests) {
		var r struct {
			State string   `json:"state"`
			Types []string `json:"node_types"`
		}
		if s.read(requests+"/"+id, &r) && len(r.Types) == count && (r.State == "requested" || r.State == "pending") {
			requested++
		}
	}
	return requested
}

// awaitAllFree waits until every machine is ready and unassigned, and no request is open.
func (s *site) awaitAllFree() {
	s.t.Helper()
	s.await("all machines are free", func() bool {
		free := 0
		for _, n := range s.nodes() {
			if n.State == "ready" && n.AllocatedTo == "" && !n.Locked {
				free++
			}
		}
		return free == len(s.Machines()) && free == len(s.nodes()) && len(s.children(requests)) == 0
	})
}

func (s *site) children(path string) []string {
	s.t.Helper()
	names, _, err := s.conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	s.must(err, path)
	return names
}

// read decodes a znode and reports whether it exists.
func (s *site) read(path string, into any) bool {
	s.t.Helper()
	text, _, err := s.conn.Get(path)
	if errors.Is(err, zk.ErrNoNode) {
		return false
	}
	s.must(err, path)
	s.must(json.Unmarshal(text, into), path)
	return true
}

func (s *site) must(err error, what string) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// await polls until the condition holds.
func (s *site) await(what string, so func() bool) {
	s.t.Helper()
	testutil.Await(s.t, what, so, func() string { return fmt.Sprintf("nodes are %v", s.nodes()) })
}
