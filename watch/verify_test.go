package watch_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/sshserver"
	"github.com/npctl/npctl/watch"
)

// door is a machine that listens on a loopback port until the test closes it.
func door(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return l
}

// TestUnreachableReadyMachineIsNotAssigned: one of two ready machines goes down. The next request gets the other.
func TestUnreachableReadyMachineIsNotAssigned(t *testing.T) {
	down, up := door(t), door(t)
	node := func(name string, l net.Listener) string {
		return fmt.Sprintf(`
    node %q {
      address         = "127.0.0.1"
      labels          = ["metal"]
      connection_type = "winrm"
      connection_port = %d
    }`, name, l.Addr().(*net.TCPAddr).Port)
	}
	l := newLab(t, `
npctl { images_dir = "images" }
label "metal" {}
provider "static" "rack" {
  pool "main" {`+node("down", down)+node("up", up)+`
  }
}
`, emulator.Options{})
	d, end := l.daemon()
	defer end()
	named := func(name string) (found resources.Node) {
		for _, n := range d.Last().Observed.Records.Nodes {
			if n.Hostname == name {
				found = *n
			}
		}
		return found
	}
	testutil.Await(l.t, "both are ready", func() bool {
		return named("down").State == resources.StateReady && named("up").State == resources.StateReady
	})
	_ = down.Close()
	l.ahead.Store(int64(10 * time.Minute))
	for range 2 { // otherwise one of them would get the machine that is down
		r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"metal"}})
		testutil.Must(t, err)
		if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled || got.Nodes[0] != named("up").ID {
			t.Fatalf("request is %s with %v: %s; up is %s", got.State, got.Nodes, got.Error, named("up").ID)
		}
		nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0)
		testutil.Must(t, err)
		if _, err := d.Clients.Return(t.Context(), nodes[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	if n := named("down"); n.State != resources.StateFailed || n.Error == "" {
		t.Errorf("the machine that is down is %s: %q", n.State, n.Error)
	}
}

// sshMachine answers SSH at a port of all loopback addresses.
type sshMachine struct {
	t           testing.TB
	listener    net.Listener
	config      atomic.Pointer[ssh.ServerConfig]
	connections atomic.Int64
}

func newSSHMachine(t testing.TB) *sshMachine {
	t.Helper()
	listener, err := sshserver.Listen(t.Context(), 0)
	testutil.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	m := &sshMachine{t: t, listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			m.connections.Add(1)
			_, _, _, _ = ssh.NewServerConn(conn, m.config.Load())
			_ = conn.Close()
		}
	}()
	return m
}

// install gives the machine a new host key and returns it.
func (m *sshMachine) install() (line string) {
	m.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	testutil.Must(m.t, err)
	key, err := ssh.NewSignerFromKey(private)
	testutil.Must(m.t, err)
	c := &ssh.ServerConfig{NoClientAuth: true}
	c.AddHostKey(key)
	m.config.Store(c)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
}

func (m *sshMachine) port() int { return m.listener.Addr().(*net.TCPAddr).Port }

// TestStaticNodeIsAssignedWithItsPresentHostKeys reinstalls a machine without host_keys, so that it has another key than at its
// last check.
func TestStaticNodeIsAssignedWithItsPresentHostKeys(t *testing.T) {
	machine := newSSHMachine(t)
	first := machine.install()
	l := newLab(t, fmt.Sprintf(`
npctl { images_dir = "images" }
label "metal" {}
provider "static" "rack" {
  pool "main" {
    node "machine" {
      address         = "127.0.0.1"
      labels          = ["metal"]
      connection_port = %d
    }
  }
}
`, machine.port()), emulator.Options{})
	d, end := l.daemon()
	defer end()
	keys := func() []string {
		for _, n := range d.Last().Observed.Records.Nodes {
			if n.State == resources.StateReady {
				return n.HostKeys
			}
		}
		return nil
	}
	testutil.Await(l.t, "the machine is ready with its key", func() bool { return slices.Equal(keys(), []string{first}) })
	second := machine.install()
	l.ahead.Store(int64(10 * time.Minute))
	r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"metal"}})
	testutil.Must(t, err)
	if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled {
		t.Fatalf("request is %s: %s", got.State, got.Error)
	}
	if nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0); err != nil || !slices.Equal(nodes[0].HostKeys, []string{second}) {
		t.Errorf("the node is assigned with the keys %v, %v; want %s", nodes[0].HostKeys, err, second)
	}
}

// cloudOf is a cloud with one ready node, whose image names the port of its machine.
func cloudOf(m *sshMachine, checking bool) string {
	return strings.NewReplacer("builder \"exec\"", fmt.Sprintf("connection_port = %d\n  builder \"exec\"", m.port()),
		"host_key_checking = false\n    max_servers", fmt.Sprintf("host_key_checking = %t\n    max_servers", checking)).Replace(fleet)
}

// readySmall waits for a ready, unassigned node with the label small.
func (l *lab) readySmall(d *watch.Daemon) (ready resources.Node) {
	l.t.Helper()
	testutil.Await(l.t, "a node is ready", func() bool {
		for _, n := range d.Last().Observed.Records.Nodes {
			if n.Provider == "one" && n.State == resources.StateReady && n.Request == "" {
				ready = *n
				return true
			}
		}
		return false
	})
	return ready
}

// TestReadyNodeWithAnotherHostKeyIsDeletedAndNotAssigned: another machine answers at the address of a ready node.
func TestReadyNodeWithAnotherHostKeyIsDeletedAndNotAssigned(t *testing.T) {
	machine := newSSHMachine(t)
	first := machine.install()
	l := newLab(t, cloudOf(machine, true), emulator.Options{})
	d, end := l.daemon()
	defer end()
	before := l.readySmall(d)
	if !slices.Equal(before.HostKeys, []string{first}) {
		t.Fatalf("the node has the keys %v, want %s", before.HostKeys, first)
	}
	second := machine.install()
	l.ahead.Store(int64(10 * time.Minute)) // the scan at its launch is too old to rely on
	r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"small"}})
	testutil.Must(t, err)
	if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled {
		t.Fatalf("request is %s: %s", got.State, got.Error)
	}
	nodes, err := d.Clients.Take(t.Context(), r.ID, "me", 0)
	if err != nil || len(nodes) != 1 || nodes[0].ID == before.ID || !slices.Equal(nodes[0].HostKeys, []string{second}) {
		t.Fatalf("the request for a node gets %v, %v; want another node than %s, with the key %s", nodes, err, before.ID, second)
	}
	testutil.Await(t, "the node is deleted", func() bool {
		inCloud, err := l.driver.Clouds["one"].Inventory()
		testutil.Must(t, err)
		return !slices.ContainsFunc(d.Last().Observed.Records.Nodes, func(n *resources.Node) bool { return n.ID == before.ID }) &&
			!slices.ContainsFunc(inCloud, func(o emulator.Thing) bool { return o.ID == before.ExternalID })
	})
}

// TestNodeWithoutHostKeyCheckingIsNotProbed: a pool with host_key_checking = false has nodes that npctl cannot reach.
func TestNodeWithoutHostKeyCheckingIsNotProbed(t *testing.T) {
	machine := newSSHMachine(t)
	machine.install()
	l := newLab(t, cloudOf(machine, false), emulator.Options{})
	d, end := l.daemon()
	defer end()
	before := l.readySmall(d)
	l.ahead.Store(int64(10 * time.Minute))
	r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"small"}})
	testutil.Must(t, err)
	if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled || !slices.Equal(got.Nodes, []string{before.ID}) {
		t.Errorf("request is %s with %v: %s; want node %s", got.State, got.Nodes, got.Error, before.ID)
	}
	if n := machine.connections.Load(); n > 0 {
		t.Errorf("npctl connected %d times to a node that it must not probe", n)
	}
}
