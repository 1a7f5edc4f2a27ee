package static_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/static"
	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func open(t *testing.T) drivers.Cloud {
	t.Helper()
	c, err := static.New().Open(t.Context(), drivers.Env{Provider: "lab"}, static.New().Schema().Provider.Null())
	testutil.Must(t, err)
	return c
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	testutil.Must(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	testutil.Must(t, err)
	return signer
}

// machine starts an SSH server with the host key and returns it as a node.
func machine(t *testing.T, key ssh.Signer) resources.StaticNode {
	t.Helper()
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(key)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _, _, _ = ssh.NewServerConn(conn, config)
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	number, _ := strconv.ParseInt(port, 10, 64)
	return resources.StaticNode{Name: "static01", Address: host, Login: resources.Login{ConnectionPort: number}, Config: static.New().Schema().Node.Null()}
}

func with(config cty.Value, name string, value cty.Value) cty.Value {
	values := config.AsValueMap()
	values[name] = value
	return cty.ObjectVal(values)
}

func TestNodesAreNotCreatedListedOrDeleted(t *testing.T) {
	c := open(t)
	spec := drivers.Spec{Marks: resources.OwnerTags{Installation: "i", Kind: resources.KindNode, ID: "0000000001"}, Hostname: "static01"}
	first, err := c.Create(t.Context(), spec)
	if err != nil || first.Status != resources.StatusReady || first.ID == "" {
		t.Errorf("Create = %+v, %v; want a ready instance", first, err)
	}
	again, err := c.Create(t.Context(), spec)
	if diff := cmp.Diff(first, again); diff != "" || err != nil {
		t.Errorf("Create again: %v (-first +again):\n%s", err, diff)
	}
	if err := c.Delete(t.Context(), first.ID, first.Marks); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List = %v, %v; want nothing", list, err)
	}
	if q, err := c.Quota(t.Context()); err != nil || q.Limit.Instances != resources.Unlimited || q.Limit.Cores != resources.Unlimited {
		t.Errorf("Quota = %+v, %v; want no limits", q, err)
	}
	if _, ok := drivers.ImagesOf(c); ok {
		t.Error("static machines keep no images")
	}
}

func TestReachableNodePresentsItsKeys(t *testing.T) {
	key := newKey(t)
	node := machine(t, key)
	checker, ok := drivers.CheckerOf(drivers.Decorate(open(t), drivers.DecorateOptions{}))
	if !ok {
		t.Fatal("the static driver cannot check")
	}
	want := []string{keyscan.Text(key.PublicKey())}
	for _, keys := range [][]string{nil, want, {want[0] + " root@static01"}} {
		node.HostKeys = keys
		got, err := checker.Check(t.Context(), node)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Check with keys %q: %v (-want +got):\n%s", keys, err, diff)
		}
	}
}

func TestNodeWithAnotherKeyIsRejected(t *testing.T) {
	node := machine(t, newKey(t))
	node.HostKeys = []string{keyscan.Text(newKey(t).PublicKey())}
	_, err := open(t).(drivers.Checker).Check(t.Context(), node)
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), node.HostKeys[0]) {
		t.Errorf("Check: %v; want ErrRejected that names the missing key", err)
	}
}

func TestUnreachableNodeIsTransientError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	number, _ := strconv.ParseInt(port, 10, 64)
	listener.Close()
	node := resources.StaticNode{Name: "127.0.0.1", Config: static.New().Schema().Node.Null()}
	for _, kind := range []string{"ssh", "winrm"} {
		node.Login = resources.Login{ConnectionType: kind, ConnectionPort: number}
		_, err := open(t).(drivers.Checker).Check(t.Context(), node)
		if err == nil || errors.Is(err, drivers.ErrRejected) {
			t.Errorf("%s: Check: %v; want an error that may pass", kind, err)
		}
	}
}

func TestUncheckedNodeKeepsConfiguredKeys(t *testing.T) {
	node := resources.StaticNode{Name: "does-not-exist.invalid", HostKeys: []string{"ssh-ed25519 AAAA"}}
	node.Config = with(static.New().Schema().Node.Null(), "host_key_checking", cty.False)
	got, err := open(t).(drivers.Checker).Check(t.Context(), node)
	if diff := cmp.Diff(node.HostKeys, got); err != nil || diff != "" {
		t.Errorf("Check: %v (-want +got):\n%s", err, diff)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	node := machine(t, newKey(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t).(drivers.Checker).Check(ctx, node); !errors.Is(err, context.Canceled) {
		t.Errorf("Check: %v, want context canceled", err)
	}
}

func TestSchemaFulfilsTheContract(t *testing.T) { drivertest.Schema(t, static.New().Schema()) }
