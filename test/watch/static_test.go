//go:build integration

package watch

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// listening is a socket that was opened for another process.
type listening struct {
	file    *os.File
	address string
}

func listenFiles(t *testing.T, network, address string) listening {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var file *os.File
	switch l := l.(type) {
	case *net.UnixListener:
		l.SetUnlinkOnClose(false)
		file, err = l.File()
	case *net.TCPListener:
		file, err = l.File()
	}
	testutil.Must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return listening{file, l.Addr().String()}
}

// sshd is a real sshd on a loopback port.
type sshd struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
}

// newMachine creates keys and the configuration of an sshd that accepts the key of the site.
func (s *site) newMachine() *sshd {
	s.t.Helper()
	m := &sshd{t: s.t, dir: s.dir, port: testutil.FreePort(s.t)}
	m.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(m.dir, "host"))
	m.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(m.dir, "id"))
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/id.pub\nPidFile none\nUsePAM no\nStrictModes no\n"+
		"PermitRootLogin prohibit-password\nPasswordAuthentication no\n", m.port, m.dir, m.dir)
	testutil.WriteFile(s.t, filepath.Join(m.dir, "sshd_config"), config)
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd needs it; its service creates it otherwise
		s.t.Fatal(err)
	}
	return m
}

func (m *sshd) run(name string, args ...string) {
	m.t.Helper()
	if out, err := exec.CommandContext(m.t.Context(), name, args...).CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// start starts sshd and waits until it listens, because npctl may check it only once.
func (m *sshd) start() {
	m.t.Helper()
	log, err := os.Create(filepath.Join(m.dir, "sshd.log"))
	testutil.Must(m.t, err)
	defer log.Close() //nolint:errcheck // sshd has its own copy
	m.cmd = exec.CommandContext(context.WithoutCancel(m.t.Context()), "/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(m.dir, "sshd_config"))
	m.cmd.Stderr = log
	testutil.Must(m.t, m.cmd.Start())
	cmd := m.cmd
	m.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	testutil.Await(m.t, "sshd listens", func() bool {
		c, err := (&net.Dialer{}).DialContext(m.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", m.port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (m *sshd) stop() {
	m.t.Helper()
	testutil.Must(m.t, m.cmd.Process.Kill())
	_ = m.cmd.Wait()
}

// hostKey returns the host key of the machine, as in known_hosts.
func (m *sshd) hostKey() string {
	m.t.Helper()
	text := testutil.ReadFile(m.t, filepath.Join(m.dir, "host.pub"))
	return strings.Join(strings.Fields(text)[:2], " ")
}

// rack returns a configuration with that machine.
func rack(m *sshd, hostKey string) string {
	return fmt.Sprintf(`
npctl { images_dir = "images" }
label "metal" {}
label "slow" {}
provider "static" "rack" {
  pool "main" {
    node "metal1" {
      address         = "127.0.0.1"
      labels          = ["metal", "slow"]
      host_keys       = [%q]
      username        = "root"
      connection_port = %d
      slots           = 2
    }
  }
}
`, hostKey, m.port)
}

func TestMachinesAreCheckedAssignedAndReturned(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	m := s.newMachine()
	m.start()
	s.write(rack(m, m.hostKey()))
	d := s.start()
	testutil.Await(s.t, "both slots are ready", func() bool { return s.census() == "map[ready:2]" })
	for range 3 {
		nodes := s.nodes("metal", "slow")
		for _, n := range nodes {
			s.checkLogin(n)
			if out, err := s.ssh(n, "echo", "hello"); err != nil || out != "hello\n" {
				t.Errorf("ssh to node %s: %v: %s", n.ID, err, out)
			}
		}
		if nodes[0].ID == nodes[1].ID {
			t.Errorf("one slot was assigned twice: %s", nodes[0].ID)
		}
		waiting, err := s.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
		testutil.Must(t, err)
		if got := s.census(); got != "map[in-use:2]" {
			t.Errorf("nodes are %s while both slots are in use", got)
		}
		for _, n := range nodes {
			if _, err := s.ReturnNode(t.Context(), n.ID); err != nil {
				t.Error(err)
			}
		}
		for _, n := range s.take(waiting.ID) {
			if _, err := s.ReturnNode(t.Context(), n.ID); err != nil {
				t.Error(err)
			}
		}
		testutil.Await(s.t, "both slots are ready again", func() bool { return s.census() == "map[ready:2]" })
	}
	d.Stop()
}

func TestUnreachableMachineIsNotReturnedToThePool(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	m := s.newMachine()
	m.start()
	s.write(rack(m, m.hostKey()))
	d := s.start()
	testutil.Await(s.t, "both slots are ready", func() bool { return s.census() == "map[ready:2]" })
	n := s.nodes("metal")[0]
	m.stop()
	if _, err := s.ReturnNode(t.Context(), n.ID); err != nil {
		t.Fatal(err)
	}
	testutil.Await(s.t, "the slot has failed", func() bool {
		n, err := s.Node(t.Context(), n.ID)
		return err == nil && n.State == resources.StateFailed && strings.Contains(n.Error, "connection refused")
	})
	m.start()
	testutil.Await(s.t, "it is ready again", func() bool { return s.census() == "map[ready:2]" })
	d.Stop()
}

func TestMachineWithAnotherHostKeyIsNotAssigned(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	m := s.newMachine()
	m.start()
	s.write(rack(m, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8c"))
	d := s.start()
	testutil.Await(s.t, "the slots have failed", func() bool { return s.census() == "map[failed:2]" })
	nodes, err := s.Nodes(t.Context(), wire.NodeFilter{})
	if err != nil || !strings.Contains(nodes[0].Error, "does not show the host key") {
		t.Errorf("nodes are %+v, %v", nodes, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	r, err := s.CreateRequest(t.Context(), wire.NewRequest{Labels: []string{"metal"}})
	testutil.Must(t, err)
	if r, err := s.WaitRequest(ctx, r.ID); err == nil && r.State == resources.StateFulfilled {
		t.Errorf("the machine was assigned: %+v", r)
	}
	d.Stop()
}
