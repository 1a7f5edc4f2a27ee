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

	"github.com/npctl/npctl/drivers/sandbox/sandboxcloud"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
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
`, sandboxcloud.Options{})
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

// TestStaticNodeIsAssignedWithItsPresentHostKeys reinstalls a machine without host_keys, so that it has another key than at its
// last check.
func TestStaticNodeIsAssignedWithItsPresentHostKeys(t *testing.T) {
	var config atomic.Pointer[ssh.ServerConfig]
	install := func() (line string) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		testutil.Must(t, err)
		key, err := ssh.NewSignerFromKey(private)
		testutil.Must(t, err)
		c := &ssh.ServerConfig{NoClientAuth: true}
		c.AddHostKey(key)
		config.Store(c)
		return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _, _, _ = ssh.NewServerConn(conn, config.Load())
			_ = conn.Close()
		}
	}()
	first := install()
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
`, listener.Addr().(*net.TCPAddr).Port), sandboxcloud.Options{})
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
	second := install()
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
