package keyscan_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/internal/testutil"
)

// sshServer serves the given host keys until the test ends.
func sshServer(t *testing.T, keys ...ssh.Signer) string {
	t.Helper()
	config := &ssh.ServerConfig{NoClientAuth: true}
	for _, key := range keys {
		config.AddHostKey(key)
	}
	return serve(t, func(conn net.Conn) { _, _, _, _ = ssh.NewServerConn(conn, config) })
}

func serve(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
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
			answer(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return listener.Addr().String()
}

func signers(t *testing.T) (ssh.Signer, ssh.Signer) {
	t.Helper()
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	testutil.Must(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	ed, err := ssh.NewSignerFromKey(edKey)
	testutil.Must(t, err)
	ec, err := ssh.NewSignerFromKey(ecKey)
	testutil.Must(t, err)
	return ed, ec
}

func TestScanReturnsEveryKeyOfTheServer(t *testing.T) {
	ed, ec := signers(t)
	got, err := keyscan.Scan(t.Context(), sshServer(t, ec, ed), 10*time.Second)
	testutil.Must(t, err)
	want := []string{keyscan.Text(ed.PublicKey()), keyscan.Text(ec.PublicKey())}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestScanOfOtherProtocolIsAnError(t *testing.T) {
	address := serve(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.0 400 Bad Request\r\n\r\n") })
	if got, err := keyscan.Scan(t.Context(), address, 10*time.Second); err == nil {
		t.Errorf("Scan = %q, want an error", got)
	}
}

func TestScanOfASilentServerEnds(t *testing.T) {
	address := serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	_, err := keyscan.Scan(t.Context(), address, 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "50ms") {
		t.Errorf("error is %v, want one that names the limit", err)
	}
}

func TestScanOfAClosedPortSaysSo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	listener.Close()
	_, err = keyscan.Scan(t.Context(), listener.Addr().String(), time.Second)
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("error is %v, want that of the dial", err)
	}
}

func TestKeysAreComparedWithoutCommentsAndHosts(t *testing.T) {
	ed, _ := signers(t)
	want := keyscan.Text(ed.PublicKey())
	for _, line := range []string{want, want + " root@node", "node.example.com " + want, "[node]:2222,10.0.0.1 " + want + " x"} {
		if got, err := keyscan.Normal(line); err != nil || got != want {
			t.Errorf("Normal(%q) = %q, %v; want %q", line, got, err, want)
		}
	}
	if got, err := keyscan.Normal("ssh-ed25519 nonsense"); err == nil {
		t.Errorf("Normal of nonsense = %q, want an error", got)
	}
}
