package sshserver

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/internal/testutil"
)

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testutil.Must(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	testutil.Must(t, err)
	return signer
}

// serve serves one machine and returns its address, and a function that stops it.
func serve(t *testing.T, m Machine) (address string, end func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	m.HostKeys = []ssh.Signer{newSigner(t)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- (&Server{Find: func(context.Context, net.Addr) (Machine, bool) { return m, true }}).Serve(ctx, listener)
	}()
	end = func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			ended <- nil
		case <-time.After(testutil.Patience):
			t.Error("the server does not end")
		}
	}
	t.Cleanup(end)
	return listener.Addr().String(), end
}

func login(t *testing.T, address string, methods ...ssh.AuthMethod) (*ssh.Client, error) {
	t.Helper()
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{User: "zuul", Auth: methods, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 5 * time.Second}) //nolint:gosec // test only
	if err == nil {
		t.Cleanup(func() { _ = client.Close() })
	}
	return client, err
}

func TestOnlyAllowedKeysAreAccepted(t *testing.T) {
	right, wrong := newSigner(t), newSigner(t)
	address, _ := serve(t, Machine{Allowed: func(user string, key ssh.PublicKey) bool {
		return user == "zuul" && string(key.Marshal()) == string(right.PublicKey().Marshal())
	}})
	if _, err := login(t, address, ssh.PublicKeys(right)); err != nil {
		t.Errorf("the right key: %v", err)
	}
	for what, methods := range map[string][]ssh.AuthMethod{"another key": {ssh.PublicKeys(wrong)}, "no key": nil, "a password": {ssh.Password("x")}} {
		if _, err := login(t, address, methods...); err == nil {
			t.Errorf("%s got in", what)
		}
	}
}

func TestSessionRunsOneCommand(t *testing.T) {
	address, _ := serve(t, Machine{Run: func(_ context.Context, c Command) int {
		_, _ = io.Copy(c.Stdout, c.Stdin)
		return 7
	}})
	client, err := login(t, address)
	testutil.Must(t, err)
	if _, _, err := client.OpenChannel("direct-tcpip", nil); err == nil {
		t.Error("the machine forwards connections")
	}
	session, err := client.NewSession()
	testutil.Must(t, err)
	if err := session.RequestSubsystem("sftp"); err == nil {
		t.Error("the machine has subsystems")
	}
	_ = session.Close()
	if session, err = client.NewSession(); err != nil {
		t.Fatal(err)
	}
	if code, ok := session.Run("anything").(*ssh.ExitError); !ok || code.ExitStatus() != 7 { //nolint:errorlint // needs this exact type
		t.Errorf("command ended with %v, want exit status 7", code)
	}
}

// A stopping server does not wait for commands that never end.
func TestServerEndsWithItsContext(t *testing.T) {
	started := make(chan struct{})
	address, end := serve(t, Machine{Run: func(ctx context.Context, _ Command) int {
		close(started)
		<-ctx.Done()
		return 0
	}})
	client, err := login(t, address)
	testutil.Must(t, err)
	session, err := client.NewSession()
	testutil.Must(t, err)
	testutil.Must(t, session.Start("sleep for ever"))
	<-started
	end()
	if err := session.Wait(); err == nil {
		t.Error("a command that was cut off ended well")
	}
	if _, err := login(t, address); err == nil {
		t.Error("the server still answers")
	}
}
